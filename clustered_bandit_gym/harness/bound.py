"""The lower bound that a row's pulls are compared with."""

from __future__ import annotations

import warnings

import numpy as np

from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian
from clustered_bandit_gym.harness.settings import instance_digest

#: Means (M·K) beyond which no bound is computed; 6,000 take 17 s and 230 MB.
LARGEST = 20_000
#: Bounds that are known, by instance and by what is told.
_known: dict[tuple[object, ...], float] = {}


def bound_of(instance: Instance, problem: Problem) -> float | None:
    """Expected pulls that every learner needs that is δ-PC on all instances with what it was told.
    None where Assumption 1 does not hold, for ε > 0, for reward models of the user's, whose bound
    is not known, and, with a warning, for more than `LARGEST` means. A told η above the instance's
    own is taken as the instance's own."""
    from clustered_bandit_gym.theory import instance_lower_bound

    known = isinstance(instance.rewards, Gaussian | Bernoulli | Categorical)
    if instance.eta <= 0 or problem.epsilon > 0 or not known:
        return None
    size = instance.means.size
    if size > LARGEST:
        text = f"bound skipped: an instance has {size:,} means (M·K); bounds go up to {LARGEST:,}"
        warnings.warn(text, stacklevel=2)
        return None
    eta = 0.0 if problem.eta is None else min(problem.eta, instance.eta)
    told = problem.n_clusters is not None
    ordered = _in_order(instance)
    key = (instance_digest(ordered), problem.delta, eta, told)
    if key not in _known:
        # Up to 5 s at M = 20, K = 100, where four programs come within about 3% of the best bound;
        # small instances reach the certified 1%. Counted, not timed: rows are reproducible.
        programs = min(max(8000 // size, 1), 60)
        _known[key] = instance_lower_bound(
            ordered, problem.delta, eta, clusters_told=told, max_programs=programs
        )
    return _known[key]


def _in_order(instance: Instance) -> Instance:
    """The instance with agents, arms and clusters renamed in a standard order. The bound does not
    depend on names. Generators that only shuffle them (the paper's flat instances) are then solved
    once and not once per trial."""
    sizes = np.bincount(instance.clusters, minlength=instance.n_clusters)
    means = instance.means
    # Categorical laws have tables of their own, by name.
    if not isinstance(instance.rewards, Categorical):
        # Any order is correct: the bound is computed on the instance in that very order.
        order = sorted(range(len(sizes)), key=lambda m: (np.sort(means[m]).tobytes(), sizes[m]))
        means = means[order]
        sizes = sizes[order]
        means = means[:, np.lexsort(means[::-1])]
    clusters = np.repeat(np.arange(sizes.size), sizes)
    return Instance(means, clusters, instance.rewards, allow_ties=True, allow_overlap=True)
