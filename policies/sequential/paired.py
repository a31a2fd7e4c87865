"""Paired differences: evidence that one arm beats another, from batches in which both were pulled.

Rewards are in units of σ. A batch pulls arm a n_a times and arm b n_b times; both numbers are fixed
before it. The difference of the two averages, minus the difference of the means, is sub-Gaussian
with variance 1/n_a + 1/n_b. Weighted by the inverse of that variance and added up over batches,
differences are a random walk with variance process v = Σ n_a n_b/(n_a + n_b) and drift
(μ_a − μ_b)·v. One mixture per pair tests its drift, where a test of two separate averages pays for
two mixtures. It loses nothing as long as the proportions n_a : n_b of the batches are alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.policies.sequential.boundaries import half_normal, tuned_rho
from clustered_bandit_gym.policies.sequential.cells import Cells, not_shown_worse

#: Gaps in units of σ for which the mixture is tuned, and their weights: the evidence is valid
#: whatever the gap is, and largest for gaps near one of these.
GAPS = (0.02, 0.1, 0.6)
WEIGHTS = (0.2, 0.5, 0.3)


def drift_evidence(s: Any, v: Any, level: Any) -> Floats:
    """Evidence in nats that a walk at `s` with variance process `v` drifts upwards.

    It ever reaches x with probability at most e^−x if the walk does not drift upwards: a weighted
    sum of half-normal mixtures, whose scales are fixed by `level`, the nats that are asked for.
    Arguments broadcast.
    """
    alpha = np.exp(-level)
    parts = [
        np.log(weight) + half_normal(s, v, tuned_rho(2 * level / gap**2, alpha))
        for gap, weight in zip(GAPS, WEIGHTS, strict=True)
    ]
    return np.logaddexp.reduce(parts)


def shows_drift(s: Any, v: Any, level: Any) -> Bools:
    """Whether `drift_evidence` reaches `level`: arguments broadcast."""
    s, v, level = np.broadcast_arrays(s, v, level)
    # No mixture is worth more than the best λ: s²/2v.
    hope = (s > 0) & (s * s >= 2 * level * v)
    shown = np.zeros(hope.shape, dtype=bool)
    shown[hope] = drift_evidence(s[hope], v[hope], level[hope]) >= level[hope]
    return shown


class PairedWalks:
    """The walks of all pairs of k arms at n agents.

    The walks of an arm take up the batches so far when they are asked for. Leaders seldom change:
    with 500 arms a play takes a tenth of the time.

    Args:
        cells: (n, k) the arms, in units of σ.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        n, k = cells.n.shape
        self._sums = np.zeros((n, k))
        self._walk, self._variance = np.zeros((2, n, k, k))
        # At most k batches are kept, so that they take no more memory than the walks.
        self._history = np.zeros((2, k, n, k))  # pulls and averages of each batch
        self._batches = 0
        self._taken_up = np.zeros((n, k), dtype=int)  # batches in the walks of each arm

    def add(self, rows: Ints, times: Ints) -> None:
        """Add a batch of `times` (r, k) pulls at agents `rows` (r,), which the cells already hold.

        Agents that are left out once are left out of all later calls.
        """
        if self._batches == times.shape[1]:
            for arm in range(self._batches):
                self._take_up(rows, np.full(rows.size, arm))
            self._batches = 0
            self._taken_up[:] = 0
        sums = self._cells.n[rows] * self._cells.mean[rows]
        averages = (sums - self._sums[rows]) / np.maximum(times, 1)
        self._history[:, self._batches, rows] = times, averages
        self._sums[rows] = sums
        self._batches += 1

    def shows_worse(self, rows: Ints, arm: Ints, shift: float, level: float, among: Bools) -> Bools:
        """(r, k) arms of `among` (r, k) shown to be less than arm[i] plus `shift` at rows[i]."""
        self._take_up(rows, arm)
        variance = self._variance[rows, arm]
        walk = np.where(among, self._walk[rows, arm] + shift * variance, 0.0)
        return shows_drift(walk, variance, level)

    def _take_up(self, rows: Ints, arm: Ints) -> None:
        """Add the batches that the walks of arm[i] at rows[i] do not hold yet."""
        first = self._taken_up[rows, arm]
        for number in np.unique(first[first < self._batches]):
            at = rows[first == number], arm[first == number]
            pulls, averages = self._history[:, number : self._batches, at[0]]
            own = (slice(None), np.arange(at[1].size), at[1], None)
            information = pulls[own] * pulls / np.maximum(pulls[own] + pulls, 1)
            self._walk[at] += (information * (averages[own] - averages)).sum(axis=0)
            self._variance[at] += information.sum(axis=0)
        self._taken_up[rows, arm] = self._batches


def all_close(
    tests: PairedWalks | Cells,
    rows: Ints,
    active: Bools,
    shift: float,
    level: float,
    means: Floats,
) -> Bools:
    """(n,) rows at which every arm of `active` (n, K) is shown less than `shift` worse than every
    other one, each with `level` nats.

    The arm with the lowest of the averages `means` (n, K) is tried first: it is the hardest.
    """
    lowest_first = np.where(active, means, np.inf).argsort(axis=1)
    close = np.arange(rows.size)
    for place in range(active.shape[1]):
        if not close.size:
            break
        arm = lowest_first[close, place]
        others = active[close] & active[close, arm, None]
        open_ = not_shown_worse(tests, rows[close], arm, shift, level, others)
        close = close[~open_.any(axis=1)]
    return np.isin(np.arange(rows.size), close)
