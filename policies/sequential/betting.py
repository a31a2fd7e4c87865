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
        """Two bounds (...) on the mean, each wrong at any time ever with probability at most
        exp(−level).

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
        level: Floats | None = None,
    ) -> Floats:
        """(P,) evidence that mean_a < mean_b + shift, from counts (P, S).

        If mean_a ≥ mean_b + shift, then at c = mean_b both "mean_a is at least c + shift" and
        "mean_b is at most c" are true, and the product of the wealth against each is an e-process.
        This is a lower bound on the least logarithm of that product over all c in [0, 1]. The
        wealth against the first, F(c), rises with c; that against the second, G(c), falls. So
        between two points l < r it is at least F(l)·G(r); and for bets that are admissible at both
        points unchanged, the logarithm of the product of two of them is concave in c, hence at
        least the smaller of its values there; F·G is at least the sum of all these products.

        Args:
            shift: (P,) at least −1.
            share: (P,) in [0, 1], where between mean_a − shift (0) and mean_b (1) the least value
                is expected. Any value is valid; a good one makes the bound tight.
            level: (P,) evidence that is of interest; where it is not reached the result may be
                −inf.
        """
        if level is not None:
            # The product at any point is an upper bound on what follows, and takes a fraction of
            # the time.
            middle = counts_a @ self.x / counts_a.sum(axis=1) - shift
            middle += share * (counts_b @ self.x / counts_b.sum(axis=1) - middle)
            middle = np.clip(middle, np.maximum(0.0, -shift), np.minimum(1.0, 1 - shift))
            most = self.below(counts_a, np.clip(middle + shift, 0, 1))
            hope = most + self.above(counts_b, middle) >= level
            evidence = np.full(hope.shape, -np.inf)
            if hope.any():
                evidence[hope] = self.pair(counts_a[hope], counts_b[hope], shift[hope], share[hope])
            return evidence
        shift = np.minimum(shift, 1.0)[:, None]  # more is never true
        low = (counts_a @ self.x / counts_a.sum(axis=1))[:, None] - shift
        high = (counts_b @ self.x / counts_b.sum(axis=1))[:, None]
        ends = np.maximum(0.0, -shift), np.minimum(1.0, 1 - shift)

        def wealth(points: Floats) -> tuple[Floats, Floats]:
            target = np.clip(points + shift, 0, 1)
            short = self._wealth(counts_a[:, None], target, up=False)
            return short, self._wealth(counts_b[:, None], points, up=True)

        inner = low + (high - low) * np.clip(share[:, None] + OFFSETS, 0, 1)
        points = np.clip(np.concatenate([ends[0], inner, ends[1]], axis=1), *ends)
        first, second = wealth(points)
        # More points around the one where the product is least.
        total = logsumexp(first) + logsumexp(second)
        least = np.clip(total.argmin(axis=1)[:, None], 1, points.shape[1] - 2)
        left, right = (np.take_along_axis(points, least + step, axis=1) for step in (-1, 1))
        finer = left + (right - left) * FINER
        points, parts = np.concatenate([points, finer], axis=1), wealth(finer)
        order = points.argsort(axis=1)
        points = np.take_along_axis(points, order, axis=1)
        first, second = (
            np.take_along_axis(np.concatenate(both, axis=1), order[..., None], axis=1)
            for both in zip((first, second), parts, strict=True)
        )
        bound = logsumexp(first)[:, :-1] + logsumexp(second)[:, 1:]
        # Bets that neither end of an interval has to cut: larger targets cut bets on "above",
        # smaller ones on "below".
        target = np.clip(points + shift, 0, 1)
        fixed_a = self.bets <= RISK / np.maximum(1 - target[:, :-1], RISK / (2 * TOP))[..., None]
        fixed_b = self.bets <= RISK / np.maximum(points[:, 1:], RISK / (2 * TOP))[..., None]
        rows = np.arange(bound.shape[0])
        for _ in range(6):
            # The interval that decides: each product of two fixed bets is at least the smaller of
            # its values there.
            at = bound.argmin(axis=1)
            a, b = fixed_a[rows, at], fixed_b[rows, at]
            products = []
            for end in (at, at + 1):
                of_a = np.where(a, first[rows, end], -np.inf)
                of_b = np.where(b, second[rows, end], -np.inf)
                products.append(of_a[:, :, None] + of_b[:, None])
            least_sum = logsumexp(np.minimum(*products).reshape(rows.size, -1))
            bound[rows, at] = np.maximum(bound[rows, at], least_sum)
        return np.where(high > low, bound, -np.inf).min(axis=1)

    def _wealth(self, counts: Floats, m: Floats, up: bool) -> Floats:
        """(..., L) weight and wealth of every bet that the mean is above (`up`) or below m, as
        logarithms.
        """
        m = np.asarray(m)[..., None]
        ruin = np.maximum(m if up else 1 - m, RISK / (2 * TOP))
        bets = np.minimum(self.bets, RISK / ruin)
        bets = bets if up else -bets
        total = np.broadcast_to(self.log_weight, bets.shape).copy()
        for s, x in enumerate(self.x):
            total += counts[..., s, None] * np.log1p(bets * (x - m))
        return total


def logsumexp(terms: Floats) -> Floats:
    """ln Σ exp over the last axis; not all terms may be −inf. SciPy's is several times slower on
    small arrays.
    """
    top = terms.max(axis=-1, keepdims=True)
    top = np.maximum(top, -1e300)
    return np.log(np.exp(terms - top).sum(axis=-1)) + top[..., 0]
