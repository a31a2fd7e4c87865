"""Acceptance: for agents whose cluster may be none of those known (M not told, or clusters without agents)."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.structured.best_arms import START, BestArms
from clustered_bandit_gym.policies.structured.budget import nats
from clustered_bandit_gym.policies.structured.representatives import Representatives

#: Agents are handled in blocks of about this many (agent, arm) cells.
CELLS = 2**18
#: A batch adds this share to the pulls of an arm.
STEP, CENTRE_STEP = 0.15, 0.3
UNKNOWN = -1


def accept(reps: Representatives, best_arms: BestArms, rest: Ints, eta: float | None) -> Ints:
    """(n,) the best arm of each agent of `rest`.

    An agent at which the best arm of x is shown to be less than η worse than every arm that may be best is of cluster
    x: in any other cluster that arm is at least η worse than the best (Assumption 1). An agent at which every known
    best arm is beaten is of a new cluster; one such agent becomes a representative, and the others are compared with it
    in turn. An agent left with one arm that is not beaten is done in any case.
    """
    found = np.full(rest.size, UNKNOWN)
    size = max(1, CELLS // reps.n.shape[1])
    for start in range(0, rest.size, size):
        part = slice(start, start + size)
        block = _Block(reps, best_arms, rest[part], eta)
        while True:
            block.run()
            waiting = np.flatnonzero(block.found == UNKNOWN)
            if not waiting.size:
                break
            reps.add(int(block.agents[waiting[0]]))
            best_arms.resolve()
            block.found[waiting[0]] = reps.leader[-1]
        found[part] = block.found
    return found


class _Block:
    """Agents side by side, each with its own arms: n, mean, live are (rows, K)."""

    def __init__(self, reps: Representatives, best_arms: BestArms, agents: Ints, eta: float | None) -> None:
        self.reps, self.scales, self.agents, self.eta = reps, best_arms.scales, agents, eta
        self.beta = nats(reps.budgets.accept())
        shape = (agents.size, reps.n.shape[1])
        self.found = np.full(agents.size, UNKNOWN)
        self.n: Floats = np.zeros(shape)
        self.mean: Floats = np.zeros(shape)
        self.live = np.ones(shape, dtype=bool)

    def run(self) -> None:
        """Go on with agents that have no arm yet until each has one, or all best arms known so far are beaten at it."""
        known = np.zeros(self.n.shape[1], dtype=bool)
        known[self.reps.leader] = True
        rows = np.flatnonzero(self.found == UNKNOWN)
        self._pull(rows, np.where(self.n[rows] == 0, START, 0))
        while rows.size:
            done, needed, centre = self._judge(rows, known)
            rows, needed, centre = rows[~done], needed[~done], centre[~done]
            index = np.arange(rows.size)
            times = np.where(needed, STEP * self.n[rows] + 1, 0)
            # The arm that all others are compared with: √Σn² against rivals with n pulls makes the sum least. It may
            # be the wrong one, so it gets there step by step.
            goal = np.sqrt((np.where(needed, self.n[rows] + times, 0) ** 2).sum(axis=1))
            own = self.n[rows, centre]
            times[index, centre] = np.clip(goal - own, 0, CENTRE_STEP * own)
            self._pull(rows, times)

    def _pull(self, rows: Ints, times: Floats) -> None:
        r, arm = np.nonzero(times > 0)
        if not r.size:
            return
        row, count = rows[r], np.ceil(times[r, arm]).astype(np.int64)
        fed = self.reps.federation
        drawn = fed.pull(self.agents[row], arm, count) / fed.problem.sigma
        before = self.n[row, arm]
        self.mean[row, arm] += (drawn - self.mean[row, arm]) * (count / (before + count))
        self.n[row, arm] = before + count

    def _judge(self, rows: Ints, known: np.ndarray) -> tuple[np.ndarray, np.ndarray, Ints]:
        """(rows,) agents that are done for now, (rows, K) arms that the others still have to pull, and (rows,) the arm
        that these are compared with, which is not among them."""
        n, mean = self.n[rows], self.mean[rows]
        index = np.arange(rows.size)
        leader = np.where(self.live[rows], mean, -np.inf).argmax(axis=1)
        top, n_top = mean[index, leader][:, None], n[index, leader][:, None]
        live = self.live[rows] & ~((self.scales.pair_evidence(top - mean, n_top, n) >= self.beta) & (mean < top))
        self.live[rows] = live
        alone = live.sum(axis=1) == 1
        self.found[rows[alone]] = leader[alone]
        needed = live.copy()
        needed[index, leader] = False
        if self.eta is None:
            return alone, needed, leader
        guess = np.where(live & known, mean, -np.inf).argmax(axis=1)
        possible = live[index, guess] & known[guess]
        difference = mean - mean[index, guess][:, None] - self.eta
        within = (self.scales.pair_evidence(difference, n, n[index, guess][:, None]) >= self.beta) & (difference < 0)
        within[index, guess] = True
        accepted = possible & ~alone & (within | ~live).all(axis=1)
        self.found[rows[accepted]] = guess[accepted]
        # While the leader is no known best arm, either may be wrong: it is pulled along.
        needed &= ~within
        needed[index, leader] = True
        needed[index, guess] = False
        return alone | accepted | ~possible, needed, guess
