"""Acceptance: for agents whose cluster may be none of those known."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.policies.sequential.cells import leader_pulls
from clustered_bandit_gym.policies.structured.best_arms import resolve
from clustered_bandit_gym.policies.structured.evidence import beat, settle
from clustered_bandit_gym.policies.structured.representatives import Record, Representatives
from clustered_bandit_gym.policies.structured.tuning import TUNING

#: Share by which the pulls of an arm are raised at a time; twice that for the arm that all others
#: are compared with.
STEP = 0.15


def accept(reps: Representatives, rest: Ints) -> Ints:
    """(n,) the best arm of each agent of `rest`.

    An agent at which the best arm of x is shown to be less than η worse than every arm that may be
    best is of cluster x: in any other cluster that arm is at least η worse than the best
    (Assumption 1). An agent at which every known best arm is beaten is of a new cluster; one such
    agent becomes a representative, and the others are compared with it in turn. An agent left with
    one arm that is not beaten is done in any case.
    """
    record = Record(reps.federation, reps.budgets, rest)
    record.pull_where(TUNING.start - record.n)
    rows = record.rows
    while True:
        # An arm that is only good enough says nothing by Assumption 1: then all go on alone.
        eta = reps.resolved.all() * (reps.eta or 0.0)
        known = np.isin(np.arange(record.n.shape[1]), reps.leader) | (eta == 0)
        while rows.size:
            beat(record, rows)
            leader, needed = settle(record, rows, record.epsilon)
            centre, left = settle(record, rows, eta, known)
            needed &= left
            index = np.arange(rows.size)
            # While the leader is no known best arm, either may be wrong: the leader is pulled along.
            needed[index, leader] = True
            at = (index, centre)
            needed[at] = False
            going = (record.settled[rows] < 0) & (record.live[rows] & known).any(axis=1)
            needed &= going[:, None]
            n = record.n[rows]
            times = needed * (STEP * n + 1)
            # The arm that all others are compared with may be the wrong one: step by step.
            goal = leader_pulls(needed * (n + times))
            times[at] = np.clip(goal - n[at], 0, 2 * STEP * n[at])
            record.pull_where(times, rows)
            rows = rows[going]
        rows = np.flatnonzero(record.settled < 0)
        if not rows.size:
            return record.settled
        reps.add(rest[rows[0]])
        resolve(reps)
        record.settled[rows[0]] = reps.settled[-1]
        rows = rows[1:]
