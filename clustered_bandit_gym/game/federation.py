"""The federation of one play, and what a policy gets of it: `FederationView` at the centre, `Block`
at the agents.

What a local program returns is what is sent, and what is sent is billed: a policy cannot forget to
count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from inspect import signature
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, Floats, Ints, Rng
from clustered_bandit_gym.errors import BudgetExceeded, PlayOver, ProgramFailed, UserError
from clustered_bandit_gym.game.checks import indices, read_only
from clustered_bandit_gym.game.isolation import Isolation, program_name
from clustered_bandit_gym.game.payloads import Payload, alphabet, as_made
from clustered_bandit_gym.game.play import Play
from clustered_bandit_gym.game.problem import Problem

#: Agents of a local program run in blocks of about so many (agent, arm) cells, to fit in a cache.
BLOCK_CELLS = 2**18

T = TypeVar("T")
#: What a local program returns.
Answer = Payload | Sequence[Payload] | None


class Channel:
    """What the centre of a play can do: run programs at the agents, and order pulls."""

    _play: Play

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Pulls and messages inside are counted under `name`, those of an inner phase under its."""
        before = self._play.current_phase
        self._play.current_phase = str(name)
        try:
            yield
        finally:
            self._play.current_phase = before

    def local(
        self,
        agents: ArrayLike,
        program: Callable[..., Answer],
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
        return self._attempt(BaseException, self._run, agents, program, down, n_arms)

    def _run(
        self, ids: ArrayLike, program: Callable[..., Answer], down: Answer, n_arms: int | None
    ) -> Any:
        play = self._play
        play.check_open()
        agents = indices(ids, play.problem.n_agents, "agent")
        if agents.ndim != 1 or not np.diff(np.sort(agents)).all():
            raise UserError("agents must be a vector of ids, each at most once")
        run = program if play.isolation is None else play.isolation.isolated(program)
        tables = [play.send("down", payload, agents, program) for payload in _payloads(down)]
        size = play.block_size or max(1, BLOCK_CELLS // (n_arms or play.problem.n_arms))
        answer: Answer = None
        form: list[list[object]] | None = None
        parts: list[list[Array]] = []
        for start in range(0, agents.size, size):
            rows = slice(start, start + size)
            block = Block(play, agents[rows])
            try:
                answer = run(block, *[table[rows] for table in tables])
            except TypeError:
                _check_form(program, len(tables))
                raise
            finally:
                block._over = True
            payloads = _payloads(answer)
            found = [alphabet(payload) for payload in payloads]
            if form not in (None, found):
                raise UserError(
                    "a program sends every agent's message in the same form: kind, shape, and "
                    "`among`, `at_most` or `grid`"
                )
            form = found
            parts.append([play.send("up", one, block.agents, program) for one in payloads])
        messages = [np.concatenate(part) for part in zip(*parts, strict=True)]
        play.rounds += bool(tables or messages)
        play.silent_program = "" if messages else program_name(program)
        if isinstance(answer, Payload):
            return messages[0]
        return tuple(messages) or None

    def pull(self, agents: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Floats:
        """Central control: order `times` pulls of `arms` at `agents` (arrays that broadcast) and
        get the averages.

        Billed per row: ⌈log2 K⌉ bits down for the arm, the Elias δ code of `times` (1 bit for one
        pull, about log2 times + 2 log2 log2 times for many: the agent does not know its range), and
        one real up.
        """
        return self._attempt(BudgetExceeded, self._play.order, "averages", agents, arms, times)

    def pull_counts(self, agents: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Ints:
        """As `pull`, for how often each of `reward_values` occurred: (..., S).

        Billed per row: the same order down; up one symbol out of C(times + S − 1, S − 1).
        """
        return self._attempt(BudgetExceeded, self._play.order, "counts", agents, arms, times)

    def report_clusters(self, labels: ArrayLike) -> None:
        """Report the clustering that the policy has found, (N,) integer labels: free, and only used
        to separate clustering errors from arm errors."""
        vector = np.asarray(labels)
        agents = self._play.agents
        if vector.shape != agents.shape or vector.dtype.kind not in "iu":
            raise UserError(
                f"cluster labels are {agents.size} integers, got {vector.dtype} {vector.shape}"
            )
        self._play.labels = vector.astype(int)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a federation cannot be copied or pickled: a play happens once")

    def _attempt(self, fatal: type[BaseException], request: Callable[..., T], *arguments: Any) -> T:
        """`request(*arguments)`; in strict mode a `fatal` exception ends the play.

        The policy learns what kind of failure it was, nothing else. What is wrong with an answer
        could tell what is in it. A policy that could go on after a spent budget would find out,
        order by order, how many pulls the agents have made.
        """
        if self._play.isolation is None:
            return request(*arguments)
        self._play.check_open()
        try:
            return request(*arguments)
        except fatal as error:
            failure = error
        # Outside of the clause, so that what is raised does not carry the first one with it.
        self._play.failure = failure = self._play.failure or failure
        if isinstance(failure, KeyboardInterrupt):
            raise KeyboardInterrupt
        if isinstance(failure, BudgetExceeded):
            raise BudgetExceeded("the budget is spent; in strict mode this ends the play")
        raise ProgramFailed("a local program raised an exception; strict mode ends the play")


class Federation(Channel, Play):
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

    @property
    def _play(self) -> Play:  # type: ignore[override]
        return self

    def view(self, strict: bool = False, policy: object = None) -> FederationView:
        """What the harness gives to a policy: this play without its books."""
        return FederationView(self, strict, policy)


class FederationView(Channel):
    """The centre's side of a play: everything a policy may use, nothing that it could change.

    It has the methods of a `Federation`. Attributes are read-only. `stop` is final and returns None:
    a policy does not learn whether it was right. Counts of pulls, ledger and judgement are kept in
    the federation itself, which no public name leads to: the time at which an agent stops carries
    information.

    Args:
        federation: the `Federation`.
        strict: nothing comes from the agents but what they send. Local programs run as serialised
            copies. An exception in a program, or a spent budget, ends the play, and what it says is
            not shown to the policy.
        policy: who gets it; programs of this package's own policies are not copied.

    Attributes:
        problem: what the learner is told; the harness judges by its own copy.
        agents, arms: (N,) and (K,) ids of all agents and arms.
        reward_values: (S,) the values that rewards can take, increasing; None where they are not
            finitely many.
        rng: the policy's own randomness; apart from the stream of rewards.
        max_pulls: pulls beyond this raise `BudgetExceeded`.
    """

    problem: Problem
    agents: Ints
    arms: Ints
    reward_values: Floats | None
    rng: Rng
    max_pulls: int

    def __init__(self, federation: Play, strict: bool = False, policy: object = None) -> None:
        shared = ("agents", "arms", "reward_values", "rng", "max_pulls")
        vars(self).update({name: getattr(federation, name) for name in shared})
        # A copy for the centre: the agents' own is within reach of local programs.
        vars(self).update(problem=copy(federation.told), _play=federation)
        federation.isolation = Isolation(self, policy) if strict else None

    def stop(self, arms: ArrayLike) -> None:
        """End the play with one arm per agent (N,), as returning them does; it is final."""
        self._play.stop(arms)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot set {name!r}: a policy only reads the federation")


class Block:
    """Agents that run a local program side by side; rows 0..n−1 are `agents`.

    A block is valid while the program runs: the centre cannot keep it to pull arms without sending
    anything.

    Attributes:
        problem: what the learner is told.
        values: (S,) the values that rewards can take, increasing; None where they are not finitely
            many.
    """

    def __init__(self, play: Play, agents: Ints, whole: Block | None = None) -> None:
        # A copy for each block: what one writes into it, no other one reads.
        self.problem: Problem = whole.problem if whole else copy(play.told)
        values = play.reward_values
        self.values = None if values is None else read_only(values)
        self._play = play
        self._whole = whole or self
        #: The program has returned: any later use raises `PlayOver`.
        self._over = False
        self._agents: Ints = read_only(agents)

    def __len__(self) -> int:
        return self._agents.size

    @property
    def agents(self) -> Ints:
        """(n,) the ids of the agents, read-only."""
        return self._agents

    @property
    def _open_play(self) -> Play:
        if self._whole._over:
            raise PlayOver("this block's program has returned; start another by local(...)")
        return self._play

    def part(self, rows: ArrayLike) -> Block:
        """The agents of `rows` as a block of their own."""
        return Block(self._open_play, self._ids(rows), whole=self._whole)

    def _ids(self, rows: ArrayLike) -> Ints:
        return self._agents[indices(rows, len(self), "row")]

    def pull(self, rows: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Floats:
        """Average of `times` fresh pulls of `arms` at the agents of `rows` (integer arrays that
        broadcast); a grid `pull(rows[:, None], arms[None, :], n)` is the fastest form."""
        return self._open_play.draw(self._ids(rows), arms, times)

    def pull_grid(self, times: int) -> Floats:
        """Average of `times` fresh pulls of every arm at every agent of the block: (n, K)."""
        play = self._open_play
        return play.draw(self._agents[:, None], play.arms[None, :], times)

    def pull_counts(self, rows: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Ints:
        """As `pull`, for how often each of `values` occurred, (..., S): all about an agent's rewards
        but their order."""
        return self._open_play.draw(self._ids(rows), arms, times, "counts")

    def random(self, size: int) -> Floats:
        """(n, size) uniform random numbers in [0, 1), each row its agent's own: the same in
        whatever block it is."""
        return self._open_play.agent_streams.uniform(self._agents, size)

    def save(self, name: str, values: ArrayLike) -> None:
        """Keep `values` (n, ...) at the agents for a later program: what stays at an agent is not
        sent."""
        values = np.asarray(values)
        empty = np.zeros((self.problem.n_agents, *values.shape[1:]), dtype=values.dtype)
        kept = self._open_play.memory.setdefault(name, empty)
        expected = (len(self), *kept.shape[1:])
        if (values.shape, values.dtype) != (expected, kept.dtype):
            raise UserError(
                f"save {name!r}: expected {kept.dtype} of shape {expected}, got {values.dtype} of "
                f"shape {values.shape}; each name keeps rows of one form"
            )
        kept[self.agents] = values

    def load(self, name: str) -> Array:
        """What these agents saved under `name`: (n, ...), zeros where an agent saved nothing."""
        memory = self._open_play.memory
        if name not in memory:
            raise KeyError(f"no agent has saved {name!r}")
        return memory[name][self.agents]


def _check_form(program: Callable[..., Answer], sent: int) -> None:
    """Tell a program that does not take what it is called with."""
    form = signature(program)
    try:
        form.bind(None, *range(sent))
    except TypeError as error:
        raise UserError(
            f"the local program {program_name(program)}{form} is called with the block and one array "
            f"for each payload of down=, here {sent}: {error}"
        ) from None


def _payloads(answer: Answer) -> list[Payload]:
    """What a program returned, as a list of payloads as their constructors made them."""
    if answer is None:
        return []
    several = answer if isinstance(answer, tuple | list) else [answer]
    return [as_made(payload) for payload in several]
