"""Bounds and estimates from weights alone: coverage, and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from research.rare.bounds import log_lower_bound, upper_bound
from research.rare.result import Estimate


def test_coverage_of_the_lower_bound() -> None:
    """Heavy-tailed weights with mean 1: the bound may exceed 1 in 5% of the sequences, at any
    number of plays.
    """
    rng = np.random.default_rng(5)
    above, n = 0, 80
    for _ in range(n):
        wrong = rng.random(300) < 0.5
        logs = np.where(wrong, 1.5 * rng.standard_normal(300) - 1.5**2 / 2 + math.log(2), -np.inf)
        above += log_lower_bound([logs], [1.0]) > 0
    # Ville's bound is not sharp; P(Bin(80, 0.05) > 18) is 1.2e-8.
    assert above <= 18
    tight = np.log(rng.exponential(size=4000))
    assert -0.2 < log_lower_bound([tight], [1.0]) < 0


def test_lower_bound_with_plays_left_out() -> None:
    """A sequence that leaves plays out bets on the others as if they were alone."""
    rng = np.random.default_rng(6)
    logs = np.log(rng.exponential(size=500))
    padded = np.full(1000, np.nan)
    padded[::2] = logs
    assert log_lower_bound([padded], [1.0]) == pytest.approx(
        log_lower_bound([logs], [1.0]), abs=1e-9
    )
    assert log_lower_bound([np.full(9, -np.inf)], [1.0]) == -math.inf


def test_upper_bound_of_bounded_weights() -> None:
    """Chernoff tilt of a fixed number of pulls: on an error the weight cannot exceed
    exp(−n·gap²/4).
    """
    rng = np.random.default_rng(7)
    n, gap = 50, 1.5
    difference = rng.normal(
        0.0, math.sqrt(2 / n), size=2000
    )  # tilted: centred at 0 instead of −gap
    largest = math.exp(-n * gap**2 / 4)
    weights = np.where(difference > 0, largest * np.exp(-difference * n * gap / 2), 0.0)
    exact = float(stats.norm.cdf(-gap * math.sqrt(n / 2)))
    high = upper_bound(weights, largest)
    assert exact < high < 1.5 * exact
    assert upper_bound(np.zeros(1000), 1.0) < 0.01
    with pytest.raises(ValueError, match="weights must lie in"):
        upper_bound(np.array([2.0]), 1.0)


def test_estimate_of_weights() -> None:
    estimate = Estimate.of(np.log(np.array([1e-20, 3e-20])))
    assert estimate.error == pytest.approx(2e-20)
    assert estimate.stderr == pytest.approx(1e-20)
    assert estimate.ess == pytest.approx(1.6)
    assert Estimate.of(np.array([-np.inf])) == (0.0, 0.0, 0.0)
