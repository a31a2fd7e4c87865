"""Representatives of clusters with pulls, for the tests of StructuredBAI."""

from __future__ import annotations

import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym.generators import PAPER_SMALL_MEANS
from clustered_bandit_gym.policies.structured.representatives import Representatives

#: False-alarm rate of every random test.
RARE = 1e-9


def representatives(
    instance: cbg.Instance, pulls: np.ndarray | float, seed: int = 0, delta: float = 1e-3
) -> Representatives:
    problem = cbg.Problem.of(instance, delta)
    reps = Representatives(cbg.Federation(instance, problem, seed=seed))
    for cluster in range(instance.n_clusters):
        reps.add(int(np.flatnonzero(instance.clusters == cluster)[0]))
    reps.pull_where(np.broadcast_to(np.asarray(pulls, dtype=float), reps.n.shape))
    return reps


MEANS = np.array(PAPER_SMALL_MEANS)
