"""Successive elimination, SE(A, γ, R): Algorithm 2 of the paper.

Many agents run it in lock-step. A test checks that each makes the draws and decisions of the
algorithm as printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import BudgetExceeded, UserError
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.pulls import MAX_TIMES

#: ε_r = 2^-r and n_r ∝ 4^r leave the range of float64 beyond about this round; only a minute σ gets
#: anywhere near.
MAX_ROUND = 500


def round_size(n_arms: Any, gamma: Any, r: int, sigma: float = 1.0) -> Any:
    """n_r = ⌈8σ² ln(4|A|r²/γ)/ε_r²⌉ with ε_r = 2^-r, at least 1 (Algorithm 2, line 4).

    Args:
        n_arms: |A|, the size of the *initial* set; a number or (n,) one per agent.
        gamma: the error budget of the call; a number or (n,).

    Returns:
        An int, or int64 (n,) if either argument is an array. `BudgetExceeded` where it cannot be
        counted exactly.
    """
    if r > MAX_ROUND:
        raise BudgetExceeded(
            f"round {r} of an elimination: the arms that are left cannot be told apart"
        )
    if not np.asarray(gamma).min() > 0:
        raise UserError(
            f"an elimination needs a positive error budget, got {gamma}: delta is too small to "
            "divide"
        )
    scale = 8.0 * sigma**2 * 4.0**r
    sizes = np.maximum(1.0, np.ceil(scale * np.log(4 * n_arms * r**2 / gamma)))
    if sizes.max() > MAX_TIMES:
        raise BudgetExceeded(
            f"round {r} of an elimination takes more than {MAX_TIMES:,} pulls of one arm, more "
            "than can be counted: the arms that are left tie, or nearly so"
        )
    return sizes.astype(np.int64) if np.ndim(sizes) else int(sizes)


def separating_rounds(eta: float) -> int:
    """R = ⌈log2(1/η) + 1⌉ ≥ 1, after which arms η below the best are gone; 0 if η is infinite."""
    return max(1, math.ceil(math.log2(1 / eta) + 1)) if math.isfinite(eta) else 0


@dataclass(frozen=True)
class Round:
    """One lock-step round, as seen by `watch`.

    Attributes:
        agents: (n,) ids of the agents that took part.
        sizes: (n,) |A|, the size of each agent's initial set.
        gamma: (n,) each agent's error budget for the call.
        r: the round, from 1.
        times: (n,) n_r, the fresh pulls of each arm still active.
        arms: (n,) how many arms each agent pulled.
    """

    agents: Ints
    sizes: Ints
    gamma: Floats
    r: int
    times: Ints
    arms: Ints


_watchers: list[list[Round]] = []


@contextmanager
def watch() -> Iterator[list[Round]]:
    """A list to which every round of every elimination run inside is appended: for tests."""
    rounds: list[Round] = []
    _watchers.append(rounds)
    try:
        yield rounds
    finally:
        _watchers.remove(rounds)


def eliminate(
    block: Block,
    arms: Ints,
    gamma: Any,
    rounds: int | None = None,
    within: np.ndarray | None = None,
) -> tuple[np.ndarray, Floats]:
    """SE(A, γ, R) at every agent of `block`, in lock-step.

    Round r pulls each arm that is still active at an agent n_r fresh times (`round_size`) and keeps
    those whose average is at least the agent's best average minus ε_r = 2^-r. An agent with one arm
    left stops pulling. With probability 1 − γ all averages of an agent are within ε_r/2 of the
    truth; then the best arm stays, and every arm 2ε_r or more below it is gone after round r.

    Args:
        arms: (k,) the arms considered; columns of the tables below.
        gamma: error budget of the call, a number or (n,).
        rounds: R; None runs until one arm is left. If two arms tie, `BudgetExceeded` ends it.
        within: (n, k) booleans, each agent's initial set if it is not all of `arms`.

    Returns:
        active: (n, k) booleans, what is left.
        estimates: (n, k) each arm's average in the last round that pulled it; 0 for an arm never
            pulled.
    """
    n, k = len(block), arms.size
    active = np.ones((n, k), dtype=np.bool_) if within is None else within.copy()
    left = active.sum(axis=1)
    sizes: Any = k if within is None else left
    estimates = np.zeros((n, k))
    # Agents with all arms active are drawn as a grid, which is fast; the others arm by arm, in the
    # order in which they lost an arm.
    whole = np.flatnonzero((left == k) & (k > 1))
    partly = np.flatnonzero((left > 1) & (left < k))
    r = 0
    while (whole.size or partly.size) and (rounds is None or r < rounds):
        r += 1
        epsilon = 2.0**-r
        times = round_size(sizes, gamma, r, block.problem.sigma)
        for watcher in _watchers:
            rows = np.concatenate([whole, partly])
            size, budget, pulls = (np.broadcast_to(x, n)[rows] for x in (sizes, gamma, times))
            watcher.append(Round(block.agents[rows], size, budget, r, pulls, left[rows]))
        if partly.size:
            i, column = np.nonzero(active[partly])
            row = partly[i]
            averages = np.full((partly.size, k), -np.inf)
            averages[i, column] = block.pull(row, arms[column], _at(times, row))
            estimates[row, column] = averages[i, column]
            active[partly] = averages >= averages.max(axis=1, keepdims=True) - epsilon
        if whole.size:
            averages = block.pull(whole[:, None], arms[None, :], _at(times, whole[:, None]))
            estimates[whole] = averages
            active[whole] = averages >= averages.max(axis=1, keepdims=True) - epsilon
        left = active.sum(axis=1)
        rows = np.concatenate([partly, whole])
        partly = rows[(left[rows] > 1) & (left[rows] < k)]
        whole = whole[left[whole] == k]
    return active, estimates


def _at(times: Any, rows: Ints) -> Any:
    """Pulls at `rows`, where `times` is one number or (n,)."""
    return times if isinstance(times, int) else times[rows]
