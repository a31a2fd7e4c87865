"""`rare` against closed forms: error probabilities of policies with a fixed number of pulls.

Random tests have fixed seeds. A z-score beyond 7 has probability 3e-12 for a normal estimate;
weights are skewed, hence the margin.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.baselines import UniformPolicy
from research.rare import rare
from research.rare.result import Rare

ENV = "ClusteredBAI-v0"


QUICK: dict[str, Any] = {"trials": 250, "searches": 2, "search_plays": 20}


def measure(policy: Any, instance: cbg.Instance, delta: float = 0.1, **settings: Any) -> Rare:
    return rare(policy, ENV, instance=instance, delta=delta, **(QUICK | settings))


def agrees(result: Rare, exact: float, relative: float = 0.35) -> None:
    assert result.stderr < relative * exact
    assert abs(result.error - exact) < 7 * result.stderr
    assert (
        0 < result.low <= exact
    )  # false alarm: 5% in general, none at these seeds; far below with these margins


def test_two_gaussian_arms() -> None:
    """Wrong if the average of the worse arm is ahead: Φ(−gap·√(n/2)/σ)."""
    n, sigma, exponent = 50, 2.0, 11
    gap = -stats.norm.ppf(10.0**-exponent) * sigma * math.sqrt(2 / n)
    result = measure(
        UniformPolicy(n), cbg.Instance([[gap, 0.0]], [0], cbg.Gaussian(sigma)), seed=exponent
    )
    agrees(result, 10.0**-exponent)


def test_bernoulli_arms() -> None:
    """Ties are broken at random: P(X < Y) + P(X = Y)/2 for two binomials."""
    n, p, q = 60, 0.8, 0.35
    x = np.arange(n + 1)
    best, other = stats.binom.pmf(x, n, p), stats.binom.pmf(x, n, q)
    exact = float(sum(best[i] * (other[i + 1 :].sum() + other[i] / 2) for i in x))
    assert 1e-8 < exact < 1e-6
    agrees(measure(UniformPolicy(n), cbg.Instance([[p, q]], [0], cbg.Bernoulli())), exact)


def test_mean_weight_is_one() -> None:
    """E_Q[dP/dQ] = 1 over all plays, wrong or not: the ratio is the one of the law that was drawn
    from.
    """
    instance = cbg.Instance([[1.6, 0.0, 0.1], [0.0, 1.7, 0.2]], [0, 1, 1])
    result = measure(UniformPolicy(8), instance, trials=150, searches=1, search_plays=5)
    weights = np.exp(-result.log_ratios)  # at most 1/0.05, thanks to the plain part
    assert weights.max() <= 20 * (1 + 1e-9)
    assert abs(weights.mean() - 1) < 6 * weights.std() / math.sqrt(weights.size)
    assert weights.std() > 0


def test_a_policy_that_errs_too_often_fails_at_a_tiny_delta() -> None:
    """True error 1e-5, δ = 1e-6: no simulation of 1,000 plays sees an error; the lower bound
    exceeds δ.
    """
    n = 50
    gap = -stats.norm.ppf(1e-5) * math.sqrt(2 / n)
    result = measure(UniformPolicy(n), cbg.Instance([[gap, 0.0]], [0]), delta=1e-6)
    assert result.fails
    assert 1e-6 < result.low <= 1e-5
    assert "FAIL" in str(result)
