"""Pulls of a play: arguments checked, the budget kept, rewards drawn, pulls counted.

A `Source` draws the rewards. The default simulates the instance. Another source can draw from a
tilted law, or pass every pull on to another simulator.
"""

from __future__ import annotations

import copy
import math
import operator
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, Floats, Ints, Rng, Times
from clustered_bandit_gym.errors import BudgetExceeded, PlayOver, UserError
from clustered_bandit_gym.game.checks import indices, read_only, whole
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.seeds import (
    AGENTS,
    POLICY,
    AgentStreams,
    SealedSeed,
    child_seed,
    play_stream,
)

#: What is wanted of the rewards of a request: their averages, or how often each value occurred.
Kind = Literal["averages", "counts"]
#: Largest number of pulls of one arm in one request: whole numbers up to here are exact in float64.
MAX_TIMES = 2**53
#: Largest number of pulls in one play: counts are int64.
MAX_PULLS = 2**62


def whole_times(times: ArrayLike) -> Ints:
    """`times` as an int64 array, checked to lie in 1..`MAX_TIMES`."""
    if isinstance(times, int) and not isinstance(times, bool):
        # Exact, whatever a subclass of int says of itself.
        times = min(operator.index(times), MAX_TIMES + 1)
    array = np.asarray(times)
    if array.dtype.kind not in "iu":
        raise UserError(f"times must be whole numbers, got {array.dtype}")
    if array.min(initial=1) < 1:
        raise UserError(f"an arm is pulled at least once: times must be >= 1, got {array.min()}")
    if array.max(initial=1) > MAX_TIMES:
        raise BudgetExceeded(f"more than {MAX_TIMES:,} pulls of one arm in one request")
    return array.astype(np.int64, copy=False)


class Play:
    """The agents' side of one play: what was pulled, and the pulls to come.

    Args:
        problem: what the learner is told.
        seed: root of the streams of the policy and the agents.
        source: draws the rewards.
        values: the values that rewards can take; None where they are not finitely many.
        max_pulls: see `Federation`.
    """

    def __init__(
        self,
        problem: Problem,
        seed: SeedSequence,
        source: Source,
        values: ArrayLike | None,
        max_pulls: int | None,
    ) -> None:
        #: (S,) the values that rewards can take, increasing; None where they are not finitely many.
        self.reward_values: Floats | None = None
        if values is not None:
            self.reward_values = read_only(np.unique(np.asarray(values, dtype=np.float64)))
        self._source = source
        #: Draws what is asked for in arrays; see `stepping`.
        self._requests = source
        # NumPy takes any ISeedSequence; its annotations name SeedSequence alone.
        sealed: Any = SealedSeed(play_stream(seed, POLICY))
        self.rng = np.random.Generator(np.random.PCG64(sealed))
        self.problem = problem
        #: A copy for policies and local programs, so that nothing done to it reaches the judge.
        self.told = copy.copy(problem)
        self.agents: Ints = read_only(np.arange(problem.n_agents))
        self.arms: Ints = read_only(np.arange(problem.n_arms))
        limit = MAX_PULLS if max_pulls is None else whole(max_pulls, "max_pulls")
        self.max_pulls = min(limit, MAX_PULLS)
        self._agent_limit = problem.max_pulls_per_agent or MAX_PULLS
        self.pulls = 0
        self._per_agent: Ints = np.zeros(problem.n_agents, dtype=np.int64)
        self.pulls_by_phase: dict[str, int] = Counter()
        #: The phase under which pulls and messages are counted now.
        self.current_phase = "play"
        #: The arms (N,), after the stop.
        self.answer: Ints | None = None
        #: What ended a play in strict mode, if anything did before its stop.
        self.failure: BaseException | None = None
        #: What agents have saved: name -> array with one row per agent.
        self.memory: dict[str, Array] = {}
        self._root = seed
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
        self, agents: ArrayLike, arms: ArrayLike, times: ArrayLike, kind: Kind = "averages"
    ) -> Array:
        """Pulls, counted and not billed: what agents do on their own.

        Args:
            agents, arms, times: integers that broadcast.
            kind: "averages" of the rewards, or "counts": how often each of `reward_values`
                occurred, (..., S).
        """
        self.check_open()
        agents = indices(agents, self.problem.n_agents, "agent")
        arms = indices(arms, self.problem.n_arms, "arm")
        times = whole_times(times)
        values: tuple[int, ...] = ()
        if kind == "counts":
            if self.reward_values is None:
                raise UserError(
                    "these rewards take infinitely many values and cannot be counted; draw averages"
                )
            values = self.reward_values.shape
        shape, total = self._admit(agents, arms, times)
        if total == 0:
            return np.empty((*shape, *values), dtype=np.int64 if values else np.float64)
        drawn = self._requests.draw(agents, arms, times, kind)
        if self._requests is self._source:  # otherwise `draw_one` has counted them
            self.pulls += total
            self.pulls_by_phase[self.current_phase] += total
            _add(self._per_agent, agents, times, shape)
        return drawn

    def draw_one(self, agent: int, arm: int) -> float:
        """`draw` of one pull, from plain ints already checked: the fast path of `env.step`."""
        made = self._per_agent.item(agent)
        if self.pulls >= self.max_pulls or made >= self._agent_limit:
            self._admit(np.array(agent), np.array(arm), 1)  # raises
        sample = self._source.single(agent, arm)
        self.pulls += 1
        self._per_agent[agent] = made + 1
        self.pulls_by_phase[self.current_phase] += 1
        return sample

    @contextmanager
    def stepping(self, step: Callable[[int, int], float]) -> Iterator[None]:
        """Inside, every pull is one call `step(agent, arm)`, which counts it (`draw_one`) and
        returns the reward."""
        self._requests = Steps(step, self.reward_values)
        try:
            yield
        finally:
            self._requests = self._source

    def _admit(self, agents: Ints, arms: Ints, times: Times) -> tuple[tuple[int, ...], int]:
        """Shape and number of the pulls asked for; raises where they would exceed a limit."""
        shape = np.broadcast(agents, arms, times).shape
        total = int(np.sum(times, dtype=np.float64))  # exact up to 2**53, and cannot overflow
        if total >= MAX_TIMES:
            total = int(np.sum(times, dtype=object))
        total *= math.prod(shape) // max(np.size(times), 1)
        if self.pulls + total > self.max_pulls:
            raise BudgetExceeded(
                f"{self.pulls:,} pulls made; {total:,} more would exceed max_pulls = "
                f"{self.max_pulls:,}"
            )
        if self.pulls + total > self._agent_limit:  # otherwise no agent can be beyond its limit
            more = np.zeros_like(self._per_agent)
            _add(more, agents, times, shape)
            beyond = self._per_agent + more > self._agent_limit
            if beyond.any():
                agent = beyond.argmax()
                raise BudgetExceeded(
                    f"agent {agent} has made {self._per_agent[agent]:,} pulls; more would exceed "
                    f"max_pulls_per_agent = {self._agent_limit:,}"
                )
        return shape, total


