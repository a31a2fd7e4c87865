"""Track-and-stop: pull in the proportions that are optimal for the estimated means."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.engines.adaptive import adaptive

#: An agent's pulls of the arms that are left grow by this factor at a time.
GROWTH = 1.1
#: Forced exploration: every arm gets at least this part of an equal share.
LEAST_SHARE = 0.5
#: Steps of bisection for the shares: exact to 2^-24, far better than the estimated gaps.
BISECTIONS = 24


def track_and_stop(
    block: Block, arms: Ints, gamma: Any, precision: float | None = None
) -> tuple[np.ndarray, Floats]:
    """Track the optimal proportions (Garivier and Kaufmann 2016) among the arms that are left.

    The stopping rule is not the paper's ln((1 + ln t)/γ), which is not proved, but that of
    `adaptive`. Arms that are shown to be worse are not pulled any more. See `Engine` for arguments
    and result.
    """
    return adaptive(block, arms, gamma, precision, _plan)


def _plan(counts: Floats, gaps: Floats, level: Floats) -> Floats:
    """(r, k) the next batch."""
    pulls_left = np.where(np.isfinite(gaps), counts, 0.0).sum(axis=1, keepdims=True)
    return exploring_shares(gaps) * (GROWTH - 1) * pulls_left


def exploring_shares(gaps: Floats) -> Floats:
    """(r, k) the optimal shares, none below `LEAST_SHARE` of an equal share: gaps are estimates."""
    left = np.isfinite(gaps)
    least = LEAST_SHARE / left.sum(axis=1, keepdims=True)
    shares = np.where(left, np.maximum(optimal_shares(gaps), least), 0.0)
    return shares / shares.sum(axis=1, keepdims=True)


def optimal_shares(gaps: Floats) -> Floats:
    """Proportions of pulls that identify the best of unit Gaussian arms fastest.

    With x_a the share of arm a relative to the best arm's, all rivals are equally hard to rule out
    when Δ_a² x_a/(1 + x_a) is the same for all, and the total is smallest where Σ_a x_a² = 1
    (Garivier and Kaufmann 2016).

    Args:
        gaps: (n, k) distance to the best mean; 0 at the best arm, the first such counts; inf for an
            arm not played.

    Returns:
        (n, k) shares, rows sum to one.
    """
    rows = np.arange(gaps.shape[0])
    leader = gaps.argmin(axis=1)
    squares = np.maximum(gaps, 1e-12) ** 2
    squares[rows, leader] = np.inf
    ratio = squares / squares.min(axis=1, keepdims=True)  # ≥ 1, and 1 at the closest rival

    def relative(u: Floats) -> Floats:
        return u[:, None] / (ratio - u[:, None])

    low, high = np.zeros(rows.size), np.ones(rows.size)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        over = (relative(middle) ** 2).sum(axis=1) > 1
        low = np.where(over, low, middle)
        high = np.where(over, middle, high)
    shares = relative(low)
    shares[rows, leader] = 1.0
    return shares / shares.sum(axis=1, keepdims=True)
