"""Successive elimination, SE(A, γ, R): Algorithm 2 of the paper.

Many agents run it in lock-step. A test checks that each makes the draws and decisions of the
algorithm as printed.
"""

from __future__ import annotations

from math import ceil, inf, isfinite, log2
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Bools, Ints
from clustered_bandit_gym.errors import BudgetExceeded, UserError
from clustered_bandit_gym.game.federation import Block
from clustered_bandit_gym.game.pulls import MAX_TIMES
from clustered_bandit_gym.policies.engines.registry import Found

#: ε_r = 2^-r and n_r ∝ 4^r leave the range of float64 beyond about this round; only a minute σ gets
#: anywhere near.
MAX_ROUND = 500


def round_size(n_arms: Any, gamma: float, r: int, sigma: float = 1.0) -> Any:
    """n_r = ⌈8σ² ln(4|A|r²/γ)/ε_r²⌉ with ε_r = 2^-r, at least 1 (Algorithm 2, line 4).

    Args:
        n_arms: |A|, the size of the *initial* set; a number or (n,) one per agent.
        gamma: the error budget of the call.

    Returns:
        int64, of the shape of `n_arms`. `BudgetExceeded` where it cannot be counted exactly.
    """
    if not gamma > 0:
        raise UserError(
            f"an elimination needs a positive error budget, got {gamma}: delta is too small to "
            "divide"
        )
    if r <= MAX_ROUND:
        scale = 8.0 * sigma**2 * 4.0**r
        sizes = np.maximum(1.0, np.ceil(scale * np.log(4 * n_arms * r**2 / gamma)))
        if sizes.max() <= MAX_TIMES:
            return sizes.astype(int)
    raise BudgetExceeded(
        f"round {r} of an elimination takes more than {MAX_TIMES:,} pulls of one arm, more than can "
        "be counted: the arms that are left tie, or nearly so"
    )


def elimination(
    block: Block,
    arms: Ints,
    gamma: float,
    precision: float | None = None,
    within: Bools | None = None,
) -> Found:
    """SE(A, γ, R) at every agent of `block`, in lock-step (Even-Dar, Mannor and Mansour 2002).

    Round r pulls each arm that is still active at an agent n_r fresh times (`round_size`) and keeps
    those whose average is at least the agent's best average minus ε_r = 2^-r. An agent with one arm
    left stops pulling. With probability 1 − γ all averages of an agent are within ε_r/2 of the
    truth; then the best arm stays, and every arm 2ε_r or more below it is gone after round r.

    With `precision` it plays the R = ⌈log2(1/precision) + 1⌉ ≥ 1 rounds after which arms that far
    below the best are gone, or none if it is infinite. If two arms tie, `BudgetExceeded` ends it.
    Estimates are averages of the last round that pulled an arm. See `Engine` for the other
    arguments and the result.

    Args:
        within: (n, k) booleans, each agent's initial set if it is not all of `arms`.
    """
    rounds = inf
    if precision is not None:
        rounds = max(1, ceil(log2(1 / precision) + 1)) if isfinite(precision) else 0
    active = np.ones((len(block), arms.size), dtype=bool) if within is None else within.copy()
    estimates = np.zeros(active.shape)
    # Agents that have all arms draw a grid; those that have lost one draw the cells that are left.
    sizes = active.sum(axis=1)
    complete = sizes == arms.size
    whole = np.flatnonzero(complete & (sizes > 1))
    row, column = np.nonzero(active & (~complete & (sizes > 1))[:, None])
    each = within is not None  # one number for all agents is drawn faster
    r = 0
    while (whole.size or row.size) and r < rounds:
        r += 1
        times = round_size(sizes if each else arms.size, gamma, r, block.problem.sigma)
        if row.size:
            averages = block.pull(row, arms[column], times[row] if each else times)
            best = np.full(len(block), -np.inf)
            np.maximum.at(best, row, averages)
            kept = averages >= best[row] - 2.0**-r
            estimates[row, column] = averages
            active[row, column] = kept
            row = row[kept]
            column = column[kept]
        if whole.size:
            averages = block.pull(whole[:, None], arms[None], times[whole, None] if each else times)
            kept = averages >= averages.max(axis=1, keepdims=True) - 2.0**-r
            estimates[whole] = averages
            complete = kept.all(axis=1)
            if not complete.all():
                active[whole] = kept
                i, found = np.nonzero(kept & ~complete[:, None])
                row = np.concatenate([row, whole[i]])
                column = np.concatenate([column, found])
                whole = whole[complete]
        if row.size:
            unsettled = np.bincount(row)[row] > 1
            row = row[unsettled]
            column = column[unsettled]
    return active, estimates