def _add(counts: Ints, agents: Ints, times: Times, shape: tuple[int, ...]) -> None:
    """Add `times` pulls at `agents`, which broadcast to `shape`, to the counts (N,) of the agents."""
    agents, times = np.broadcast_to(agents, shape), np.broadcast_to(times, shape)
    if agents.ndim == 2 and agents.strides[1] == 0:
        # A grid of agents and arms: one addition per agent, not one per cell, which saves a fifth
        # of a large play.
        agents, times = agents[:, 0], times.sum(axis=1)
    np.add.at(counts, agents, times)


# --- where rewards come from ----------------------------------------------------------------------


class Source(Protocol):
    """Draws the rewards of one play. Indices are valid and counted by the caller."""

    def draw(self, agents: Ints, arms: Ints, times: Times, kind: Kind) -> Array:
        """`times` fresh pulls of `arms` at `agents`, integer arrays that broadcast: "averages", or
        "counts" (..., S) of the values that rewards can take."""
        ...

    def single(self, agent: int, arm: int) -> float:
        """One pull."""
        ...


class Simulator:
    """Draws from the laws of an instance, in O(1) for any number of pulls.

    Args:
        instance: the truth.
        rng: the play's stream of rewards.
    """

    def __init__(self, instance: Instance, rng: Rng) -> None:
        self._clusters = instance.clusters
        self._means = instance.means
        self._rewards = instance.rewards
        self._rng = rng

    def draw(self, agents: Ints, arms: Ints, times: Times, kind: Kind = "averages") -> Array:
        law = self._rewards.average if kind == "averages" else self._rewards.counts
        clusters = np.asarray(self._clusters.take(agents))
        return np.asarray(law(self._rng, self._means, clusters, arms, times))

    def single(self, agent: int, arm: int) -> float:
        cluster = self._clusters.item(agent)  # plain ints are the fastest index
        return float(
            self._rewards.single(self._means, cluster, arm, self._rewards.noise(self._rng))
        )


class CellByCell(ABC):
    """Draws the cells of a request one after the other."""

    def draw(self, agents: Ints, arms: Ints, times: Times, kind: Kind) -> Array:
        cells = np.broadcast(agents, arms, times)
        drawn = np.array(
            [self.draw_cell(int(agent), int(arm), int(n), kind) for agent, arm, n in cells]
        )
        return drawn.reshape((*cells.shape, *drawn.shape[1:]))

    @abstractmethod
    def draw_cell(self, agent: int, arm: int, n: int, kind: Kind) -> Any:
        """`n` pulls of an arm at an agent."""


class Steps(CellByCell):
    """Draws every pull by a call `step(agent, arm)` that returns the reward.

    Args:
        step: makes one pull.
        values: (S,) the values that rewards can take; None where they are not finitely many.
    """

    def __init__(self, step: Callable[[int, int], float], values: Floats | None) -> None:
        self.single = step
        self._values = values

    def draw_cell(self, agent: int, arm: int, n: int, kind: Kind) -> Any:
        rewards = [self.single(agent, arm) for _ in range(n)]
        if kind == "averages":
            return sum(rewards) / n
        assert self._values is not None
        return np.bincount(np.searchsorted(self._values, rewards), minlength=self._values.size)


class OwnStreams(CellByCell):
    """A `Source` in which every arm of every agent has a stream of rewards of its own.

    The rewards of an agent then depend on its own pulls alone, not on which agents are pulled at
    the same time, so a play must be the same in blocks of any size. For checks on small games; it
    loops over the cells of every request.

    Args:
        instance: the truth.
        seed: of the streams.
    """

    def __init__(self, instance: Instance, seed: SeedSequence) -> None:
        def simulator(agent: int, arm: int) -> Simulator:
            return Simulator(instance, np.random.default_rng(child_seed(seed, agent, arm)))

        self._of = cache(simulator)

    def draw_cell(self, agent: int, arm: int, n: int, kind: Kind) -> Any:
        return self._of(agent, arm).draw(np.array(agent), np.array(arm), n, kind)

    def single(self, agent: int, arm: int) -> float:
        return self._of(agent, arm).single(agent, arm)
