"""Evidence from normal mixtures, for sub-Gaussian rewards: valid at all numbers of pulls at once.

Rewards are 1-sub-Gaussian in the moment-generating sense; divide by σ first. Each mixture has a
constant ρ > 0 that must be fixed before the data. The mechanism is always the same: for a
sub-Gaussian random walk S with variance process V and any law F, ∫ exp(λS − λ²V/2) dF(λ) is a
non-negative supermartingale that starts at one, so it ever exceeds 1/α with probability at most α
(Ville). Its logarithm is the *evidence*. F is N(0, 1/ρ), or the positive half of it: that bets on
one direction only, against walks that drift downwards or not at all, and is worth up to ln 2 more.
Sources: Robbins (1970), "Statistical methods related to the law of the iterated logarithm"; Howard,
Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence
sequences".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

from clustered_bandit_gym._types import Bools, Floats

#: `half_normal_pair` finds a minimum by Newton's method, to about 1e-12; this much is subtracted so
#: that it is never above it.
SAFETY = 1e-6
#: Nothing is claimed where one arm has more than this many times the pulls of the other: beyond
#: about 1e10 rounding errors of `half_normal_pair` exceed what is subtracted.
MOST_RATIO = 1e7


def tuned_rho(n: Any, alpha: Any) -> Any:
    """The ρ for which a two-sided mixture at level α is tightest when about n pulls have been made."""
    log_term = -2 * np.log(alpha)
    return n / (log_term + np.log1p(log_term))


def radius(n: Any, alpha: Any, rho: Any) -> Any:
    """Two-sided: |average of n pulls − mean| stays within this at all n ≥ 1 with probability 1 − α."""
    total = n + rho
    return np.sqrt(total * (np.log(total / rho) - 2 * np.log(alpha))) / n


def pair_evidence(difference: Any, n_a: Any, n_b: Any, rho: Any) -> Any:
    """Two-sided evidence against equal means of two arms, whose averages differ by `difference`.

    At the true common mean the product of the two arms' mixtures is a supermartingale; this is the
    logarithm of its minimum over common means. The same number counts against "μ_a ≤ μ_b" when
    the average of a is larger, and the other way round.
    """
    spread = (n_a + rho) / n_a**2 + (n_b + rho) / n_b**2
    return 0.5 * difference**2 / spread - 0.5 * (np.log1p(n_a / rho) + np.log1p(n_b / rho))


def half_normal(s: Any, v: Any, rho: Any) -> Floats:
    """(...) evidence that a walk at `s` with variance process `v` drifts upwards.

    For n pulls with average m of an arm, against "its mean is at most c": s = n(m − c), v = n.
    """
    total = v + rho
    z = s / np.sqrt(total)
    return np.log(2) + 0.5 * np.log(rho / total) + 0.5 * z * z + log_ndtr(z)


def half_normal_pair(difference: Any, n_a: Any, n_b: Any, rho: Any) -> Floats:
    """(...) evidence that μ_a < μ_b + s; `difference` is m_b + s − m_a, averages of n pulls.

    If μ_a ≥ μ_b + s there is a c with μ_b ≤ c and μ_a ≥ c + s. There the product of the two arms'
    mixtures, one against each of these, is an e-process; this is the logarithm of the least value
    of that product over c. Where arm a falls short by x and arm b is ahead by difference − x, it is
    the minimum over x of a convex function.
    """
    d = difference
    root_a = n_a / np.sqrt(n_a + rho)
    root_b = n_b / np.sqrt(n_b + rho)
    x = d * root_b**2 / (root_a**2 + root_b**2)
    for _ in range(30):
        slope_a, bend_a = _derivatives(root_a * x)
        slope_b, bend_b = _derivatives(root_b * (d - x))
        step = (root_a * slope_a - root_b * slope_b) / (root_a**2 * bend_a + root_b**2 * bend_b)
        x = x - step
        # Newton squares the distance, and the value is off by the square of what is left of that.
        done = np.abs(step) * (root_a + root_b) <= 1e-5
        if done.all():
            break
    least = half_normal(n_a * x, n_a, rho) + half_normal(n_b * (d - x), n_b, rho) - SAFETY
    # Nothing is claimed where Newton's method has not converged: far on the wrong side, or with very
    # unequal pulls.
    alike = np.maximum(n_a, n_b) <= MOST_RATIO * np.minimum(n_a, n_b)
    return np.where(alike & done & ~np.isnan(least), least, -np.inf)


def half_normal_pair_reaches(
    difference: Floats, n_a: Floats, n_b: Floats, rho: Floats, level: Floats
) -> Bools:
    """(P,) whether `half_normal_pair` is at least `level`; all arguments are (P,).

    Its terms are those of `pair_evidence`, ln 2 for each arm, and ln Φ(z) ≤ 0 for each arm. So it is
    never more than 2 ln 2 larger. It is never smaller where both z ≥ 0 at its minimum x, hence
    Φ ≥ ½: that is where the convex function falls at x = 0 and rises at x = difference. Newton's
    method is left for what is between, and for very unequal pulls.
    """
    evidence = pair_evidence(difference, n_a, n_b, rho)
    fewer = np.minimum(n_a, n_b)
    more = np.maximum(n_a, n_b)
    # The slope of z²/2 + ln Φ(z) is √(2/π) at z = 0, and more than z everywhere. If the minimum is
    # inside on the side of the arm with more pulls, it is on the other side, too.
    slope = difference * fewer**2 / (fewer + rho)
    inside = (slope**2 >= 2 / np.pi * (more**2 / (more + rho))) & (difference > 0)
    inside &= more <= MOST_RATIO * fewer
    reached = (evidence >= level) & inside
    unclear = ~reached & (evidence + 2 * np.log(2) >= level)
    if unclear.any():
        pairs = (each[unclear] for each in (difference, n_a, n_b, rho))
        reached[unclear] = half_normal_pair(*pairs) >= level[unclear]
    return reached


def _derivatives(z: Floats) -> tuple[Floats, Floats]:
    """First and second derivative of z²/2 + ln Φ(z); the second lies in (0, 1)."""
    hazard = np.sqrt(2 / np.pi) / erfcx(z * -np.sqrt(0.5))  # the density over Φ
    slope = z + hazard
    return slope, np.maximum(1 - hazard * slope, 1e-12)
