"""One-sided evidence for sub-Gaussian rewards: logarithms of e-processes from half-normal mixtures.

Rewards are in units of σ. For n pulls with average m of an arm whose mean is at most c, the walk s
= n(m − c) has E exp(λs − λ²n/2) ≤ 1 for every λ ≥ 0, at any stopping time. Averaged over λ from the
positive half of N(0, 1/ρ), ρ > 0 fixed before the data, this is `half_normal`: it ever exceeds
ln(1/α) with probability at most α (Ville). One direction is all that is bet on, so it is worth up
to ln 2 more than the two-sided mixture (Robbins 1970).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

from clustered_bandit_gym._types import Floats

#: `pair` finds a minimum by Newton's method, to about 1e-12; this much is subtracted so that it is
#: never above it.
SAFETY = 1e-6
#: Nothing is claimed where one arm has more than this many times the pulls of the other: beyond about
#: 1e10 rounding errors of `pair` exceed what is subtracted.
MOST_RATIO = 1e7


def half_normal(s: Any, v: Any, rho: Any) -> Floats:
    """(...) evidence that a walk at `s` with variance process `v` drifts upwards."""
    total = np.asarray(v, dtype=np.float64) + rho
    z = s / np.sqrt(total)
    return np.log(2) + 0.5 * np.log(rho / total) + 0.5 * z * z + log_ndtr(z)


def pair(difference: Any, n_a: Any, n_b: Any, rho: Any) -> Floats:
    """(...) evidence that μ_a < μ_b + s; `difference` is m_b + s − m_a, averages of n pulls.

    If μ_a ≥ μ_b + s there is a c with μ_b ≤ c and μ_a ≥ c + s. There the product of the two arms'
    mixtures, one against each of these, is an e-process; this is the logarithm of the least value
    of that product over c. Where arm a falls short by x and arm b is ahead by difference − x, it is
    the minimum over x of a convex function.
    """
    d, n_a, n_b = (np.asarray(x, dtype=np.float64) for x in (difference, n_a, n_b))
    root_a, root_b = n_a / np.sqrt(n_a + rho), n_b / np.sqrt(n_b + rho)
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
    z_a, z_b = root_a * x, root_b * (d - x)
    mixing = 2 * np.log(2) + 0.5 * (np.log(rho / (n_a + rho)) + np.log(rho / (n_b + rho)))
    least = 0.5 * (z_a * z_a + z_b * z_b) + log_ndtr(z_a) + log_ndtr(z_b) + mixing - SAFETY
    # Nothing is claimed where Newton's method has not converged: far on the wrong side, or with very
    # unequal pulls.
    alike = np.maximum(n_a, n_b) <= MOST_RATIO * np.minimum(n_a, n_b)
    return np.where(alike & done & ~np.isnan(least), least, -np.inf)


def _derivatives(z: Floats) -> tuple[Floats, Floats]:
    """First and second derivative of z²/2 + ln Φ(z); the second lies in (0, 1)."""
    hazard = np.sqrt(2 / np.pi) / erfcx(z * -np.sqrt(0.5))  # the density over Φ
    slope = z + hazard
    return slope, np.maximum(1 - hazard * slope, 1e-12)
