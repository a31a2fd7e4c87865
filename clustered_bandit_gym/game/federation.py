"""One play: the simulator, the channel between centre and agents, and the judge.

What a local program returns is what is sent, and what is sent is billed: a policy cannot forget to
count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import indices
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.isolation import Isolation, is_ours, program_name
from clustered_bandit_gym.game.judge import Judgement, judge
from clustered_bandit_gym.game.ledger import Direction, Ledger
from clustered_bandit_gym.game.payloads import (
    Payload,
    Reals,
    alphabet,
    as_made,
    bits_for,
    count_bits,
    counts_bits,
)
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.pulls import Kind, Play, Simulator, Source, whole_times
from clustered_bandit_gym.game.seeds import REWARDS, play_stream
from clustered_bandit_gym.game.view import Block, FederationView

#: Agents of a local program run in blocks of about this many (agent, arm) cells: what fits in a
#: cache.
BLOCK_CELLS = 2**18


class Federation(Play):
    """A centre and N agents playing one instance.

    Args:
        instance: the truth; no public attribute leads back to it. None where nobody knows it: then
            `source` is required, `values` says which rewards occur, and the play has an answer but
            no judgement.
        problem: what the learner is told.
        seed: int, `SeedSequence` or None. Rewards and the policy's own randomness (`rng`) are
            separate streams.
        source: draws the rewards; by default a `Simulator` of the instance with the seed's stream
            of rewards.
        values: without an instance, the values that rewards can take; None where they are not
            finitely many.
        max_pulls: pulls beyond this raise `BudgetExceeded` before they are drawn.
        c_b, c_r, itemise: prices and detail of the ledger.

    Public: `problem`, `agents` (all ids), `rng`, `ledger`, `pulls`, `pulls_per_agent`,
    `pulls_by_phase`, `rounds` (exchanges between centre and agents), `answer` (the arms, after
    `stop`), `judgement` (likewise), `labels` (the clustering that the policy reported).

    This object holds all counts and belongs to the judge of the play. The harness gives a policy
    its `view()`.
    """

    def __init__(
        self,
        instance: Instance | None,
        problem: Problem,
        seed: int | SeedSequence | None = None,
        *,
        source: Source | None = None,
        values: ArrayLike | None = None,
        max_pulls: int | None = None,
        c_b: float = 1.0,
        c_r: float = 32.0,
        itemise: bool = False,
    ) -> None:
        # One root for all streams: without a seed it is drawn from the system.
        root = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
        if instance is not None:
            if (problem.n_agents, problem.n_arms) != (instance.n_agents, instance.n_arms):
                raise UserError(
                    f"the problem is for {problem.n_agents} agents and {problem.n_arms} arms, "
                    f"the instance has {instance.n_agents} and {instance.n_arms}"
                )
            values = instance.rewards.values
            rng = np.random.default_rng(play_stream(root, REWARDS))
            source = source or Simulator(instance, rng)
        if source is None:
            raise UserError("a play without an instance needs a source of rewards")
        super().__init__(problem, root, source, values, max_pulls)
        self._instance = instance
        self.ledger = Ledger(c_b, c_r, itemise)
        self.rounds = 0
        self.judgement: Judgement | None = None
        self.labels: Ints | None = None
        #: Runs local programs as copies, in strict mode.
        self.isolation: Isolation | None = None
        #: Name of the last local program, if it returned nothing.
        self.silent_program = ""
        #: Agents in a block at most; None for as many as fit in a cache.
        self.block_size: int | None = None

    def view(self, strict: bool = False) -> FederationView:
        """What the harness gives to a policy: this play without its books."""
        return FederationView(self, strict)

    def hint(self) -> str:
        """What a failed policy's programs changed in vain; "" for nothing."""
        return "" if self.isolation is None else self.isolation.lost()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Pulls and messages inside are counted under `name`; an inner phase takes over until it
        ends."""
        before = self.current_phase
        self.current_phase = str(name)
        try:
            yield
        finally:
            self.current_phase = before

    def local(
        self,
        agents: ArrayLike,
        program: Callable[..., Payload | Sequence[Payload] | None],
        down: Payload | Sequence[Payload] = (),
        *,
        n_arms: int | None = None,
    ) -> Any:
        """Run `program` at `agents` (ids, each at most once) and hand what it returns to the
        centre.

        `down` is sent to each agent first. `program(block, *values)` gets a `Block` of the agents
        and, for each payload of `down`, its values with one row per agent; it must treat rows
        independently, since large sets of agents run block after block. The payloads it returns are
        billed per agent. `n_arms`, if the program works on so many arms of an agent only, makes the
        blocks larger: fewer and faster.

        Returns:
            The values of the returned payload, one row per agent in the order of `agents`; a tuple
            of such arrays if the program returns several; None if it returns none, or if there are
            no agents.
        """
        self.check_open()
        agents = indices(agents, self.problem.n_agents, "agent")
        if agents.ndim != 1 or np.unique(agents).size < agents.size:
            raise UserError("agents must be a vector of ids, each at most once")
        run = program if self.isolation is None else self.isolation.isolated(program)
        tables = [self._send("down", payload, agents, program) for payload in _payloads(down)]
        size = self.block_size or max(1, BLOCK_CELLS // (n_arms or self.problem.n_arms))
        answer: Payload | Sequence[Payload] | None = None
        forms: list[list[tuple[object, ...]]] = []
        parts: list[list[Array]] = []
        for start in range(0, agents.size, size):
            rows = slice(start, start + size)
            block = Block(self, agents[rows])
            try:
                answer = run(block, *[table[rows] for table in tables])
            finally:
                block.close()
            payloads = _payloads(answer)
            forms.append([alphabet(payload) for payload in payloads])
            if forms[-1] != forms[0]:
                raise UserError(
                    "a program sends every agent's message in the same form: kind, shape, and "
                    "`among`, `at_most` or `grid`"
                )
            parts.append([self._send("up", one, block.agents, program) for one in payloads])
        messages = [np.concatenate(part) for part in zip(*parts, strict=True)]
        self.rounds += bool(tables or messages)
        self.silent_program = "" if messages else program_name(program)
        if isinstance(answer, Payload):
            return messages[0]
        return tuple(messages) or None

    def _send(self, direction: Direction, payload: Payload, agents: Ints, program: Any) -> Array:
        """Bill `payload`, to or from each of `agents`, which run `program`; returns what arrives,
        one row per agent."""
        rows = payload.rows(agents.size)
        if isinstance(payload, Reals):
            rows = self.ledger.as_sent(rows).astype(np.float64)
        bits = payload.bits
        if getattr(payload, "within", None) is not None and not is_ours(program):
            bits = bits + self.problem.n_arms  # that both sides know the set cannot be checked
        self.ledger.record(self.current_phase, direction, payload.kind, agents, bits, payload.reals)
        return rows

    def pull(self, agents: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Floats:
        """Central control: order `times` pulls of `arms` at `agents` (arrays that broadcast) and
        get the averages.

        Billed per row: ⌈log2 K⌉ bits down for the arm, the Elias δ code of `times` (1 bit for one
        pull, about log2 times + 2 log2 log2 times for many: the agent does not know its range), and
        one real up.
        """
        return self._ordered("averages", agents, arms, times)

    def pull_counts(self, agents: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Ints:
        """As `pull`, and instead of averages get how often each of `reward_values` occurred: (...,
        S).

        Billed per row: the same order down; up one symbol out of the C(times + S − 1, S − 1)
        possible answers.
        """
        return self._ordered("counts", agents, arms, times)

    def _ordered(self, kind: Kind, agents: ArrayLike, arms: ArrayLike, times: ArrayLike) -> Array:
        """Order pulls, and bill the orders and their answers."""
        agents, arms, numbers = np.broadcast_arrays(agents, arms, whole_times(times))
        drawn = self.draw(agents, arms, numbers, kind)
        whom, numbers = agents.ravel(), numbers.ravel()
        down = count_bits(numbers) + bits_for(self.problem.n_arms)
        up = counts_bits(numbers, drawn.shape[-1]) if kind == "counts" else 0
        phase, answer = self.current_phase, {"averages": "real", "counts": "counts"}[kind]
        self.ledger.record(phase, "down", "order", whom, down, 0)
        self.ledger.record(phase, "up", answer, whom, up, int(kind == "averages"))
        self.rounds += whom.size > 0
        return drawn

    def report_clusters(self, labels: ArrayLike) -> None:
        """Report the clustering that the policy has found: (N,) integer labels.

        It is free and does not change the verdict; the judge uses it to separate clustering errors
        from arm errors.
        """
        vector = np.asarray(labels)
        if vector.shape != self.agents.shape or vector.dtype.kind not in "iu":
            raise UserError(
                f"cluster labels are {self.agents.size} integers, got {vector.dtype} {vector.shape}"
            )
        self.labels = vector.astype(np.int64)

    def stop(self, arms: ArrayLike) -> Judgement | None:
        """End the play with one arm per agent (N,); returns the judge's row, None without an
        instance."""
        self.check_open()
        arm_ids = indices(arms, self.problem.n_arms, "arm")
        if arm_ids.shape != self.agents.shape:
            raise UserError(
                f"stop needs one arm for each of the {self.agents.size} agents, got shape "
                f"{arm_ids.shape}"
            )
        self.answer = arm_ids.copy()
        if self._instance is not None:
            self.judgement = judge(self._instance, arm_ids, self.labels, self.problem.epsilon)
        return self.judgement

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a federation cannot be copied or pickled: a play happens once")

    def snapshot(self) -> dict[str, Any]:
        """The state of the play for `restore`, for the environment that owns it."""
        return {**vars(self), "isolation": None}

    @classmethod
    def restore(cls, snapshot: dict[str, Any]) -> Federation:
        """The play that `snapshot` describes."""
        federation = cls.__new__(cls)
        vars(federation).update(snapshot, _process=os.getpid())
        return federation


def _payloads(answer: Payload | Sequence[Payload] | None) -> list[Payload]:
    """What a program returned, as a list of payloads as their constructors made them."""
    if answer is None:
        return []
    several = answer if isinstance(answer, tuple | list) else [answer]
    return [as_made(payload) for payload in several]
