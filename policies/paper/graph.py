"""Connected components of Cl-BAI's graph, exactly, without all pairs of agents."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints

#: Pairs of agents are compared in pieces of about this many (agent, agent, arm) cells.
PIECE = 2**20


def components(estimates: Floats, active: np.ndarray, width: float) -> Ints:
    """Components of the graph with an edge i–j where estimates differ by at most `width` on all
    arms active at i or j.

    A component grows from its first agent: its neighbours join, then theirs.

    Args:
        estimates: (n, K).
        active: (n, K) booleans.

    Returns:
        (n,) labels 0, 1, ... in the order of each component's first agent.
    """
    labels = np.full(estimates.shape[0], -1)
    free = np.arange(labels.size)
    label = 0
    while free.size:
        new = free[:1]
        while new.size:
            labels[new] = label
            free = free[labels[free] < 0]
            new = _neighbours(estimates, active, width, new, free)
        label += 1
    return labels


def _neighbours(estimates: Floats, active: np.ndarray, width: float, new: Ints, free: Ints) -> Ints:
    """Those of the agents `free` that are adjacent to some agent of `new`."""
    # Most agents are too far from all of `new` on an arm that is active at all of them.
    for arm in np.flatnonzero(active[new].all(axis=0)):
        values = estimates[new, arm]
        here = estimates[free, arm]
        free = free[(here - values.max() <= width) & (values.min() - here <= width)]
    found = np.zeros(free.size, dtype=np.bool_)
    step = max(1, PIECE // max(1, free.size * estimates.shape[1]))
    for start in range(0, new.size, step):
        part = new[start : start + step, None]
        near = np.abs(estimates[part] - estimates[free]) <= width
        near |= ~(active[part] | active[free])
        found |= near.all(axis=2).any(axis=0)
    return free[found]
