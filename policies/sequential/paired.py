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
from clustered_bandit_gym.policies.sequential.cells import Cells

#: Gaps in units of σ for which the mixture is tuned, and their weights: the evidence is valid
#: whatever the gap is, and largest for gaps near one of these.
GAPS = (0.02, 0.1, 0.6)
WEIGHTS = (0.2, 0.5, 0.3)
#: Pairs that are updated at once: tables of this size stay in the processor's cache, which makes
#: updates three times as fast at 100 agents with 100 arms.
CACHED = 2**17


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

    Args:
        cells: (n, k) the arms, in units of σ.
        level: (n,) nats that are asked for in every test of an agent.
    """

    def __init__(self, cells: Cells, level: Floats) -> None:
        self._cells, self._level = cells, level
        n, k = cells.n.shape
        self._sums = np.zeros((n, k))
        self._walk = np.zeros((n, k, k))
        self._variance = np.zeros((n, k, k))

    def add(self, rows: Ints, times: Ints) -> None:
        """Add a batch of `times` (r, k) pulls at agents `rows` (r,), which the cells already hold."""
        sums = self._cells.n[rows] * self._cells.mean[rows]
        averages = (sums - self._sums[rows]) / np.maximum(times, 1)
        self._sums[rows] = sums
        pulls = times.astype(np.float64)  # products of integers would overflow
        step = max(1, CACHED // times.shape[1] ** 2)
        for start in range(0, rows.size, step):
            part = slice(start, start + step)
            first, second = pulls[part, :, None], pulls[part, None, :]
            information = first * second / np.maximum(first + second, 1)
            difference = averages[part, :, None] - averages[part, None, :]
            self._walk[rows[part]] += information * difference
            self._variance[rows[part]] += information

    def shows_worse(self, rows: Ints, arm: Ints, among: Bools) -> Bools:
        """(r, k) the arms of `among` (r, k) whose mean is shown to be less than that of arm[i]."""
        walk = np.where(among, self._walk[rows, arm], 0.0)
        return shows_drift(walk, self._variance[rows, arm], self._level[rows][:, None])

    def all_close(self, rows: Ints, active: Bools, shift: float) -> Bools:
        """(r,) rows where each of `active` (r, k) is shown less than `shift` worse than the rest."""
        variance = self._variance[rows]
        walk = self._walk[rows] + shift * variance
        shown = shows_drift(walk, variance, self._level[rows][:, None, None])
        pairs = active[:, :, None] & active[:, None, :] & ~np.eye(active.shape[1], dtype=bool)
        return np.asarray((shown | ~pairs).all(axis=(1, 2)))
