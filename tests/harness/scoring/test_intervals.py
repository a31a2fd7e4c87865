"""Intervals against SciPy, and their coverage against exact laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from clustered_bandit_gym.harness.scoring.intervals import (
    mean_interval,
    median_interval,
    t_interval,
)


def test_mean_and_interval_against_scipy() -> None:
    values = np.random.default_rng(0).lognormal(size=40)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert t_interval(values) == pytest.approx((values.mean(), expected.low, expected.high))
    assert mean_interval(values) == pytest.approx((values.mean(), expected.low, expected.high))
    assert t_interval([0.0, 100.0]).low < 0
    assert mean_interval([0.0, 100.0]).low == 0  # pulls are not negative
    for interval in (t_interval, mean_interval, median_interval):
        assert np.isnan(interval([3.0])[1:]).all()


def test_interval_of_the_mean_covers() -> None:
    """4,000 samples of 30 normal values: a hit rate of 95% ± 0.0034; six of these deviations are a
    2e-9 alarm.
    """
    draws = np.random.default_rng(1).normal(100, 1, size=(4_000, 30))
    hits = [low <= 100 <= high for _, low, high in map(mean_interval, draws)]
    assert abs(np.mean(hits) - 0.95) < 6 * np.sqrt(0.95 * 0.05 / 4_000)


@pytest.mark.parametrize("n", [1, 5, 6, 7, 8, 9, 20, 39, 83, 500, 501])
def test_ranks_of_the_median_are_the_narrowest_that_cover(n: int) -> None:
    """The interval from the r-th smallest to the r-th largest value misses the median with
    probability 2·P(Binomial(n, 1/2) < r), exactly for a continuous law."""
    value, low, high = median_interval(np.arange(1, n + 1))
    assert value == (n + 1) / 2
    if n < 6:
        assert np.isnan([low, high]).all()
        assert 2 * stats.binom.pmf(0, n, 0.5) > 0.05
        return
    rank = round(low)
    assert high == n + 1 - rank
    misses = 2 * stats.binom.cdf([rank - 1, rank], n, 0.5)
    assert misses[0] <= 0.05 < misses[1]


@pytest.mark.parametrize("law", [stats.lognorm(2.0), stats.pareto(1.1)])
def test_interval_of_the_median_covers_under_heavy_tails_and_that_of_the_mean_does_not(
    law: stats.rv_frozen,
) -> None:
    """4,000 samples of 50. The exact coverage of the order statistics at n = 50 is 1 −
    2·P(Binomial(50, 1/2) < 18); six standard deviations are a 2e-9 alarm. Student's t covers the
    mean in less than 0.8 of the samples."""
    draws = law.rvs(size=(4_000, 50), random_state=np.random.default_rng(3))
    exact = 1 - 2 * stats.binom.cdf(17, 50, 0.5)
    middle = law.median()
    hits = np.mean([low <= middle <= high for _, low, high in map(median_interval, draws)])
    assert abs(hits - exact) < 6 * np.sqrt(exact * (1 - exact) / 4_000)
    means, sd = draws.mean(axis=1), draws.std(axis=1, ddof=1)
    half = stats.t.ppf(0.975, 49) * sd / np.sqrt(50)
    assert np.mean(np.abs(means - law.mean()) <= half) < 0.8
