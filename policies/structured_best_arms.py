"""Best arms of the representatives, resolved together: Assumption 1 as a constraint between them."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym.policies.evidence import Scales
from clustered_bandit_gym.policies.structured_budget import nats
from clustered_bandit_gym.policies.structured_representatives import Representatives
from clustered_bandit_gym.rewards import Floats, Ints

#: A batch adds at most this share to the pulls of an arm, and at least the second: few steps, little overshoot.
GROWTH, LEAST = 0.15, 0.03
#: First pulls of every arm.
START = 8


class BestArms:
    """Shrinks the live sets of representatives until each has one arm.

    An arm k leaves the live set of x when
    (a) it is shown to be worse than another arm at x, or
    (b) it is shown to be less than η worse than every live arm at some y that is distinct from x: by Assumption 1 the
        best arm of x is at least η worse than the best arm of y, at y.
    Both are tests of two arms at one agent. What is pulled is whichever of the two is expected to be cheaper.
    """

    def __init__(self, reps: Representatives, eta: float | None) -> None:
        self.reps, self.eta = reps, eta
        budgets = reps.budgets
        scale = eta if eta is not None else 0.5
        alpha = budgets.beaten()
        self.scales = Scales.around(2 * nats(alpha) / scale**2, alpha)

    def _levels(self, level: str) -> Floats:
        budget = getattr(self.reps.budgets, level)
        return np.array([nats(budget(int(number))) for number in self.reps.number])

    def eliminate(self) -> None:
        """Apply (a) and (b) to what was drawn so far."""
        reps = self.reps
        rows = np.arange(len(reps))
        leader = reps.leader
        top = reps.mean[rows, leader][:, None]
        n_top = reps.n[rows, leader][:, None]
        evidence = self.scales.pair_evidence(top - reps.mean, n_top, np.maximum(reps.n, 1e-9))
        beaten = (evidence >= self._levels("beaten")[:, None]) & (reps.mean < top)
        reps.live &= ~beaten
        if self.eta is not None and len(reps) > 1:
            close = self.close(leader)
            # Arm k leaves x if k is close at some y that is distinct from x.
            hit = (reps.distinct.astype(np.int64) @ close.astype(np.int64)) > 0
            shrunk = reps.live & ~hit
            # An empty live set is possible only where an error was made; keep the leader, so that the play ends.
            reps.live = np.where(shrunk.any(axis=1, keepdims=True), shrunk, reps.live)

    def close(self, leader: Ints) -> np.ndarray:
        """(R, K) arms shown to be less than η worse than every live arm of the representative."""
        assert self.eta is not None
        reps = self.reps
        rows = np.arange(len(reps))
        level = self._levels("close")
        top, n_top = reps.mean[rows, leader][:, None], reps.n[rows, leader][:, None]
        first = self.scales.pair_evidence(top - reps.mean - self.eta, n_top, np.maximum(reps.n, 1e-9))
        hopeful = (first >= level[:, None]) & (top - reps.mean < self.eta)
        hopeful[rows, leader] = True
        y, k = np.nonzero(hopeful)
        blocked = self.blockers(y, k)
        close = np.zeros_like(reps.live)
        close[y, k] = ~blocked.any(axis=1)
        return close

    def blockers(self, y: Ints, k: Ints) -> np.ndarray:
        """(n, K) live arms of representative y that may still be η better than arm k there."""
        assert self.eta is not None
        reps = self.reps
        level = self._levels("close")[y][:, None]
        difference = reps.mean[y] - reps.mean[y, k][:, None] - self.eta
        evidence = self.scales.pair_evidence(difference, np.maximum(reps.n[y], 1e-9), reps.n[y, k][:, None])
        open_ = reps.live[y] & ~((evidence >= level) & (difference < 0))
        open_[np.arange(y.size), k] = False
        return open_

    def plan(self) -> Floats:
        """(R, K) pulls to make next; zero where nothing is needed."""
        reps = self.reps
        r, arms = reps.n.shape
        rows = np.arange(r)
        leader = reps.leader
        beta_a, beta_b = self._levels("beaten")[:, None] + 4.5, self._levels("close")[:, None] + 4.5
        n = np.maximum(reps.n, 1)
        noise = 1 / np.sqrt(n)
        gap = reps.mean[rows, leader][:, None] - reps.mean
        wanted = reps.live & (reps.live.sum(axis=1) > 1)[:, None]
        wanted[rows, leader] = False
        need_a = 2 * beta_a / np.maximum(np.abs(gap), noise) ** 2
        cost_a = np.where(wanted, np.maximum(need_a - n, LEAST * n), np.inf)
        times = np.zeros((r, arms))
        chosen_a = wanted
        if self.eta is not None and r > 1:
            margin = self.eta - gap + noise
            need_b = np.where(margin > 0, 2 * beta_b / np.maximum(margin, 1e-12) ** 2, np.inf)
            need_b[rows, leader] = np.inf
            # Removing k at y helps every x that is distinct from y and still has k.
            helped = reps.distinct.astype(float) @ wanted
            with np.errstate(invalid="ignore", divide="ignore"):
                cost_b = np.where(helped > 0, np.maximum(need_b - n, LEAST * n) / helped, np.inf)
            # (x, y, k): the cheapest y for each (x, k).
            table = np.where(reps.distinct[:, :, None], cost_b[None, :, :], np.inf)
            via = table.argmin(axis=1)
            cheapest = np.take_along_axis(table, via[:, None, :], axis=1)[:, 0, :]
            use_b = wanted & (cheapest < cost_a)
            chosen_a = wanted & ~use_b
            x, k = np.nonzero(use_b)
            if x.size:
                y = via[x, k]
                pairs = np.unique(np.stack([y, k], axis=1), axis=0)
                self._plan_close(pairs[:, 0], pairs[:, 1], need_b, times)
        self._plan_beaten(chosen_a, need_a, leader, times)
        return times

    def _plan_beaten(self, chosen: np.ndarray, need: Floats, leader: Ints, times: Floats) -> None:
        reps = self.reps
        rows = np.arange(len(reps))
        step = np.clip(need - reps.n, LEAST * reps.n, GROWTH * reps.n + START)
        times[:] = np.maximum(times, np.where(chosen, step, 0))
        count = chosen.sum(axis=1)
        after = np.where(chosen, reps.n + step, 0).max(axis=1)
        goal = np.sqrt(count) * after
        lack = np.where(count > 0, goal - reps.n[rows, leader], 0)
        most = np.maximum(GROWTH * reps.n[rows, leader], after) + START
        times[rows, leader] = np.maximum(times[rows, leader], np.clip(lack, 0, most))

    def _plan_close(self, y: Ints, k: Ints, need: Floats, times: Floats) -> None:
        """Pull arm k at y, and those live arms of y that are known less well than k and stand in its way."""
        reps = self.reps
        blocked = self.blockers(y, k)
        own = reps.n[y, k]
        n_blockers = np.where(blocked, reps.n[y], np.inf)
        pull_k = own <= 4 * n_blockers.min(axis=1)
        step = np.clip(need[y, k] - own, LEAST * own, GROWTH * own + START)
        np.maximum.at(times, (y[pull_k], k[pull_k]), step[pull_k])
        i, other = np.nonzero(blocked & (reps.n[y] <= 2 * own[:, None]))
        n = reps.n[y[i], other]
        np.maximum.at(times, (y[i], other), GROWTH * n + START)

    def resolve(self) -> None:
        """Pull until every live set has one arm."""
        reps = self.reps
        reps.pull_where(np.maximum(START - reps.n, 0))
        while True:
            reps.certify()
            self.eliminate()
            if (reps.live.sum(axis=1) == 1).all():
                reps.certify()
                return
            reps.pull_where(self.plan())
