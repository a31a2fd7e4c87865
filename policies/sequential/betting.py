"""Evidence for rewards in a known interval: betting e-processes (Waudby-Smith and Ramdas 2023).

Rewards are scaled to [0, 1]. If the mean of X is at most m, then 1 + λ(X − m) has mean at most 1
and is not negative, for 0 ≤ λ ≤ 1/m: the wealth of a gambler who bets λ on every pull that rewards
exceed m is an e-process. So is the mean wealth of several gamblers, each with a λ fixed before the
data. Nothing but the interval is assumed. Where the variance is small the best λ is large, so
wealth grows as fast as the true law allows, up to the weights of the gamblers.

With finitely many values x_s the wealth after counts n_s is Π_s (1 + λ(x_s − m))^n_s: counts are
all that is needed, and a batch of pulls is one update.
"""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Bools, Floats
from clustered_bandit_gym.errors import UserError

#: Bets: the largest, the ratio of neighbours, how many. They serve gaps from about 1/2 down to
#: variance/1000.
TOP = 8.0
RATIO = 1.6
BETS = 18
#: Weight of the gambler who does not bet. It bounds from below what one arm of a pair can lose.
IDLE = 0.02
#: A bet never risks more than this part of what could ruin it.
RISK = 0.95
#: Where a pair's common mean is examined, relative to where two normal laws would have it.
OFFSETS = np.array([-1, -0.35, -0.2, -0.1, -0.04, 0.0, 0.04, 0.1, 0.2, 0.35, 1.0])
#: More points in the two intervals around the least value found.
FINER = np.array([0.2, 0.35, 0.45, 0.55, 0.65, 0.8])


