"""Successive elimination on cumulative samples, with paired normal-mixture boundaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.sequential.boundaries import one_sided, tuned_rho
from clustered_bandit_gym.policies.sequential.cells import PLAIN
from clustered_bandit_gym.policies.sequential.running_means import Tally
from clustered_bandit_gym.policies.sequential.scales import Scales

#: Each batch brings the pulls of every active arm to this multiple: an arm is dropped at most this much too late.
GROWTH = 1.1
#: The boundary is tuned for gaps of this many σ when no precision is asked for; it is valid whatever the gaps are.
TUNED_GAP = 0.1


def mixture(
    block: Block, arms: Ints, gamma: Any, precision: float | None = None
) -> tuple[np.ndarray, Floats]:
    """Pull all active arms equally often; drop an arm once another one is ahead of it beyond the boundary.

    The difference of two arms' sums after n pulls each is a walk with variance 2n (σ = 1). The best arm is dropped only
    if some other arm's walk against it crosses the boundary: |A| − 1 walks at level γ/(|A| − 1). With `precision` the
    opposite side is needed too (an arm that far below does fall behind in time): 2(|A| − 1) events at γ/(2(|A| − 1)).

    Where the support of rewards is told, 0.3 of each level goes to this boundary and 0.7 to bets (`sequential.cells`),
    which adapt to the variance. A bet is an e-process under every law in the interval for which the other arm is not
    better, so by Ville's inequality it errs at most as often as its level says. With `precision` it ends, at the latest
    by the boundary, once every arm left is shown less than `precision` worse than every other one; this is false for an
    arm that far below the best, if the best one is left: |A| − 1 events, the same as above.

    See `Engine` for arguments and result.
    """
    active = np.ones((len(block), arms.size), dtype=np.bool_)
    sides = 1 if precision is None else 2
    level = np.minimum(np.broadcast_to(gamma, len(block)) / (sides * max(1, arms.size - 1)), 0.5)
    gap = TUNED_GAP if precision is None else precision / (2 * block.problem.sigma)
    running = np.arange(len(block) if arms.size > 1 and np.isfinite(gap) else 0)
    if not running.size:
        return active, np.zeros(active.shape)
    pulls_of_gap = 8 * np.log(1 / level) / gap**2
    tally = Tally(block, arms, Scales.around(float(pulls_of_gap.max()), float(level.min())))
    alpha = level * PLAIN if tally.bounded else level
    to_bet = -np.log(level * (1 - PLAIN))
    rho = tuned_rho(pulls_of_gap, alpha)
    # Before this many pulls only gaps beyond about 3σ could show.
    n = int(max(1, np.ceil(np.log(1 / level).min() / 2)))
    pulled = 0
    while running.size:
        rows, columns = np.nonzero(active[running])
        tally.pull(running[rows], columns, n - pulled)
        pulled = n
        means = np.where(active[running], tally.means[running], -np.inf)
        margin = one_sided(2.0 * n, alpha[running], rho[running]) / n
        left = means >= (means.max(axis=1) - margin)[:, None]
        if tally.bounded:
            left &= ~tally.worse(running, means.argmax(axis=1), to_bet[running], left)
        active[running] = left
        done = left.sum(axis=1) == 1
        if precision is not None:
            width = precision / block.problem.sigma
            done |= 2 * margin <= width
            if tally.bounded:
                done |= tally.all_close(running, left, width, to_bet[running])
        running = running[~done]
        n = int(np.ceil(n * GROWTH))
    return active, tally.estimates
