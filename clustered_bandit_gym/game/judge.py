"""The judge's row, and which agents a policy placed in a wrong cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustered_bandit_gym._types import Bools, Ints
from clustered_bandit_gym.game.instance import Instance


@dataclass(frozen=True)
class Judgement:
    """The judge's row at the end of a play.

    Attributes:
        correct: every agent's recommendation is within ε of the best arm of its cluster.
        agent_correct: (N,) booleans.
        arms: (N,) what was recommended.
        clustering_errors: agents placed in a wrong cluster (`misplaced`); None if the policy
            reported no clusters.
        arm_errors: agents with a wrong arm in the right cluster; None likewise.
    """

    correct: bool
    agent_correct: Bools
    arms: Ints
    clustering_errors: int | None
    arm_errors: int | None

    @property
    def wrong_agents(self) -> int:
        return int(self.agent_correct.size - self.agent_correct.sum())


def judge(instance: Instance, arms: Ints, labels: Ints | None, epsilon: float = 0.0) -> Judgement:
    """Compare the recommended `arms` (N,), right within `epsilon` of the best, and the clustering
    `labels` (N,) that the policy reported with the truth."""
    right = instance.good_arms(epsilon)[instance.clusters, arms]
    clustering_errors = arm_errors = None
    if labels is not None:
        lost = misplaced(labels, instance.clusters)
        clustering_errors = int(lost.sum())
        arm_errors = int((~right & ~lost).sum())
    return Judgement(bool(right.all()), right, arms.copy(), clustering_errors, arm_errors)


def misplaced(labels: Ints, clusters: Ints) -> Bools:
    """(N,) booleans: the agent's true cluster is not the most frequent one of its label (of equals,
    the first)."""
    from scipy.sparse import coo_array

    _, label = np.unique(labels, return_inverse=True)
    # Sparse, since labels may be as many as agents; the first largest entry of each row.
    table = coo_array((np.ones(label.size, dtype=int), (label, clusters))).tocsr()
    majority = np.asarray(table.argmax(axis=1))
    return np.asarray(majority[label] != clusters)
