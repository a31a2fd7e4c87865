"""Acceptance: for agents whose cluster may be none of those known (M not told, or clusters without agents)."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym.policies.structured_best_arms import GROWTH, START, BestArms
from clustered_bandit_gym.policies.structured_budget import nats
from clustered_bandit_gym.policies.structured_representatives import Representatives
from clustered_bandit_gym.rewards import Floats, Ints

#: Agents are handled in blocks of about this many (agent, arm) cells.
CELLS = 2**18
UNKNOWN = -1


def accept(reps: Representatives, best_arms: BestArms, rest: Ints, eta: float | None) -> Ints:
    """(n,) the best arm of each agent of `rest`.

    An agent at which the best arm of x is shown to be less than η worse than every other arm is of cluster x: in any
    other cluster that arm is at least η worse than the best (Assumption 1). An agent at which every known best arm is
    beaten is of a new cluster; it becomes a representative, and the others are compared with it in turn. An agent left
    with one arm that is not beaten is done in any case.
    """
    found = np.full(rest.size, UNKNOWN)
    waiting = np.arange(rest.size)
    while waiting.size:
        found[waiting] = _accept_or_reject(reps, best_arms, rest[waiting], eta)
        waiting = waiting[found[waiting] == UNKNOWN]
        if waiting.size:
            reps.add(int(rest[waiting[0]]))
            best_arms.resolve()
            found[waiting[0]] = reps.leader[-1]
            waiting = waiting[1:]
    return found


def _accept_or_reject(reps: Representatives, best_arms: BestArms, agents: Ints, eta: float | None) -> Ints:
    size = max(1, CELLS // reps.n.shape[1])
    parts = [_block(reps, best_arms, agents[start : start + size], eta) for start in range(0, agents.size, size)]
    return np.concatenate(parts)


def _block(reps: Representatives, best_arms: BestArms, agents: Ints, eta: float | None) -> Ints:
    """The arm of each agent, or UNKNOWN where every known best arm is beaten."""
    fed, scales = reps.federation, best_arms.scales
    beta, k = nats(reps.budgets.accept()), reps.n.shape[1]
    known = np.zeros(k, dtype=bool)
    known[reps.leader] = True
    found = np.full(agents.size, UNKNOWN)
    rows = np.arange(agents.size)
    n: Floats = np.zeros((rows.size, k))
    mean: Floats = np.zeros((rows.size, k))
    live = np.ones((rows.size, k), dtype=bool)
    times: Floats = np.full((rows.size, k), float(START))
    while rows.size:
        r, a = np.nonzero(times > 0)
        count = np.ceil(times[r, a]).astype(np.int64)
        drawn = fed.pull(agents[rows[r]], a, count) / fed.problem.sigma
        before = n[r, a]
        mean[r, a] += (drawn - mean[r, a]) * (count / (before + count))
        n[r, a] = before + count

        index = np.arange(rows.size)
        leader = np.where(live, mean, -np.inf).argmax(axis=1)
        top, n_top = mean[index, leader][:, None], n[index, leader][:, None]
        beaten = (scales.pair_evidence(top - mean, n_top, n) >= beta) & (mean < top)
        live &= ~beaten
        arm = np.full(rows.size, UNKNOWN)
        alone = live.sum(axis=1) == 1
        arm[alone] = leader[alone]
        needed = live.copy()
        if eta is not None:
            guess = np.where(live & known, mean, -np.inf).argmax(axis=1)
            m_guess, n_guess = mean[index, guess][:, None], n[index, guess][:, None]
            difference = mean - m_guess - eta
            settled = (scales.pair_evidence(difference, n, n_guess) >= beta) & (difference < 0)
            settled[index, guess] = True
            hopeful = (live & known).any(axis=1)
            accepted = hopeful & (settled | ~live).all(axis=1)
            arm[accepted] = guess[accepted]
            done = alone | accepted | ~hopeful
            needed &= ~settled
            needed[index, guess] = True
        else:
            done = alone
        needed[index, leader] = True
        found[rows[done]] = arm[done]
        keep = ~done
        rows, n, mean, live, needed = rows[keep], n[keep], mean[keep], live[keep], needed[keep]
        times = np.where(needed, np.maximum(GROWTH * n, 1), 0)
    return found
