"""Connected components of Cl-BAI's graph."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints


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
            shared = active[new].all(axis=0)
            above = estimates[free] - estimates[new].max(axis=0) > width
            below = estimates[new].min(axis=0) - estimates[free] > width
            near = free[~((above | below) & shared).any(axis=1)]
            new = near[[_adjacent(estimates, active, width, agent, new) for agent in near]]
    return labels


def _adjacent(estimates: Floats, active: Bools, width: float, agent: int, others: Ints) -> bool:
    """Whether there is an edge between `agent` and one of `others`."""
    far = np.abs(estimates[others] - estimates[agent]) > width
    return bool((~(far & (active[others] | active[agent])).any(axis=1)).any())
