"""LUCB: pull the leader and its strongest challenger until they are apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.sequential.boundaries import radius, tuned_rho
from clustered_bandit_gym.policies.sequential.running_means import Tally

#: The less pulled of the two arms grows by this factor at a time; both get the same batch, as LUCB pulls both once.
GROWTH = 1.35
#: The intervals are tuned for gaps of this many σ when no precision is asked for; they are valid whatever the gaps are.
TUNED_GAP = 0.1


def lucb(
    block: Block, arms: Ints, gamma: Any, precision: float | None = None, within: np.ndarray | None = None
) -> tuple[np.ndarray, Floats]:
    """LUCB1 (Kalyanakrishnan, Tewari, Auer and Stone 2012) with time-uniform normal-mixture intervals at level γ/|A|.

    All means lie in their intervals at all times with probability 1 − γ. The leader is returned once its lower end is
    above every other upper end. With `precision`: arms whose upper end is below the largest lower end are gone, and the
    others are returned once the largest upper end is less than `precision` above their smallest lower end.

    See `Engine` for arguments and result.
    """
    tally = Tally(block, arms, within)
    played = tally.within
    sizes = played.sum(axis=1)
    alpha = np.minimum(np.asarray(gamma) / np.maximum(1, sizes), 0.5)
    width = TUNED_GAP if precision is None else precision / block.problem.sigma
    rho = tuned_rho(8 * np.log(1 / alpha) / width**2, alpha)
    active = played.copy()
    running = np.flatnonzero((sizes > 1) & (precision is None or np.isfinite(width)))
    if running.size:
        rows, columns = np.nonzero(played[running])
        tally.pull(running[rows], columns, int(max(1, np.ceil(np.log(1 / alpha.max()) / 2))))
    while running.size:
        here = np.arange(running.size)
        means = tally.means[running]
        reach = radius(np.maximum(tally.counts[running], 1), alpha[running][:, None], rho[running][:, None])
        upper = np.where(played[running], means + reach, -np.inf)
        lower = np.where(played[running], means - reach, -np.inf)
        left = upper >= lower.max(axis=1)[:, None]
        active[running] = left
        if precision is None:
            first = np.where(played[running], means, -np.inf).argmax(axis=1)
            others = upper.copy()
            others[here, first] = -np.inf
            second = others.argmax(axis=1)
        else:
            first, second = upper.argmax(axis=1), np.where(left, lower, np.inf).argmin(axis=1)
        done = left.sum(axis=1) == 1
        if precision is not None:
            done |= upper[here, first] - lower[here, second] < precision / block.problem.sigma
        running, first, second = running[~done], first[~done], second[~done]
        apart = first != second
        fewer = np.minimum(tally.counts[running, first], tally.counts[running, second])
        batch = np.ceil((GROWTH - 1) * fewer).astype(np.int64)
        rows, columns = np.concatenate([running, running[apart]]), np.concatenate([first, second[apart]])
        tally.pull(rows, columns, np.concatenate([batch, batch[apart]]))
    return active, tally.estimates
