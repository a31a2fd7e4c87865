"""Successive elimination on cumulative samples, with paired normal-mixture boundaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.sequential.boundaries import one_sided, tuned_rho
from clustered_bandit_gym.policies.sequential.running_means import Tally

#: Each batch brings the pulls of every active arm to this multiple: an arm is dropped at most this much too late.
GROWTH = 1.1
#: The boundary is tuned for gaps of this many σ when no precision is asked for; it is valid whatever the gaps are.
TUNED_GAP = 0.1


def mixture(block: Block, arms: Ints, gamma: Any, precision: float | None = None) -> tuple[np.ndarray, Floats]:
    """Pull all active arms equally often; drop an arm once another one is ahead of it beyond the boundary.

    The difference of two arms' sums after n pulls each is a walk with variance 2n (σ = 1). The best arm is dropped only
    if some other arm's walk against it crosses the boundary: |A| − 1 walks at level γ/(|A| − 1). With `precision` the
    opposite side is needed too (an arm that far below does fall behind in time): 2(|A| − 1) events at γ/(2(|A| − 1)).

    See `Engine` for arguments and result.
    """
    tally = Tally(block, arms)
    active = np.ones((len(block), arms.size), dtype=np.bool_)
    sides = 1 if precision is None else 2
    alpha = np.minimum(np.broadcast_to(gamma, len(block)) / (sides * max(1, arms.size - 1)), 0.5)
    gap = TUNED_GAP if precision is None else precision / (2 * block.problem.sigma)
    log_term = np.log(1 / alpha)
    rho = tuned_rho(8 * log_term / gap**2, alpha)
    running = np.arange(len(block) if arms.size > 1 and np.isfinite(gap) else 0)
    # Before this many pulls only gaps beyond about 3σ could show.
    n = int(max(1, np.ceil(log_term.min(initial=np.inf) / 2))) if running.size else 0
    pulled = 0
    while running.size:
        rows, columns = np.nonzero(active[running])
        tally.pull(running[rows], columns, n - pulled)
        pulled = n
        means = np.where(active[running], tally.means[running], -np.inf)
        margin = one_sided(2.0 * n, alpha[running], rho[running]) / n
        active[running] = means >= (means.max(axis=1) - margin)[:, None]
        done = active[running].sum(axis=1) == 1
        if precision is not None:
            done |= 2 * margin <= precision / block.problem.sigma
        running = running[~done]
        n = int(np.ceil(n * GROWTH))
    return active, tally.estimates
