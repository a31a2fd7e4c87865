"""Connected components of Cl-BAI's graph, exactly, without all pairs of agents."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from clustered_bandit_gym._types import Floats, Ints

#: Pairs of agents are compared in pieces of about this many (agent, agent, arm) cells.
PIECE = 2**20


def components(estimates: Floats, active: np.ndarray, width: float) -> Ints:
    """Components of the graph with an edge i–j where estimates differ by at most `width` on all
    arms active at i or j.

    Agents are gathered around pivots: all agents adjacent to the pivot that are not in a group yet.
    That leaves few groups, and only edges between *groups* remain to be found. Most pairs of groups
    have none: if arm k is active at all agents of one group and the two groups' ranges of estimates
    of k are further apart than `width`, no pair of agents has. Pairs of groups that this does not
    settle are compared agent by agent.

    Args:
        estimates: (n, K).
        active: (n, K) booleans.

    Returns:
        (n,) labels 0, 1, ... in the order of each component's first agent.
    """
    n = estimates.shape[0]
    if n == 0:
        return np.empty(0, dtype=np.int64)
    groups = _gather(estimates, active, width)
    low = np.array([estimates[g].min(axis=0) for g in groups])
    high = np.array([estimates[g].max(axis=0) for g in groups])
    common = np.array([active[g].all(axis=0) for g in groups])
    sets = DisjointSet(range(len(groups)))
    for a in range(1, len(groups)):
        apart = (low[:a] - high[a] > width) | (low[a] - high[:a] > width)
        open_pairs = np.flatnonzero(~(apart & (common[:a] | common[a])).any(axis=1))
        for b in open_pairs.tolist():
            if not sets.connected(a, b) and _any_edge(
                estimates, active, width, groups[a], groups[b]
            ):
                sets.merge(a, b)
    root = np.empty(n, dtype=np.int64)
    for a, members in enumerate(groups):
        root[members] = sets[a]
    _, first, labels = np.unique(root, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[labels]


def _gather(estimates: Floats, active: np.ndarray, width: float) -> list[Ints]:
    """A partition into groups: a pivot and agents adjacent to it."""
    groups = []
    free = np.arange(estimates.shape[0])
    while free.size:
        pivot = free[0]
        near = free
        for arm in np.flatnonzero(active[pivot]):
            near = near[np.abs(estimates[near, arm] - estimates[pivot, arm]) <= width]
        agree = (np.abs(estimates[near] - estimates[pivot]) <= width) | ~active[near]
        members = near[agree.all(axis=1)]
        groups.append(members)
        gone = np.zeros(estimates.shape[0], dtype=np.bool_)
        gone[members] = True
        free = free[~gone[free]]
    return groups


def _any_edge(estimates: Floats, active: np.ndarray, width: float, one: Ints, other: Ints) -> bool:
    """Whether any agent of `one` is adjacent to any of `other`."""
    if one.size > other.size:
        one, other = other, one
    step = max(1, PIECE // (other.size * estimates.shape[1]))
    for start in range(0, one.size, step):
        part = one[start : start + step, None]
        agree = np.abs(estimates[part] - estimates[other]) <= width
        if (agree | ~(active[part] | active[other])).all(axis=2).any():
            return True
    return False
