"""Where rewards come from: the seam between a play and its randomness.

A `Federation` checks, counts and bills pulls; a source draws them. The default simulates the instance. Another source
can draw from a changed law, or hand every pull to something else.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance


class Source(Protocol):
    """Draws the rewards of one play. Indices are valid and counted by the caller."""

    def averages(self, agents: Ints, arms: Ints, times: Ints | int) -> Floats:
        """Averages of `times` fresh pulls of `arms` at `agents`: integer arrays that broadcast."""
        ...

    def counts(self, agents: Ints, arms: Ints, times: Ints | int) -> Ints:
        """How often each value of the reward model comes up in `times` fresh pulls: (..., S). `ValueError` where it has
        infinitely many."""
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

    def __init__(self, instance: Instance, rng: np.random.Generator) -> None:
        self._instance, self._rng = instance, rng

    def averages(self, agents: Ints, arms: Ints, times: Ints | int) -> Floats:
        instance = self._instance
        clusters = np.asarray(instance.clusters.take(agents))
        return np.asarray(instance.rewards.average(self._rng, instance.means, clusters, arms, times))

    def counts(self, agents: Ints, arms: Ints, times: Ints | int) -> Ints:
        instance = self._instance
        clusters = np.asarray(instance.clusters.take(agents))
        return instance.rewards.counts(self._rng, instance.means, clusters, arms, times)

    def single(self, agent: int, arm: int) -> float:
        instance = self._instance
        rewards = instance.rewards
        return float(rewards.single(instance.means, instance.clusters[agent], arm, rewards.noise(self._rng)))
