"""The order of policies within a track and a class: paired log-ratios of pulls over all its cells.

For policies A and B and cell c let a_t and b_t be the pulls of trial t over the lower bound of its
instance. Both met the same instance and the same noise. The order is by the mean over cells of

    D_c = log(mean a_t / mean b_t),

with an interval from the spread of h_t = a_t / mean a − b_t / mean b, which is where the common
noise cancels. Pulls have heavy tails, so the interval is corrected for skewness (Hall 1992) and
made at `NOMINAL`; docs/suite.md has the coverage that was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit  # scipy.stats takes a second to import

from clustered_bandit_gym._types import Floats

#: Nominal level of the intervals that are stated as 95%.
NOMINAL = 0.99
#: An unsolved cell is charged this many times the pulls of its worst solver.
CHARGE = 10.0


class Interval(NamedTuple):
    """An estimate of a mean over cells with the ends of its interval."""

    value: float
    low: float
    high: float


def compare(first: Sequence[Floats], second: Sequence[Floats]) -> Interval:
    """The mean log-ratio of pulls, first over second, over the same cells."""
    logs, noisy = [], []
    for a, b in zip(first, second, strict=True):
        # One pull in all trials together at least: an answer without pulls is never a solution.
        mean_a, mean_b = max(float(a.mean()), 1e-12), max(float(b.mean()), 1e-12)
        logs.append(math.log(mean_a) - math.log(mean_b))
        influences = (a / mean_a - 1) - (b / mean_b - 1)
        if influences.size > 1:
            noisy.append(influences)
    estimate = sum(logs) / len(logs)
    variance = sum(float(h.var(ddof=1)) / h.size for h in noisy)
    if variance <= 0:
        return Interval(estimate, estimate, estimate)
    skewness = sum(float((h**3).mean()) / h.size**2 for h in noisy) / variance**1.5
    error = math.sqrt(variance) / len(logs)
    reach = float(stdtrit(min(h.size for h in noisy) - 1, (1 + NOMINAL) / 2))
    low = estimate - _hall(reach, skewness) * error
    high = estimate - _hall(-reach, skewness) * error
    return Interval(estimate, low, high)


def _hall(quantile: float, skewness: float) -> float:
    """Hall's transformation, inverted: the quantile of a studentised mean with this skewness."""
    if abs(skewness) < 1e-9:
        return quantile
    inside = 1 + skewness * (quantile - skewness / 6)
    return 3 / skewness * (float(np.cbrt(inside)) - 1)


def log_mean_interval(pulls: Sequence[Floats]) -> Interval:
    """The mean log of pulls over the bound, over cells."""
    return compare(pulls, [np.ones(1)] * len(pulls))


#: Policy -> cell -> (n,) pulls over the bound of each trial, or (1,) the charge of the cell.
Pulls = Mapping[str, Mapping[str, Floats]]


def charged(solved: Pulls, cells: Iterable[str]) -> Pulls:
    """Pulls of the cells that each policy solves, and the charge of those that it does not.

    Cells that nobody solves are left out: they say nothing about the order.

    Args:
        solved: the pulls of each policy on the cells that it solves.
        cells: the cells of the track.
    """
    found: dict[str, dict[str, Floats]] = {policy: {} for policy in solved}
    for cell in cells:
        means = [float(own[cell].mean()) for own in solved.values() if cell in own]
        if means:
            charge = np.array([CHARGE * max(means)])
            for policy, own in solved.items():
                found[policy][cell] = own.get(cell, charge)
    return found


def ranks(pulls: Pulls, cells: Iterable[str]) -> dict[str, int]:
    """One plus the number of policies that need fewer pulls: the interval lies above 0."""
    names = list(cells)
    by_policy = {policy: [own[cell] for cell in names] for policy, own in pulls.items()}
    return {
        policy: 1 + sum(compare(mine, theirs).low > 0 for theirs in by_policy.values())
        for policy, mine in by_policy.items()
    }


def rank_ranges(pulls: Pulls, tags: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    """For each policy the least and largest rank when any one tag is left out.

    Args:
        tags: cell -> its tags, for the cells that somebody solves.
    """
    found: dict[str, tuple[int, int]] = {}
    for left_out in {tag for own in tags.values() for tag in own}:
        cells = [cell for cell, own in tags.items() if left_out not in own]
        for policy, rank in (ranks(pulls, cells) if cells else {}).items():
            low, high = found.get(policy, (rank, rank))
            found[policy] = min(low, rank), max(high, rank)
    return found
