"""The lower bound that a row's pulls are compared with."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian

#: Linear programs times unknowns that one instance may cost: up to 5 s at M = 20, K = 100, where
#: four programs come within about 3% of the best bound. Small instances reach the certified 1%.
#: Counted, not timed: rows are reproducible.
_EFFORT = 8000
_MOST = 60


def bound_of(instance: Instance, problem: Problem) -> float | None:
    """Expected pulls that every learner needs that is δ-PC on all instances with what it was told.

    None where Assumption 1 does not hold, for ε > 0 and for reward models of the user's, whose
    bound is not known. A told η above the instance's own is taken as the instance's own.
    """
    if (
        instance.eta <= 0
        or problem.epsilon > 0
        or not isinstance(instance.rewards, Gaussian | Bernoulli | Categorical)
    ):
        return None
    eta = 0.0 if problem.eta is None else min(problem.eta, instance.eta)
    return _cached_bound(_Shape(instance), problem.delta, eta, problem.n_clusters is not None)


class _Shape:
    """An instance up to the names of agents, arms and clusters, as a key: the bound does not depend
    on them. Generators that only shuffle names (the paper's flat instances) are then solved once
    and not once per trial.
    """

    def __init__(self, instance: Instance) -> None:
        sizes = np.bincount(instance.clusters, minlength=instance.n_clusters)
        means, model = instance.means, instance.rewards.to_dict()
        if isinstance(
            instance.rewards, Gaussian | Bernoulli
        ):  # other laws have tables of their own, by name
            # Any order is correct: the bound is computed on the instance in that very order.
            order = sorted(range(len(sizes)), key=lambda m: (np.sort(means[m]).tobytes(), sizes[m]))
            means, sizes = means[order], sizes[order]
            means = means[:, np.lexsort(means[::-1])]
        self.means, self.sizes, self.rewards = means, sizes, instance.rewards
        parts = [means.tobytes(), sizes.tobytes()]
        self.content = b"|".join(
            [*parts, *(key.encode() + np.asarray(model[key]).tobytes() for key in sorted(model))]
        )

    def instance(self) -> Instance:
        clusters = np.repeat(np.arange(self.sizes.size), self.sizes)
        return Instance(self.means, clusters, self.rewards, allow_ties=True, allow_overlap=True)

    def __hash__(self) -> int:
        return hash(self.content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shape) and self.content == other.content


@lru_cache(maxsize=64)
def _cached_bound(shape: _Shape, delta: float, eta: float, clusters_told: bool) -> float:
    from clustered_bandit_gym.theory import instance_lower_bound

    programs = min(max(_EFFORT // shape.means.size, 1), _MOST)
    return instance_lower_bound(
        shape.instance(), delta, eta, clusters_told=clusters_told, max_programs=programs
    )
