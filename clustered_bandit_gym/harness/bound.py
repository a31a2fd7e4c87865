"""The lower bound that a row's pulls are compared with."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian
from clustered_bandit_gym.harness.settings import instance_digest

#: Means (M·K) beyond which no bound is computed; 6,000 take 17 s and 230 MB.
LARGEST = 20_000


def bound_of(instance: Instance, problem: Problem) -> float | None:
    """Expected pulls that every learner needs that is δ-PC on all instances with what it was told.

    None where Assumption 1 does not hold, for ε > 0, for reward models of the user's, whose bound
    is not known, and for more than `LARGEST` means. A told η above the instance's own is taken as
    the instance's own.
    """
    known = isinstance(instance.rewards, Gaussian | Bernoulli | Categorical)
    too_large = instance.means.size > LARGEST
    if instance.eta <= 0 or problem.epsilon > 0 or not known or too_large:
        return None
    eta = 0.0 if problem.eta is None else min(problem.eta, instance.eta)
    return _cached_bound(_Shape(instance), problem.delta, eta, problem.n_clusters is not None)


class _Shape:
    """An instance up to the names of agents, arms and clusters, as a key: the bound does not
    depend on them. Generators that only shuffle names (the paper's flat instances) are then
    solved once and not once per trial."""

    def __init__(self, instance: Instance) -> None:
        sizes = np.bincount(instance.clusters, minlength=instance.n_clusters)
        means = instance.means
        # Categorical laws have tables of their own, by name.
        if isinstance(instance.rewards, Gaussian | Bernoulli):
            # Any order is correct: the bound is computed on the instance in that very order.
            order = sorted(range(len(sizes)), key=lambda m: (np.sort(means[m]).tobytes(), sizes[m]))
            means, sizes = means[order], sizes[order]
            means = means[:, np.lexsort(means[::-1])]
        clusters = np.repeat(np.arange(sizes.size), sizes)
        self.instance = Instance(
            means, clusters, instance.rewards, allow_ties=True, allow_overlap=True
        )
        self.digest = instance_digest(self.instance)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shape) and self.digest == other.digest


@lru_cache(maxsize=64)
def _cached_bound(shape: _Shape, delta: float, eta: float, clusters_told: bool) -> float:
    from clustered_bandit_gym.theory import instance_lower_bound

    # Up to 5 s at M = 20, K = 100, where four programs come within about 3% of the best bound;
    # small instances reach the certified 1%. Counted, not timed: rows are reproducible.
    programs = min(max(8000 // shape.instance.means.size, 1), 60)
    return instance_lower_bound(
        shape.instance, delta, eta, clusters_told=clusters_told, max_programs=programs
    )
