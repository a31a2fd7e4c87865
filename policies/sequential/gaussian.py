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
_ROOT, _HALF = np.sqrt(2 / np.pi), np.sqrt(0.5)


def half_normal(s: Any, v: Any, rho: Any) -> Floats:
    """Evidence that a walk at `s` with variance process `v` drifts upwards: (...), arguments
    broadcast.
    """
    total = np.asarray(v, dtype=np.float64) + rho
    z = s / np.sqrt(total)
    return np.log(2) + 0.5 * np.log(rho / total) + 0.5 * z * z + log_ndtr(z)


def pair(difference: Any, n_a: Any, n_b: Any, rho: Any, rho_b: Any = None) -> Floats:
    """Evidence that μ_a < μ_b + s: `difference` is m_b + s − m_a, averages of n_b and n_a > 0
    pulls.

    ρ of both mixtures is `rho`, or that of arm b is `rho_b`.

    If μ_a ≥ μ_b + s there is a c with μ_b ≤ c and μ_a ≥ c + s. There the product of the two arms'
    mixtures, one against each of these, is an e-process; this is the logarithm of the least value
    of that product over c. Where arm a falls short by x and arm b is ahead by difference − x, it is
    the minimum over x of a convex function.
    """
    d, n_a, n_b = (np.asarray(x, dtype=np.float64) for x in (difference, n_a, n_b))
    rho_b = rho if rho_b is None else rho_b
    root_a, root_b = n_a / np.sqrt(n_a + rho), n_b / np.sqrt(n_b + rho_b)
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
    else:
        # Not converged somewhere: far on the wrong side, where no evidence is claimed.
        x = np.where(done, x, np.nan)
    z_a, z_b = root_a * x, root_b * (d - x)
    mixing = 2 * np.log(2) + 0.5 * (np.log(rho / (n_a + rho)) + np.log(rho_b / (n_b + rho_b)))
    least = 0.5 * (z_a * z_a + z_b * z_b) + log_ndtr(z_a) + log_ndtr(z_b) + mixing - SAFETY
    return np.where(np.isnan(least), -np.inf, least)


def pair_reaches(
    level: Floats, difference: Floats, n_a: Floats, n_b: Floats, rho: Floats, rho_b: Floats
) -> np.ndarray:
    """(P,) whether `pair` is at least `level`, for differences > 0; arguments (P,).

    The product at the point where its quadratic part is least is an upper bound. If the slope shows
    that the minimum lies between the two averages, a tangent parabola gives a lower bound: between
    them both z are positive, where the second derivative of z²/2 + ln Φ(z) is at least 1 − 2/π, its
    value at 0 (it grows with z, since the hazard φ/Φ is convex). Only what is left open by the two
    is worked out.
    """
    total_a, total_b = n_a + rho, n_b + rho_b
    square_a, square_b = n_a * n_a / total_a, n_b * n_b / total_b
    root_a, root_b, bend = np.sqrt(square_a), np.sqrt(square_b), square_a + square_b
    z_a, z_b = difference * square_b * root_a / bend, difference * square_a * root_b / bend
    log_a, log_b = log_ndtr(z_a), log_ndtr(z_b)
    mixing = 0.5 * np.log(rho * rho_b / (total_a * total_b)) + 2 * np.log(2)
    most = 0.5 * (z_a * z_a + z_b * z_b) + log_a + log_b + mixing
    # The quadratic part has no slope there.
    slope = (
        root_a * np.exp(-0.5 * z_a * z_a - log_a) - root_b * np.exp(-0.5 * z_b * z_b - log_b)
    ) * (0.5 * _ROOT)
    # Slope of z²/2 + ln Φ(z) at 0: 0.7979. At both ends the other arm pulls harder.
    inside = (0.798 * root_a <= square_b * difference) & (0.798 * root_b <= square_a * difference)
    reached = inside & (most - slope * slope / (2 * 0.363 * bend) - 2 * SAFETY >= level)
    open_ = np.flatnonzero(~reached & (most + SAFETY >= level))
    if open_.size:
        at = (array[open_] for array in (difference, n_a, n_b, rho, rho_b))
        reached[open_] = pair(*at) >= level[open_]
    return reached


def _derivatives(z: Floats) -> tuple[Floats, Floats]:
    """First and second derivative of z²/2 + ln Φ(z); the second lies in (0, 1)."""
    hazard = _ROOT / erfcx(z * -_HALF)  # the density over Φ
    slope = z + hazard
    return slope, np.maximum(1 - hazard * slope, 1e-12)