class Bets:
    """E-processes for the mean of rewards that take the values `x`, (S,) numbers in [0, 1].

    Attributes:
        bets: (L,) bets λ, decreasing, the last one 0.
        log_weight: (L,) logarithms of weights that sum to one.
    """

    def __init__(self, x: Floats) -> None:
        # The ends of the interval may miss 0 and 1 by a rounding error.
        if np.any(np.abs(x - 0.5) > 0.5 + 1e-12):
            raise UserError("values must be scaled to [0, 1]")
        self.x: Floats = np.clip(x, 0, 1)
        self.bets: Floats = np.append(TOP * RATIO ** -np.arange(float(BETS)), 0.0)
        self.log_weight: Floats = np.log(np.append(np.full(BETS, (1 - IDLE) / BETS), IDLE))

    def evidence(self, counts: Floats, m: Floats, up: Bools | bool) -> Floats:
        """(...) evidence that the mean is above (`up`) or below `m` (...), from `counts` (..., S)."""
        return _logsumexp(self._wealth(counts, m, up))

    def interval(self, counts: Floats, level: float) -> Floats:
        """(2, ...) bounds on the mean, each ever wrong with probability at most exp(−level).

        Evidence that the mean is above m falls with m, so the lower bound is the least m that it
        leaves standing.
        """
        mean = counts @ self.x / np.maximum(counts.sum(axis=-1), 1)
        kept = np.stack([mean, mean])
        out = np.stack([np.zeros_like(mean), np.ones_like(mean)])
        up = out == 0
        for _ in range(50):  # bisection, to 2^-50 of the range
            middle = (out + kept) / 2
            rejected = self.evidence(counts, middle, up) >= level
            out = np.where(rejected, middle, out)
            kept = np.where(rejected, kept, middle)
        return out

    def pair(
        self,
        counts_a: Floats,
        counts_b: Floats,
        shift: Floats,
        share: Floats,
        level: Floats,
    ) -> Floats:
        """(P,) evidence that mean_a < mean_b + shift, from counts (P, S).

        If mean_a ≥ mean_b + shift, then at c = mean_b both "mean_a is at least c + shift" and
        "mean_b is at most c" are true, and the product of the wealth against each is an e-process.
        This is a lower bound on the least logarithm of that product over all c in [0, 1].

        Args:
            shift: (P,) at least −1.
            share: (P,) in [0, 1], where between mean_a − shift (0) and mean_b (1) the least value
                is expected. Any value is valid; a good one makes the bound tight.
            level: (P,) the bound is tightened only until it is clear whether it reaches this.
        """
        shift = np.minimum(shift, 1.0)[:, None]  # more is never true
        low = (counts_a @ self.x / counts_a.sum(axis=1))[:, None] - shift
        high = (counts_b @ self.x / counts_b.sum(axis=1))[:, None]
        around = low + (high - low) * np.clip(share[:, None] + OFFSETS, 0, 1)
        # The least and the largest c for which c and c + shift may both be means.
        first = np.maximum(0.0, -shift)
        last = np.minimum(1.0, 1 - shift)
        points = np.clip(np.concatenate([first, around, last], axis=1), first, last)
        wealth = self._at_points(counts_a, counts_b, shift, points)
        # More points around the one where the product is least.
        rows = np.arange(share.size)
        least = np.clip(_logsumexp(wealth).sum(axis=0).argmin(axis=1), 1, points.shape[1] - 2)
        left = points[rows, least - 1, None]
        right = points[rows, least + 1, None]
        finer = left + (right - left) * FINER
        more = self._at_points(counts_a, counts_b, shift, finer)
        points = np.concatenate([points, finer], axis=1)
        order = (rows[:, None], points.argsort(axis=1))
        wealth = np.concatenate([wealth, more], axis=2)[:, *order]
        return self._tightened(points[order], shift, wealth, level)

    def _at_points(
        self, counts_a: Floats, counts_b: Floats, shift: Floats, points: Floats
    ) -> Floats:
        """(2, P, C, L) wealth of each bet against "mean_a is at least c + shift", F(c), and against
        "mean_b is at most c", G(c), at `points` c (P, C).

        F rises with c, G falls. Between two points l < r, F·G is at least F(l)·G(r).
        """
        of_a = self._wealth(counts_a[:, None], np.clip(points + shift, 0, 1), False)
        return np.stack([of_a, self._wealth(counts_b[:, None], points, True)])

    def _tightened(self, points: Floats, shift: Floats, wealth: Floats, level: Floats) -> Floats:
        """(P,) the bound of `pair` from `wealth` (2, P, C, L) at increasing `points`."""
        log_a, log_b = _logsumexp(wealth)
        bounds = log_a[:, :-1] + log_b[:, 1:]
        rows = np.arange(level.size)
        for _ in range(6):
            rows = rows[~(bounds[rows].min(axis=1) >= level[rows])]
            if not rows.size:
                break
            # The interval that decides. For bets that are admissible at both of its ends unchanged,
            # the logarithm of the product of two of them is concave, hence at least the smaller of
            # its values there; F·G is at least the sum of all these products.
            column = bounds[rows].argmin(axis=1)
            at = (rows, column)
            end = (rows, column + 1)
            # Larger targets cut bets on "above", smaller ones on "below".
            ruin = np.stack([1 - np.clip(points[at] + shift[rows, 0], 0, 1), points[end]])
            fixed = self.bets <= _largest_bet(ruin)[..., None]
            products = []
            for place in (at, end):
                bet_a, bet_b = np.where(fixed, wealth[:, *place], -np.inf)
                products.append(bet_a[:, :, None] + bet_b[:, None])
            least_sum = _logsumexp(np.minimum(*products).reshape(rows.size, -1))
            bounds[at] = np.maximum(bounds[at], least_sum)
            rows = rows[~(bounds[at] < level[rows])]
        return bounds.min(axis=1)

    def _wealth(self, counts: Floats, m: Floats, up: Bools | bool) -> Floats:
        """(..., L) log of weight and wealth of each bet that the mean is above (`up`) or below m."""
        m = m[..., None]
        up = np.asarray(up)[..., None]
        bets = np.minimum(self.bets, _largest_bet(np.where(up, m, 1 - m)))
        bets = np.where(up, bets, -bets)
        total = np.broadcast_to(self.log_weight, bets.shape).copy()
        for s, x in enumerate(self.x):
            total += counts[..., s, None] * np.log1p(bets * (x - m))
        return total


def _logsumexp(terms: Floats) -> Floats:
    """ln Σ exp over the last axis: a third of the time of `np.logaddexp.reduce`."""
    top = np.maximum(terms.max(axis=-1, keepdims=True), -1e300)
    # exp takes three times as long where it underflows.
    return np.log(np.exp(np.maximum(terms - top, -700.0)).sum(axis=-1)) + top[..., 0]


def _largest_bet(ruin: Floats) -> Floats:
    """The largest bet on rewards that may fall short of the mean by `ruin`."""
    return RISK / np.maximum(ruin, RISK / (2 * TOP))
