"""LUCB: pull the leader and its strongest challenger until they are apart."""

from __future__ import annotations

from math import ceil

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.game.federation import Block
from clustered_bandit_gym.policies.engines.registry import Found
from clustered_bandit_gym.policies.sequential.boundaries import radius, tuned_rho
from clustered_bandit_gym.policies.sequential.cells import block_cells


def lucb(block: Block, arms: Ints, gamma: float, precision: float | None = None) -> Found:
    """LUCB1 (Kalyanakrishnan, Tewari, Auer and Stone 2012) with time-uniform normal-mixture
    intervals at level γ/|A|.

    Arms whose upper end is below the largest lower end are gone. With `precision` the others are
    returned once the largest upper end is less than `precision` above their smallest lower end.

    See `Engine` for arguments and result.
    """
    n = len(block)
    k = arms.size
    active = np.ones((n, k), dtype=bool)
    cells = block_cells(block, k)
    alpha = min(gamma / k, 0.5)
    # The intervals are valid whatever gaps they are tuned for: 0.1σ if no precision is asked for.
    width = 0.1 if precision is None else precision / block.problem.sigma
    rho = tuned_rho(8 * np.log(1 / alpha) / width**2, alpha)
    running = np.arange(0 if k == 1 or precision == np.inf else n)
    cells.pull(block, running[:, None], np.arange(k), ceil(np.log(1 / alpha) / 2), arms)
    while running.size:
        here = np.arange(running.size)
        means = cells.mean[running]
        reach = radius(cells.n[running], alpha, rho)
        upper = means + reach
        lower = means - reach
        left = upper >= lower.max(axis=1, keepdims=True)
        active[running] = left
        done = left.sum(axis=1) == 1
        if precision is None:
            first = means.argmax(axis=1)
            upper[here, first] = -np.inf
            second = upper.argmax(axis=1)
        else:
            first = upper.argmax(axis=1)
            second = np.where(left, lower, np.inf).argmin(axis=1)
            done |= upper[here, first] - lower[here, second] < width
        running = running[~done]
        first = first[~done]
        second = second[~done]
        fewer = np.minimum(cells.n[running, first], cells.n[running, second])
        # LUCB pulls both once; here the less pulled of the two grows by 35%.
        batch = np.ceil((1.35 - 1) * fewer).astype(int)
        apart = np.flatnonzero(first != second)
        places = np.append(np.arange(running.size), apart)
        columns = np.append(first, second[apart])
        cells.pull(block, running[places], columns, batch[places], arms[columns])
    return active, cells.mean * block.problem.sigma
