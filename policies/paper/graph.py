"""Connected components of Cl-BAI's graph."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints


def components(estimates: Floats, active: Bools, width: float) -> Ints:
    """Components of the graph with an edge i–j where estimates differ by at most `width` on all
    arms active at i or j.

    A component grows from its first agent: its neighbours join, then theirs. Arms that nobody holds
    do not matter.

    Args:
        estimates: (n, K).
        active: (n, K) booleans.

    Returns:
        (n,) labels 0, 1, ... in the order of each component's first agent.
    """
    labels = np.full(estimates.shape[0], -1)
    free = np.arange(labels.size)
    while free.size:
        label, new = labels.max() + 1, free[:1]
        while new.size:
            labels[new] = label
            free = free[labels[free] < 0]
            # Most agents are too far from all of `new` on an arm that is active at all of them.
            shared = np.flatnonzero(active[new].all(axis=0))
            here, there = estimates[np.ix_(new, shared)], estimates[np.ix_(free, shared)]
            far = (there - here.max(axis=0) > width) | (here.min(axis=0) - there > width)
            near = free[~far.any(axis=1)]
            joins = []
            for agent in near:
                far = np.abs(estimates[new] - estimates[agent]) > width
                far &= active[new] | active[agent]
                joins.append(not far.any(axis=1).all())
            new = near[joins]
    return labels
