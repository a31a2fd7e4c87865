"""Intervals for what trials measure: Student's t for means, order statistics for medians. Pure
functions on arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, stdtrit  # scipy.stats takes a second to import

#: Level of all intervals.
CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """An estimate with the ends of its interval; NaN where there are too few values."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan


def t_interval(values: ArrayLike) -> Estimate:
    """Mean of `values` (n,) with Student's t interval; NaN ends for a single value."""
    values = np.asarray(values, dtype=float)
    mean = values.mean()
    if values.size < 2:
        return Estimate(mean)
    quantile = stdtrit(values.size - 1, (1 + CONFIDENCE) / 2)
    half = quantile * values.std(ddof=1) / np.sqrt(values.size)
    return Estimate(mean, mean - half, mean + half)


def mean_interval(values: ArrayLike) -> Estimate:
    """`t_interval` of values that cannot be negative, such as pulls: the lower end is cut at zero."""
    mean, low, high = t_interval(values)
    return Estimate(mean, max(low, 0.0), high)


def median_interval(values: ArrayLike) -> Estimate:
    """Median of `values` (n,) with a distribution-free interval: the r-th smallest and the r-th
    largest value.

    The number of values below the true median is Binomial(n, 1/2), whatever the law of the values,
    so the interval covers the median with probability at least 1 − 2·P(Binomial(n, 1/2) < r). r is
    the largest rank for which this is at least `CONFIDENCE`. Fewer than six values have no such
    rank: the ends are NaN.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    median = np.median(ordered)
    below = bdtr(np.arange(ordered.size // 2 + 1), ordered.size, 0.5)
    rank = np.count_nonzero(2 * below <= 1 - CONFIDENCE)
    if rank == 0:
        return Estimate(median)
    return Estimate(median, ordered[rank - 1], ordered[-rank])
