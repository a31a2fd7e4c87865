"""Successive elimination, SE(A, γ, R): Algorithm 2 of the paper.

`reference_elimination` is the algorithm as printed, for one agent. `eliminate` does the same for
many agents in lock-step, and is what the schemes run. A test checks that both make the same draws
and decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import BudgetExceeded, UserError
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.pulls import MAX_TIMES


def reference_elimination(
    pull: Callable[[int, int], float],
    arms: Sequence[int],
    gamma: float,
    rounds: float,
    sigma: float = 1.0,
) -> tuple[list[int], dict[int, float]]:
    """SE(A, γ, R) for one agent, line by line; `pull(arm, times)` is the average of fresh pulls."""
    left, mean, r = list(arms), dict.fromkeys(arms, 0.0), 0  # line 1
    while len(left) > 1 and r < rounds:  # line 2
        r += 1  # line 3, with ε_r = 2^-r
        times = round_size(len(arms), gamma, r, sigma)  # line 4
        mean |= {k: pull(k, times) for k in left}  # lines 4 and 5
        left = [k for k in left if mean[k] >= max(mean[j] for j in left) - 2.0**-r]  # line 6
    return left, mean  # line 8


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
    scale = 8.0 * sigma**2 * 4.0**r
    if isinstance(n_arms, int) and isinstance(gamma, float):
        # The scalar path: an agent on its own runs rounds of microseconds.
        if not gamma > 0:
            raise _no_budget(gamma)
        size = max(1, math.ceil(min(scale * math.log(4 * n_arms * r * r / gamma), 2.0 * MAX_TIMES)))
        if size > MAX_TIMES:
            raise _no_end(r)
        return size
    if not np.all(np.asarray(gamma) > 0):
        raise _no_budget(gamma)
    sizes = np.maximum(1.0, np.ceil(scale * np.log(4 * np.asarray(n_arms) * (r * r) / gamma)))
    if np.any(sizes > MAX_TIMES):
        raise _no_end(r)
    return sizes.astype(np.int64)


def _no_budget(gamma: Any) -> UserError:
    return UserError(
        f"an elimination needs a positive error budget, got {gamma}: delta is too small to divide"
    )


def _no_end(r: int) -> BudgetExceeded:
    return BudgetExceeded(
        f"round {r} of an elimination takes more than {MAX_TIMES:,} pulls of one arm, more than "
        "can be counted: "
        "the arms that are left tie, or nearly so"
    )


def separating_rounds(eta: float) -> int:
    """R = ⌈log2(1/η) + 1⌉, after which arms η below the best are gone; at least 1, and 0 if η is
    infinite.
    """
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
    """Every round of every elimination run inside is appended to the list: for tests and for
    teaching.
    """
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
    if n == 1 and within is None:
        return _eliminate_alone(
            block, arms, gamma if isinstance(gamma, float) else float(gamma[0]), rounds
        )
    sigma = block.problem.sigma
    # Agents with all k arms active are drawn as a grid, which is fast; the others as a list of
    # cells (agent, arm) in which the cells of an agent are adjacent.
    if within is None:
        sizes: Any = k
        active = np.ones((n, k), dtype=np.bool_)
        whole, cells = np.arange(n if k > 1 else 0), _NO_CELLS
    else:
        active = within.copy()
        sizes = active.sum(axis=1)
        whole = np.flatnonzero((sizes == k) & (k > 1))
        partly = np.flatnonzero((sizes > 1) & (sizes < k))
        cells = _Cells.of(active[partly], sizes[partly], partly, arms)
    estimates = np.zeros((n, k))
    r = 0
    while (whole.size or cells.rows.size) and (rounds is None or r < rounds):
        r += 1
        epsilon = 2.0**-r
        times = round_size(sizes, gamma, r, sigma)
        if _watchers:
            _report(block, sizes, gamma, r, times, whole, k, cells)
        if cells.rows.size:
            averages = block.pull(
                cells.rows, cells.arms, times if isinstance(times, int) else times[cells.rows]
            )
            starts = np.cumsum(cells.counts) - cells.counts
            keep = averages >= np.repeat(
                np.maximum.reduceat(averages, starts) - epsilon, cells.counts
            )
            estimates.reshape(-1)[cells.places] = averages
            active.reshape(-1)[cells.places] = keep
            cells = cells.only(keep, starts)
        if whole.size:
            averages = _pull_all(block, whole, arms, times)
            keep = averages >= averages.max(axis=1, keepdims=True) - epsilon
            if whole.size == n:
                estimates, active = averages, keep
            else:
                estimates[whole], active[whole] = averages, keep
            if np.count_nonzero(keep) < keep.size:
                left = keep.sum(axis=1)
                partly = np.flatnonzero((left > 1) & (left < k))
                cells = cells.joined(
                    _Cells.of(keep.take(partly, axis=0), left[partly], whole[partly], arms)
                )
                whole = whole[left == k]
    return active, estimates


_ROW_0 = np.zeros((1, 1), dtype=np.int64)


def _eliminate_alone(
    block: Block, arms: Ints, gamma: float, rounds: int | None
) -> tuple[np.ndarray, Floats]:
    """Fast path of `eliminate` for a single agent."""
    k, sigma = arms.size, block.problem.sigma
    estimates = np.zeros((1, k))
    left = np.arange(k)
    r = 0
    while left.size > 1 and (rounds is None or r < rounds):
        r += 1
        times = round_size(k, gamma, r, sigma)
        if _watchers:
            _report(block, k, gamma, r, times, np.zeros(1, dtype=np.int64), left.size, _NO_CELLS)
        if left.size == block.problem.n_arms:
            averages = block.pull_grid(times)[0]
        else:
            averages = block.pull(_ROW_0, arms[left][None, :], times)[0]
        estimates[0, left] = averages
        left = left[averages >= averages.max() - 2.0**-r]
    active = np.zeros((1, k), dtype=np.bool_)
    active[0, left] = True
    return active, estimates


@dataclass(frozen=True)
class _Cells:
    """Cells (row, arm) of a table (n, k), the cells of a row next to each other.

    Attributes:
        rows, arms: (c,) of each cell.
        places: (c,) index of each cell in the flattened table.
        counts: how many cells each row has, row after row.
    """

    rows: Ints
    arms: Ints
    places: Ints
    counts: Ints

    @classmethod
    def of(cls, held: np.ndarray, counts: Ints, rows: Ints, arms: Ints) -> _Cells:
        """The true cells of `held` (m, k), `counts` (m,) in each of its rows, which are `rows` of
        the table.
        """
        if not rows.size:
            return _NO_CELLS
        k = arms.size
        columns = np.flatnonzero(held) - np.repeat(np.arange(0, held.size, k), counts)
        its_rows = np.repeat(rows, counts)
        return cls(its_rows, arms[columns], its_rows * k + columns, counts)

    def only(self, keep: np.ndarray, starts: Ints) -> _Cells:
        """Without the cells that are not kept, and without rows that then have a single cell."""
        left = np.add.reduceat(keep, starts, dtype=np.int64)
        on = left > 1
        index = np.flatnonzero(keep & np.repeat(on, self.counts))
        return _Cells(self.rows[index], self.arms[index], self.places[index], left[on])

    def joined(self, other: _Cells) -> _Cells:
        if not other.rows.size or not self.rows.size:
            return self if self.rows.size else other
        mine, theirs = ((c.rows, c.arms, c.places, c.counts) for c in (self, other))
        return _Cells(*(np.concatenate(pair) for pair in zip(mine, theirs, strict=True)))


_NO_CELLS = _Cells(*(np.empty(0, dtype=np.int64) for _ in range(4)))


def _pull_all(block: Block, rows: Ints, arms: Ints, times: Any) -> Floats:
    """Averages of all `arms` at `rows`: (rows, arms)."""
    if isinstance(times, int) and rows.size == len(block) and arms.size == block.problem.n_arms:
        return block.pull_grid(times)
    return block.pull(
        rows[:, None], arms[None, :], times if isinstance(times, int) else times[rows][:, None]
    )


def _report(
    block: Block, sizes: Any, gamma: Any, r: int, times: Any, whole: Ints, k: int, cells: _Cells
) -> None:
    partial = cells.rows[np.cumsum(cells.counts) - cells.counts]
    rows = np.concatenate([whole, partial])
    pulled = np.concatenate([np.full(whole.size, k), cells.counts])
    size, budget, count = (np.broadcast_to(x, (len(block),))[rows] for x in (sizes, gamma, times))
    for rounds in _watchers:
        rounds.append(Round(block.agents[rows], size, budget, r, count, pulled))
