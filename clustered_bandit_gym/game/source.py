"""Where rewards come from: the seam between a play and its randomness.

A `Federation` checks, counts and bills pulls; a source draws the rewards. The default simulates the
instance. Another source can draw from a tilted law, or pass every pull on to another simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
        self._clusters = instance.clusters
        self._means = instance.means
        self._rewards = instance.rewards
        self._rng = rng

    def averages(self, agents: Ints, arms: Ints, times: Times) -> Floats:
        clusters = np.asarray(self._clusters.take(agents))
        return np.asarray(self._rewards.average(self._rng, self._means, clusters, arms, times))

    def counts(self, agents: Ints, arms: Ints, times: Times) -> Ints:
        clusters = np.asarray(self._clusters.take(agents))
        return self._rewards.counts(self._rng, self._means, clusters, arms, times)

    def single(self, agent: int, arm: int) -> float:
        cluster = self._clusters.item(agent)  # plain ints are the fastest index
        return float(
            self._rewards.single(self._means, cluster, arm, self._rewards.noise(self._rng))
        )


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
        def simulator(agent: int, arm: int) -> Simulator:
            return Simulator(instance, np.random.default_rng(child_seed(seed, agent, arm)))

        self._of = cache(simulator)

    def averages(self, agents: Ints, arms: Ints, times: Times) -> Floats:
        def draw(agent: int, arm: int, n: int) -> Floats:
            return self._of(agent, arm).averages(np.array(agent), np.array(arm), np.array(n))

        return by_cell(draw, agents, arms, times)

    def counts(self, agents: Ints, arms: Ints, times: Times) -> Ints:
        def draw(agent: int, arm: int, n: int) -> Ints:
            return self._of(agent, arm).counts(np.array(agent), np.array(arm), np.array(n))

        return by_cell(draw, agents, arms, times)

    def single(self, agent: int, arm: int) -> float:
        return self._of(agent, arm).single(agent, arm)


def by_cell(draw: Callable[[int, int, int], Any], agents: Ints, arms: Ints, times: Times) -> Array:
    """`draw(agent, arm, n)` for each cell of a request, in its shape."""
    cells = np.broadcast(agents, arms, times)
    drawn = np.array([draw(int(agent), int(arm), int(n)) for agent, arm, n in cells])
    return drawn.reshape(*cells.shape, *drawn.shape[1:])
