"""Top-two sampling: the leader, and the challenger that is cheapest to be mistaken about."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.engines.adaptive import adaptive

#: An agent's pulls of the arms that are left grow by this factor at a time.
GROWTH = 1.1
#: A batch is planned in this many steps at least, each with one challenger.
STEPS = 8


def top_two(
    block: Block, arms: Ints, gamma: Any, precision: float | None = None
) -> tuple[np.ndarray, Floats]:
    """EB-TCI: empirical best leader, transport cost with improved exploration, β = 1/2.

    The challenger is the arm j that minimises Δ_j²/(2(1/N_leader + 1/N_j)) + ln N_j (Jourdan,
    Degenne and Kaufmann 2023, arXiv:2305.16041; Jourdan et al. 2022, arXiv:2206.05979). Adapted:
    pulls come in batches, in which the rule is followed with the averages of the last one; arms
    shown to be worse are not pulled any more; the stopping rule is that of `adaptive`. See `Engine`
    for arguments and result.
    """
    return adaptive(block, arms, gamma, precision, _plan)


def _plan(counts: Floats, gaps: Floats, level: Floats) -> Floats:
    """(r, k) the next batch: half of each step to the leader, half to its challenger."""
    rows = np.arange(counts.shape[0])
    left = np.isfinite(gaps)
    leader = gaps.argmin(axis=1)
    steps = max(STEPS, int(left.sum(axis=1).max(initial=0)))
    step = (GROWTH - 1) * np.where(left, counts, 0.0).sum(axis=1) / steps
    planned = counts.copy()
    for _ in range(steps):
        cost = gaps**2 / (2 * (1 / planned[rows, leader][:, None] + 1 / planned)) + np.log(planned)
        cost[rows, leader] = np.inf
        challenger = cost.argmin(axis=1)
        planned[rows, leader] += step / 2
        planned[rows, challenger] += step / 2
    return planned - counts
