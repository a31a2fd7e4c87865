"""The order of policies within a track and a class: paired log-ratios of pulls over all its cells.

For policies A and B and cell c let a_t and b_t be the pulls of trial t over the lower bound of its
instance. Both met the same instance and the same noise. The order is by the mean over cells of

    D_c = log(mean a_t / mean b_t),

with an interval from the spread of h_t = a_t / mean a − b_t / mean b, which is where the common
noise cancels. Pulls have heavy tails, so the interval is corrected for skewness (Hall 1992) and
made at `NOMINAL`; docs/suite.md has the coverage that was measured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from scipy.special import stdtrit  # scipy.stats takes a second to import

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.harness.scoring.intervals import Estimate

#: Nominal level of the intervals that are stated as 95%.
NOMINAL = 0.99
#: An unsolved cell is charged this many times the pulls of its worst solver.
CHARGE = 10.0


def compare(first: Sequence[Floats], second: Sequence[Floats]) -> Estimate:
    """The mean log-ratio of pulls, first over second, over the same cells."""
    logs = []
    influences = []
    for a, b in zip(first, second, strict=True):
        # One pull in all trials together at least: an answer without pulls is never a solution.
        mean_a, mean_b = np.maximum([a.mean(), b.mean()], 1e-12)
        logs.append(np.log(mean_a / mean_b))
        influences.append(a / mean_a - b / mean_b)
    estimate = float(np.mean(logs))
    noisy = [h for h in influences if h.size > 1]
    variance = sum(h.var(ddof=1) / h.size for h in noisy)
    if variance <= 0:
        return Estimate(estimate, estimate, estimate)
    skewness = sum((h**3).mean() / h.size**2 for h in noisy) / variance**1.5
    error = np.sqrt(variance) / len(logs)
    reach = stdtrit(min(h.size for h in noisy) - 1, (1 + NOMINAL) / 2)
    quantiles = np.array([reach, -reach])
    if abs(skewness) >= 1e-9:  # Hall's transformation, inverted
        quantiles = 3 / skewness * (np.cbrt(1 + skewness * (quantiles - skewness / 6)) - 1)
    return Estimate(estimate, *(estimate - error * quantiles).tolist())


def log_mean_interval(pulls: Sequence[Floats]) -> Estimate:
    """The mean log of pulls over the bound, over cells."""
    return compare(pulls, [np.ones(1)] * len(pulls))


#: Policy -> cell -> (n,) pulls over the bound of each trial, or (1,) the charge of the cell.
Pulls = Mapping[str, Mapping[str, Floats]]


def charged(solved: Pulls, cells: Iterable[str]) -> Pulls:
    """Pulls of the cells that each policy solves, and the charge of those that it does not.

    `cells` are those that somebody solves; others say nothing about the order.
    """
    worst = {
        cell: max(own[cell].mean() for own in solved.values() if cell in own) for cell in cells
    }
    return {
        policy: {cell: own.get(cell, np.array([CHARGE * most])) for cell, most in worst.items()}
        for policy, own in solved.items()
    }


def ranks(pulls: Pulls, cells: Collection[str]) -> dict[str, int]:
    """One plus the number of policies that need fewer pulls: the interval lies above 0."""
    by_policy = {policy: [own[cell] for cell in cells] for policy, own in pulls.items()}
    return {
        policy: 1 + sum(compare(mine, theirs).low > 0 for theirs in by_policy.values())
        for policy, mine in by_policy.items()
    }


def rank_ranges(pulls: Pulls, tags: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    """For each policy the least and largest rank when any one tag is left out; `tags` has those of
    the cells that somebody solves."""
    every = {tag for own in tags.values() for tag in own}
    left = [[cell for cell, own in tags.items() if tag not in own] for tag in every]
    places = [ranks(pulls, cells) for cells in left if cells]
    ranges = {policy: [place[policy] for place in places] for policy in pulls}
    return {policy: (min(own), max(own)) for policy, own in ranges.items() if own}
