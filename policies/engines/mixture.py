"""Successive elimination on cumulative samples, with a mixture for each pair of arms."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.engines.adaptive import levels_and_cells
from clustered_bandit_gym.policies.sequential.cells import PLAIN
from clustered_bandit_gym.policies.sequential.paired import shows_drift


def mixture(
    block: Block, arms: Ints, gamma: Any, precision: float | None = None
) -> tuple[np.ndarray, Floats]:
    """Pull all active arms equally often; drop an arm once another one is shown to be better.

    After n pulls each, the difference of two averages times n/2 is a walk with variance n/2
    (`sequential.paired`, σ = 1). The best arm is dropped only if the walk of some other arm against
    it shows a drift: |A| − 1 walks at level γ/(|A| − 1). With `precision` it ends once every arm
    left is shown less than `precision` worse than every other one. This is false for an arm that
    far below the best, if the best is left: 2(|A| − 1) events at γ/(2(|A| − 1)).

    Where the support of rewards is told, 0.3 of each level goes to the walks and 0.7 to bets
    (`sequential.cells`), which adapt to the variance. A bet is an e-process under every law in the
    interval for which the other arm is not better: the events are the same.

    See `Engine` for arguments and result.
    """
    active = np.ones((len(block), arms.size), dtype=np.bool_)
    if arms.size == 1 or precision == np.inf:
        return active, np.zeros(active.shape)
    width = (precision or 0.0) / block.problem.sigma
    nats, cells = levels_and_cells(block, arms.size, gamma, precision)
    to_walk = nats - np.log(PLAIN) if cells.bets else nats
    to_bet = nats - np.log(1 - PLAIN)
    running = np.arange(len(block))
    # Before this many pulls only gaps beyond about 3σ could show.
    n = int(max(1, np.ceil(nats.min() / 2)))
    pulled = 0
    while running.size:
        left = active[running]
        rows, columns = np.nonzero(left)
        cells.pull(block, running[rows], columns, n - pulled, arms[columns])
        pulled = n
        means = np.where(left, cells.mean[running], -np.inf)
        behind = np.where(left, means.max(axis=1, keepdims=True) - means, 0.0)
        level = to_walk[running][:, None]
        left &= ~shows_drift(n / 2 * behind, n / 2, level)
        if cells.bets:
            leader = means.argmax(axis=1)
            left &= ~cells.shows_worse(running, leader, 0.0, to_bet[running], left)
        active[running] = left
        done = left.sum(axis=1) == 1
        if precision is not None:
            # The hardest pair: the lowest average left against the highest.
            furthest = np.where(left, behind, 0.0).max(axis=1)
            done |= shows_drift(n / 2 * (width - furthest), n / 2, level[:, 0])
            if cells.bets:
                done |= cells.all_close(running, left, width, to_bet[running])
        running = running[~done]
        n = int(np.ceil(n * 1.1))  # an arm is dropped at most this much too late
    return active, cells.mean * block.problem.sigma
