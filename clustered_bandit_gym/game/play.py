"""One play: pulls are checked, kept within the budget, drawn and counted; messages are billed; the
end is judged."""

from __future__ import annotations

import copy
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, Floats, Ints, Shape, Values
from clustered_bandit_gym.errors import BudgetExceeded, PlayOver, UserError
from clustered_bandit_gym.game.checks import indices, read_only, whole
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.isolation import Isolation, is_ours
from clustered_bandit_gym.game.judge import Judgement, judge
from clustered_bandit_gym.game.ledger import Direction, Ledger
from clustered_bandit_gym.game.payloads import Payload, Reals, bits_for, count_bits, counts_bits
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.pulls import MAX_PULLS, Kind, Simulator, Source, Steps, whole_times
from clustered_bandit_gym.game.seeds import AGENTS, POLICY, REWARDS, AgentStreams, play_stream


class Play:
    """The books of one play; the arguments are those of `Federation`."""

    pulls = 0
    rounds = 0
    #: The phase under which pulls and messages are counted now.
    current_phase = "play"
    #: The clustering that the policy reported.
    labels: Ints | None = None
    #: The arms (N,) and what the judge says of them, after the stop.
    answer: Ints | None = None
    judgement: Judgement | None = None
    #: What ended a play in strict mode, if anything did before its stop.
    failure: BaseException | None = None
    #: Runs local programs as copies, in strict mode.
    isolation: Isolation | None = None
    #: Name of the last local program, if it returned nothing.
    silent_program = ""
    #: Agents in a block at most; None for as many as fit in a cache.
    block_size: int | None = None
    #: (S,) the values that rewards can take, increasing; None where they are not finitely many.
    reward_values: Floats | None = None

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
        self._root = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
        if instance is not None:
            told = problem.n_agents, problem.n_arms
            true = instance.n_agents, instance.n_arms
            if told != true:
                raise UserError(
                    f"the problem is for {told} agents and arms, the instance has {true}"
                )
            values = instance.rewards.values
            rng = np.random.default_rng(play_stream(self._root, REWARDS))
            source = source or Simulator(instance, rng)
        if source is None:
            raise UserError("a play without an instance needs a source of rewards")
        self._instance = instance
        self._source = source
        #: Draws what is asked for in arrays; see `stepping`.
        self._requests = source
        if values is not None:
            self.reward_values = read_only(np.unique(np.asarray(values, dtype=float)))
        self.rng = np.random.default_rng(play_stream(self._root, POLICY))
        self.problem = problem
        #: A copy for policies and local programs, so that nothing done to it reaches the judge.
        self.told = copy.copy(problem)
        self.agents: Ints = read_only(np.arange(problem.n_agents))
        self.arms: Ints = read_only(np.arange(problem.n_arms))
        limit = MAX_PULLS if max_pulls is None else whole(max_pulls, "max_pulls")
        self.max_pulls = min(limit, MAX_PULLS)
        self._agent_limit = problem.max_pulls_per_agent or MAX_PULLS
        self._per_agent = np.zeros(problem.n_agents, dtype=int)
        self.pulls_by_phase: dict[str, int] = Counter()
        self.ledger = Ledger(c_b, c_r, itemise)
        #: What agents have saved: name -> array with one row per agent.
        self.memory: dict[str, Array] = {}
        self._process = os.getpid()

    @property
    def pulls_per_agent(self) -> Ints:
        """(N,) pulls made at each agent so far, a copy."""
        return self._per_agent.copy()

    @cached_property
    def agent_streams(self) -> AgentStreams:
        """The agents' own randomness, made when first used: 70 µs, a sixth of a reset."""
        return AgentStreams(play_stream(self._root, AGENTS), self.problem.n_agents)

    def check_open(self) -> None:
        """Raise `PlayOver` unless the play can go on, here."""
        if self._process != os.getpid():
            raise PlayOver("this federation belongs to another process; play it where it was made")
        if self.answer is not None:
            raise PlayOver("this play has stopped; make a new Federation or reset the environment")
        if self.failure is not None:
            raise PlayOver("this play has failed: in strict mode an exception in a program ends it")

    def draw(
        self, agents: Ints, arms: ArrayLike, times: ArrayLike, kind: Kind = "averages"
    ) -> Array:
        """Pulls, counted and not billed: what agents do on their own.

        Args:
            agents: valid ids.
            arms, times: integers that broadcast with them.
            kind: "averages" of the rewards, or "counts": how often each of `reward_values`
                occurred, (..., S).
        """
        self.check_open()
        arms = indices(arms, self.problem.n_arms, "arm")
        times = whole_times(times)
        values: Shape = ()
        if kind == "counts":
            if self.reward_values is None:
                raise UserError("rewards of infinitely many values cannot be counted")
            values = self.reward_values.shape
        try:
            shape, total = self._admit(agents, arms, times)
            if total == 0:
                return np.empty((*shape, *values), dtype=int if values else np.float64)
            drawn = self._requests.draw(agents, arms, times, kind)
        except BudgetExceeded as error:
            if self.isolation is None:
                raise
            self.failure = error
        if self.failure is not None:
            # Not in the clause: the text of the first error, which has all pulls, goes with it.
            raise BudgetExceeded("the budget is spent; in strict mode this ends the play")
        if self._requests is self._source:  # otherwise `single` has counted them
            self.pulls += total
            self.pulls_by_phase[self.current_phase] += total
            _add(self._per_agent, agents, times, math.prod(shape))
        return drawn

    def single(self, agent: int, arm: int) -> float:
        """`draw` of one pull, from plain ints already checked: the fast path of `env.step`."""
        made = self._per_agent.item(agent)
        if self.pulls >= self.max_pulls or made >= self._agent_limit:
            self._admit(np.array(agent), np.array(arm), np.array(1))  # raises
        sample = self._source.single(agent, arm)
        self.pulls += 1
        self._per_agent[agent] = made + 1
        self.pulls_by_phase[self.current_phase] += 1
        return sample

    @contextmanager
    def stepping(self, step: Callable[[int, int], float]) -> Iterator[None]:
        """Inside, every pull is one call `step(agent, arm)`, which counts it (`single`) and
        returns the reward."""
        self._requests = Steps(step, self.reward_values)
        try:
            yield
        finally:
            self._requests = self._source

    def _admit(self, agents: Ints, arms: Ints, times: Ints) -> tuple[Shape, int]:
        """Shape and number of the pulls asked for; raises where they would exceed a limit."""
        shape = _shape(agents, arms, times)
        cells = math.prod(shape)
        total = int(times.sum(dtype=float))  # exact up to 2**53, never overflows
        total *= cells // max(times.size, 1)
        if self.pulls + total > self.max_pulls:
            raise BudgetExceeded(
                f"{self.pulls:,} pulls made; {total:,} more exceed max_pulls = {self.max_pulls:,}"
            )
        if self.pulls + total > self._agent_limit:  # otherwise no agent can be beyond its limit
            more = np.zeros_like(self._per_agent)
            _add(more, agents, times, cells)
            beyond = self._per_agent + more > self._agent_limit
            if beyond.any():
                agent = beyond.argmax()
                raise BudgetExceeded(
                    f"agent {agent} has made {self._per_agent[agent]:,} pulls; more would exceed "
                    f"max_pulls_per_agent = {self._agent_limit:,}"
                )
        return shape, total

    def send(self, direction: Direction, payload: Payload, agents: Ints, program: Any) -> Array:
        """Bill `payload`, to or from each of `agents`, which run `program`; returns what arrives,
        one row per agent."""
        rows = payload.rows(agents.size)
        if isinstance(payload, Reals):
            rows = self.ledger.as_sent(rows).astype(float)
        bits = payload.bits
        if getattr(payload, "within", None) is not None and not is_ours(program):
            bits = bits + rows.shape[1]  # that both sides know the set cannot be checked
        self.ledger.record(self.current_phase, direction, payload.kind, agents, bits, payload.reals)
        return rows

    def order(self, kind: Kind, agents: ArrayLike, arms: ArrayLike, times: ArrayLike) -> Array:
        """Order pulls, and bill the orders and their answers."""
        agents = indices(agents, self.problem.n_agents, "agent")
        numbers = whole_times(times)
        _shape(agents, arms, numbers)
        agents, arms, numbers = np.broadcast_arrays(agents, arms, numbers)
        drawn = self.draw(agents, arms, numbers, kind)
        whom = agents.ravel()
        numbers = numbers.ravel()
        down = count_bits(numbers) + bits_for(self.problem.n_arms)
        up = counts_bits(numbers, drawn.shape[-1]) if kind == "counts" else 0
        phase = self.current_phase
        answer = {"averages": "real", "counts": "counts"}[kind]
        self.ledger.record(phase, "down", "order", whom, down, 0)
        self.ledger.record(phase, "up", answer, whom, up, int(kind == "averages"))
        self.rounds += whom.size > 0
        return drawn

    def stop(self, arms: ArrayLike) -> Judgement | None:
        """End the play with one arm per agent (N,); returns the judge's row, if there is one."""
        self.check_open()
        arm_ids = indices(arms, self.problem.n_arms, "arm")
        if arm_ids.shape != self.agents.shape:
            raise UserError(f"stop needs {self.agents.size} arms, got shape {arm_ids.shape}")
        self.answer = arm_ids.copy()
        if self._instance is not None:
            self.judgement = judge(self._instance, arm_ids, self.labels, self.problem.epsilon)
        return self.judgement

    def hint(self) -> str:
        """What a failed policy's programs changed in vain; "" for nothing."""
        return "" if self.isolation is None else self.isolation.lost()

    def snapshot(self) -> Values:
        """The state of the play for `restore`, for the environment that owns it."""
        return {**vars(self), "isolation": None}

    @classmethod
    def restore(cls, snapshot: Values) -> Self:
        """The play that `snapshot` describes."""
        play = cls.__new__(cls)
        vars(play).update(snapshot, _process=os.getpid())
        return play


def _shape(*arrays: ArrayLike) -> Shape:
    """Of agents, arms and times together."""
    shapes = [np.shape(array) for array in arrays]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise UserError(
            "agents (or rows), arms and times need one entry for each request, or shapes that "
            f"broadcast, such as rows[:, None] and arms[None, :]; got {shapes}"
        ) from None


def _add(counts: Ints, agents: Ints, times: Ints, cells: int) -> None:
    """Add a request of so many cells, `times` at each of `agents` (they broadcast), to the counts
    (N,) of the agents."""
    if times.ndim and agents.shape != times.shape:
        agents, times = np.broadcast_arrays(agents, times)
    np.add.at(counts, agents, times * (cells // max(agents.size, 1)))
