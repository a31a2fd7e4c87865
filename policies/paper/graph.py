"""Connected components of Cl-BAI's graph."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints

#: Differences of estimates that are looked at together: they stay in the processor's cache.
CACHED = 2**17


def components(estimates: Floats, active: Bools, width: float) -> Ints:
    """(n,) labels 0, 1, ... of components, in the order of each component's first agent.

    The graph has an edge i–j where `estimates` (n, K) differ by at most `width` on all arms that are
    `active` (n, K) at i or j. A component grows from its first agent: its neighbours join, then
    theirs. Arms that nobody holds do not matter.
    """
    held = active.any(axis=0)
    estimates = estimates[:, held]
    active = active[:, held]

    def adjacent(agents: Ints, others: Ints) -> Ints:
        """Those of `agents` that have an edge to one of `others`."""
        far = np.abs(estimates[agents, None] - estimates[others]) > width
        far &= active[agents, None] | active[others]
        return agents[~np.all(far.any(axis=2), axis=1)]

    labels = np.full(len(estimates), -1)
    free = np.arange(labels.size)
    while free.size:
        label = labels.max() + 1
        new = free[:1]
        while new.size:
            labels[new] = label
            free = free[labels[free] < 0]
            # Most agents are too far from all of `new` on an arm that is active at all of them.
            shared = np.flatnonzero(active[new].all(axis=0))
            here = estimates[np.ix_(new, shared)]
            there = estimates[np.ix_(free, shared)]
            far = (there - here.max(axis=0) > width) | (here.min(axis=0) - there > width)
            near = free[~far.any(axis=1)]
            pieces = 1 + near.size * new.size * active.shape[1] // CACHED
            parts = np.array_split(near, pieces)
            new = np.concatenate([adjacent(part, new) for part in parts])
    return labels
