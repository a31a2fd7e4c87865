"""Connected components of Cl-BAI's graph."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints

#: Differences of estimates that are looked at together: they stay in the processor's cache.
CACHED = 2**17


def components(estimates: Floats, active: Bools, width: float) -> Ints:
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
            new = near[_adjacent(estimates, active, width, near, new)]
    return labels


def _adjacent(estimates: Floats, active: Bools, width: float, agents: Ints, others: Ints) -> Bools:
    """(n,) whether there is an edge between each of `agents` (n,) and one of `others`."""
    arms = np.flatnonzero(active[agents].any(axis=0) | active[others].any(axis=0))
    own, theirs = estimates[np.ix_(agents, arms)], estimates[np.ix_(others, arms)]
    own_active, their_active = active[np.ix_(agents, arms)], active[np.ix_(others, arms)]
    found = np.zeros(agents.size, dtype=np.bool_)
    step = max(1, CACHED // max(1, theirs.size))
    for start in range(0, agents.size, step):
        part = slice(start, start + step)
        far = np.abs(own[part, None] - theirs) > width
        far &= own_active[part, None] | their_active
        found[part] = np.any(np.all(~far, axis=2), axis=1)
    return found
