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

from clustered_bandit_gym._types import Floats

#: `half_normal_pair` finds a minimum by Newton's method, to about 1e-12; this much is subtracted so
#: that it is never above it.
SAFETY = 1e-6


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
    # unequal pulls, where beyond a ratio of about 1e10 rounding errors exceed what is subtracted.
    alike = np.maximum(n_a, n_b) <= 1e7 * np.minimum(n_a, n_b)
    return np.where(alike & done & ~np.isnan(least), least, -np.inf)


def _derivatives(z: Floats) -> tuple[Floats, Floats]:
    """First and second derivative of z²/2 + ln Φ(z); the second lies in (0, 1)."""
    hazard = np.sqrt(2 / np.pi) / erfcx(z * -np.sqrt(0.5))  # the density over Φ
    slope = z + hazard
    return slope, np.maximum(1 - hazard * slope, 1e-12)
