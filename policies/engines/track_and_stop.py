"""Track-and-stop: pull in the proportions that are optimal for the estimated means (Garivier and
Kaufmann 2016), among the arms that are left.

The stopping rule is not the paper's ln((1 + ln t)/γ), which is not proved, but that of `adaptive`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.policies.engines.adaptive import adaptive, leading_cells, pulls_left


def _plan(counts: Floats, gaps: Floats, level: float) -> Floats:
    """(r, k) the next batch: a tenth of the pulls of the arms that are left."""
    # 1.1 - 1: a tenth but for its last digit, on which kept rows depend.
    return exploring_shares(gaps) * (1.1 - 1) * pulls_left(counts, gaps)


def exploring_shares(gaps: Floats) -> Floats:
    """(r, k) the optimal shares, none below half of an equal share: gaps are estimates."""
    left = np.isfinite(gaps)
    least = 0.5 / left.sum(axis=1, keepdims=True)
    shares = np.where(left, np.maximum(optimal_shares(gaps), least), 0.0)
    return shares / shares.sum(axis=1, keepdims=True)


def optimal_shares(gaps: Floats) -> Floats:
    """Proportions of pulls that identify the best of unit Gaussian arms fastest.

    With x_a the share of arm a relative to the best arm's, all rivals are equally hard to rule out
    when Δ_a² x_a/(1 + x_a) is the same for all, and the total is smallest where Σ_a x_a² = 1.

    Args:
        gaps: (n, k) distance to the best mean; 0 at the best arm, the first such counts; inf for an
            arm not played.

    Returns:
        (n, k) shares, rows sum to one.
    """
    top = leading_cells(gaps)
    squares = np.maximum(gaps, 1e-12) ** 2
    squares[top] = np.inf
    closest = squares.min(axis=1, keepdims=True)
    ratio = squares / closest  # ≥ 1, and 1 at the closest rival

    def relative(u: Floats) -> Floats:
        return u / (ratio - u)

    low = np.zeros_like(closest)
    high = low + 1
    for _ in range(24):  # bisection, to 2^-24: far better than the estimated gaps
        middle = (low + high) / 2
        over = (relative(middle) ** 2).sum(axis=1, keepdims=True) > 1
        low = np.where(over, low, middle)
        high = np.where(over, middle, high)
    shares = relative(low)
    shares[top] = 1.0
    return shares / shares.sum(axis=1, keepdims=True)


track_and_stop = partial(adaptive, plan=_plan)
