"""Where rewards come from: the seam between a play and its randomness.

A `Federation` checks, counts and bills pulls; a source draws the rewards. The default simulates the
instance. Another source can draw from a tilted law, or pass every pull on to another simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.random import SeedSequence

from clustered_bandit_gym._types import Array, Floats, Ints, Rng, Times
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import child_seed


class Source(Protocol):
    """Draws the rewards of one play. Indices are valid and counted by the caller."""

    def averages(self, agents: Ints, arms: Ints, times: Times) -> Floats:
        """Averages of `times` fresh pulls of `arms` at `agents`: integer arrays that broadcast."""
        ...

    def counts(self, agents: Ints, arms: Ints, times: Times) -> Ints:
        """How often each value of the reward model comes up in `times` fresh pulls: (..., S)."""
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
        self._instance = instance
        self._rng = rng

    def averages(self, agents: Ints, arms: Ints, times: Times) -> Floats:
        instance, clusters = self._instance, self._clusters(agents)
        average = instance.rewards.average(self._rng, instance.means, clusters, arms, times)
        return np.asarray(average)

    def counts(self, agents: Ints, arms: Ints, times: Times) -> Ints:
        instance, clusters = self._instance, self._clusters(agents)
        return instance.rewards.counts(self._rng, instance.means, clusters, arms, times)

    def _clusters(self, agents: Ints) -> Ints:
        return np.asarray(self._instance.clusters.take(agents))

    def single(self, agent: int, arm: int) -> float:
        instance = self._instance
        cluster = instance.clusters.item(agent)  # plain ints are the fastest index
        noise = instance.rewards.noise(self._rng)
        return float(instance.rewards.single(instance.means, cluster, arm, noise))


class Steps:
    """Draws every pull by a call `step(agent, arm)` that returns the reward.

    Args:
        step: makes one pull.
        values: (S,) the values that rewards can take; None where they are not finitely many.
    """

    def __init__(self, step: Callable[[int, int], float], values: Floats | None) -> None:
        self.single = step
        self._values = values

    def averages(self, agents: Ints, arms: Ints, times: Times) -> Floats:
        def average(agent: int, arm: int, n: int) -> float:
            return sum(self.single(agent, arm) for _ in range(n)) / n

        return by_cell(average, agents, arms, times)

    def counts(self, agents: Ints, arms: Ints, times: Times) -> Ints:
        values = self._values
        assert values is not None

        def count(agent: int, arm: int, n: int) -> Ints:
            rewards = [self.single(agent, arm) for _ in range(n)]
            return np.bincount(np.searchsorted(values, rewards), minlength=values.size)

        return by_cell(count, agents, arms, times)


class OwnStreams:
    """A `Source` in which every arm of every agent has a stream of rewards of its own.

    The rewards of an agent then depend on its own pulls alone, not on which agents are pulled at
    the same time, so a play must be the same in blocks of any size. For checks on small games; it
    loops over the cells of every request.

    Args:
        instance: the truth.
        seed: of the streams.
    """

    def __init__(self, instance: Instance, seed: SeedSequence) -> None:
        self._instance = instance
        self._seed = seed
        self._simulators: dict[tuple[int, int], Simulator] = {}

    def averages(self, agents: Ints, arms: Ints, times: Times) -> Floats:
        return self._by_cell("averages", agents, arms, times)

    def counts(self, agents: Ints, arms: Ints, times: Times) -> Ints:
        return self._by_cell("counts", agents, arms, times)

    def _by_cell(self, kind: str, *request: Any) -> Array:
        def draw(agent: int, arm: int, n: int) -> Array:
            request = np.array(agent), np.array(arm), np.array(n)
            drawn: Array = getattr(self._of(agent, arm), kind)(*request)
            return drawn

        return by_cell(draw, *request)

    def single(self, agent: int, arm: int) -> float:
        return self._of(agent, arm).single(agent, arm)

    def _of(self, agent: int, arm: int) -> Simulator:
        if (agent, arm) not in self._simulators:
            rng = np.random.default_rng(child_seed(self._seed, agent, arm))
            self._simulators[agent, arm] = Simulator(self._instance, rng)
        return self._simulators[agent, arm]


def by_cell(draw: Callable[[int, int, int], Any], agents: Ints, arms: Ints, times: Times) -> Array:
    """`draw(agent, arm, n)` for each cell of a request, in its shape."""
    cells = np.broadcast(agents, arms, times)
    drawn = np.array([draw(int(agent), int(arm), int(n)) for agent, arm, n in cells])
    return drawn.reshape(*cells.shape, *drawn.shape[1:])
