"""Many instances of one size as arrays, for simulators that play many episodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import RewardModel


@dataclass(frozen=True)
class Batch:
    """n instances with one reward model; `batch[i]` makes the i-th as an `Instance`.

    Attributes:
        means: (n, M, K). Every bandit has one best arm, every pair of bandits of an instance
            different ones.
        clusters: (n, N) the cluster of each agent.
        rewards: law of the rewards around the means. A `Categorical` has the same laws in all n
            instances.
    """

    means: Floats
    clusters: Ints
    rewards: RewardModel

    @classmethod
    def repeat(cls, instance: Instance, n: int) -> Batch:
        """The same instance n times, without copying its arrays."""
        return cls(
            np.broadcast_to(instance.means, (n, *instance.means.shape)),
            np.broadcast_to(instance.clusters, (n, instance.n_agents)),
            instance.rewards,
        )

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, i: int) -> Instance:
        return Instance(self.means[i], self.clusters[i], self.rewards)

    @cached_property
    def _at_best(self) -> tuple[Floats, Floats]:
        """Best means (n, M), and (n, M, M) with entry (a, b): the mean in bandit b of the best arm
        of bandit a."""
        best = self.means.argmax(axis=2)
        crossed = np.take_along_axis(self.means, best[:, None, :], axis=2).swapaxes(1, 2)
        return np.take_along_axis(self.means, best[:, :, None], axis=2)[..., 0], crossed

    @cached_property
    def eta(self) -> Floats:
        """(n,) the largest η with which Assumption 1 holds; inf for a single cluster."""
        own, crossed = self._at_best
        return _least_off_diagonal(own[:, None, :] - crossed)

    @cached_property
    def eta1(self) -> Floats:
        """(n,) the largest η1 with which Assumption 2 holds; inf for a single cluster."""
        own, crossed = self._at_best
        return _least_off_diagonal(np.abs(own[:, :, None] - crossed))


def _least_off_diagonal(tables: Floats) -> Floats:
    """(n,) from (n, M, M)."""
    diagonal = np.eye(tables.shape[1], dtype=np.bool_)
    return np.where(diagonal, np.inf, tables).min(axis=(1, 2))
