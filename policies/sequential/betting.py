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

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UserError

#: Bets: the largest, the ratio of neighbours, how many. They serve gaps from about 1/2 down to
#: variance/1000.
TOP, RATIO, BETS = 8.0, 1.6, 18
#: Weight of the gambler who does not bet. It bounds from below what one arm of a pair can lose.
IDLE = 0.02
#: A bet never risks more than this part of what could ruin it.
RISK = 0.95
#: Where a pair's common mean is examined, relative to the place where two normal laws would have
#: it.
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
        if np.any((x < 0) | (x > 1)):
            raise UserError("values must be scaled to [0, 1]")
        self.x = x
        self.bets: Floats = np.append(TOP * RATIO ** -np.arange(float(BETS)), 0.0)
        self.log_weight: Floats = np.log(np.append(np.full(BETS, (1 - IDLE) / BETS), IDLE))

    def above(self, counts: Floats, m: Floats) -> Floats:
        """(...) evidence that the mean is above `m` (...), from `counts` (..., S)."""
        return logsumexp(self._wealth(counts, m, up=True))

    def below(self, counts: Floats, m: Floats) -> Floats:
        """(...) evidence that the mean is below `m`."""
        return logsumexp(self._wealth(counts, m, up=False))

    def interval(self, counts: Floats, level: float) -> tuple[Floats, Floats]:
        """Two bounds (...) on the mean, each ever wrong with probability at most exp(−level).

        Evidence that the mean is above m falls with m, so the lower bound is the least m that it
        leaves standing.
        """
        mean = counts @ self.x / np.maximum(counts.sum(axis=-1), 1)
        ends = []
        for test, end in ((self.above, 0.0), (self.below, 1.0)):
            out, kept = np.full(mean.shape, end), mean.copy()
            for _ in range(50):  # bisection, to 2^-50 of the range
                middle = (out + kept) / 2
                rejected = test(counts, middle) >= level
                out, kept = np.where(rejected, middle, out), np.where(rejected, kept, middle)
            ends.append(out)
        return ends[0], ends[1]

    def pair(
        self,
        counts_a: Floats,
        counts_b: Floats,
        shift: Floats,
        share: Floats,
        level: Floats | float = -np.inf,
    ) -> Floats:
        """(P,) evidence that mean_a < mean_b + shift, from counts (P, S).

        If mean_a ≥ mean_b + shift, then at c = mean_b both "mean_a is at least c + shift" and
        "mean_b is at most c" are true, and the product of the wealth against each is an e-process.
        This is a lower bound on the least logarithm of that product over all c in [0, 1].

        Args:
            shift: (P,) at least −1.
            share: (P,) in [0, 1], where between mean_a − shift (0) and mean_b (1) the least value
                is expected. Any value is valid; a good one makes the bound tight.
            level: (P,) evidence that is of interest: where it is not reached the result may be
                −inf, where it is reached the bound is not made tighter.
        """
        level = np.broadcast_to(level, share.shape)
        shift = np.minimum(shift, 1.0)  # more is never true
        low = counts_a @ self.x / counts_a.sum(axis=1) - shift
        high = counts_b @ self.x / counts_b.sum(axis=1)
        # The product at any point is an upper bound, and takes a fraction of the time.
        middle = np.clip(low + share * (high - low), *_ends(shift))
        of_a = self.below(counts_a, np.clip(middle + shift, 0, 1))
        hope = (high > low) & (of_a + self.above(counts_b, middle) >= level)
        evidence = np.full(hope.shape, -np.inf)
        if hope.any():
            around = np.clip(share[hope, None] + OFFSETS, 0, 1)
            points = low[hope, None] + (high - low)[hope, None] * around
            evidence[hope] = self._least(
                counts_a[hope], counts_b[hope], shift[hope, None], points, level[hope]
            )
        return evidence

    def _least(
        self, counts_a: Floats, counts_b: Floats, shift: Floats, points: Floats, level: Floats
    ) -> Floats:
        """(P,) the bound of `pair`, from the product at `points` (P, n); shift is (P, 1).

        The wealth against "mean_a is at least c + shift", F(c), rises with c; that against "mean_b
        is at most c", G(c), falls. So between two points l < r the product is at least F(l)·G(r).
        """
        ends = _ends(shift)
        points = np.clip(np.concatenate([ends[0], points, ends[1]], axis=1), *ends)
        of_a, of_b = self._both(counts_a, counts_b, points, shift)
        # More points around the one where the product is least.
        total = logsumexp(of_a) + logsumexp(of_b)
        hope = total.min(axis=1) >= level
        evidence = np.full(hope.shape, -np.inf)
        if not hope.any():
            return evidence
        counts_a, counts_b, shift = counts_a[hope], counts_b[hope], shift[hope]
        points, of_a, of_b, total = points[hope], of_a[hope], of_b[hope], total[hope]
        level = level[hope]
        least = np.clip(total.argmin(axis=1)[:, None], 1, points.shape[1] - 2)
        left = np.take_along_axis(points, least - 1, axis=1)
        right = np.take_along_axis(points, least + 1, axis=1)
        finer = left + (right - left) * FINER
        finer_a, finer_b = self._both(counts_a, counts_b, finer, shift)
        points = np.concatenate([points, finer], axis=1)
        order = points.argsort(axis=1)
        points = np.take_along_axis(points, order, axis=1)
        order = order[..., None]
        of_a = np.take_along_axis(np.concatenate([of_a, finer_a], axis=1), order, axis=1)
        of_b = np.take_along_axis(np.concatenate([of_b, finer_b], axis=1), order, axis=1)
        bound = logsumexp(of_a)[:, :-1] + logsumexp(of_b)[:, 1:]
        # Bets that neither end of an interval has to cut: larger targets cut bets on "above",
        # smaller ones on "below".
        target = np.clip(points + shift, 0, 1)
        fixed_a = self.bets <= _largest_bet(1 - target[:, :-1])[..., None]
        fixed_b = self.bets <= _largest_bet(points[:, 1:])[..., None]
        rows = np.arange(bound.shape[0])
        for _ in range(6):
            rows = rows[bound[rows].min(axis=1) < level[rows]]
            if not rows.size:
                break
            # The interval that decides. For bets that are admissible at both of its ends unchanged,
            # the logarithm of the product of two of them is concave, hence at least the smaller of
            # its values there; F·G is at least the sum of all these products.
            at = (rows, bound[rows].argmin(axis=1))
            products = []
            for end in (at, (rows, at[1] + 1)):
                bet_a = np.where(fixed_a[at], of_a[end], -np.inf)
                bet_b = np.where(fixed_b[at], of_b[end], -np.inf)
                products.append(bet_a[:, :, None] + bet_b[:, None])
            least_sum = logsumexp(np.minimum(*products).reshape(rows.size, -1))
            bound[at] = np.maximum(bound[at], least_sum)
            rows = rows[least_sum >= level[rows]]  # the others stay below the level
        evidence[hope] = bound.min(axis=1)
        return evidence

    def _both(
        self, counts_a: Floats, counts_b: Floats, points: Floats, shift: Floats
    ) -> tuple[Floats, Floats]:
        """(P, n, L) wealth against "mean_a ≥ c + shift" and "mean_b ≤ c" for c = `points` (P, n)."""
        target = np.clip(points + shift, 0, 1)
        of_a = self._wealth(counts_a[:, None], target, up=False)
        return of_a, self._wealth(counts_b[:, None], points, up=True)

    def _wealth(self, counts: Floats, m: Floats, up: bool) -> Floats:
        """(..., L) log of weight and wealth of each bet that the mean is above (`up`) or below m."""
        m = np.asarray(m)[..., None]
        bets = np.minimum(self.bets, _largest_bet(m if up else 1 - m))
        bets = bets if up else -bets
        total = np.broadcast_to(self.log_weight, bets.shape).copy()
        for s, x in enumerate(self.x):
            total += counts[..., s, None] * np.log1p(bets * (x - m))
        return total


def _largest_bet(ruin: Floats) -> Floats:
    """The largest bet on rewards that may fall short of the mean by `ruin`."""
    return RISK / np.maximum(ruin, RISK / (2 * TOP))


def _ends(shift: Floats) -> tuple[Floats, Floats]:
    """The least and the largest c for which c and c + shift may both be means."""
    return np.maximum(0.0, -shift), np.minimum(1.0, 1 - shift)


def logsumexp(terms: Floats) -> Floats:
    """ln Σ exp over the last axis, with a finite term. SciPy's is slow on small arrays."""
    top = np.maximum(terms.max(axis=-1, keepdims=True), -1e300)
    # Terms that cannot count: exp takes three times as long where it underflows.
    away = np.maximum(terms - top, -700.0)
    return np.log(np.exp(away).sum(axis=-1)) + top[..., 0]
