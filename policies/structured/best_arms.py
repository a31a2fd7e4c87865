"""Best arms of the representatives, resolved together: Assumption 1 as a constraint between them."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.structured.budget import nats
from clustered_bandit_gym.policies.structured.evidence import CandidateTests
from clustered_bandit_gym.policies.structured.representatives import Representatives

#: A batch makes PART of the pulls that a task is still expected to need, which leaves room for a correction; it adds
#: at least LEAST and at most GROWTH to the pulls of an arm. Small batches overshoot less and take more steps: with 0.2
#: for LEAST best arms take 8% to 12% more pulls on the paper's families, and the play 10% less time.
GROWTH, LEAST, PART = 0.5, 0.08, 0.6
#: A batch is no smaller than this part of all pulls that are expected, divided by the number of tasks: what is wasted
#: by larger batches of small tasks is not worth the steps.
TRIFLE = 0.02
#: A task waits while another needs fewer than a tenth of its pulls: the small one may make it moot, and waiting costs
#: nothing but steps.
URGENT = 10.0
#: First pulls of every arm: averages with a standard deviation of about σ/3, enough to rank arms that differ by σ.
START = 8
#: Squared standard deviations, per nat of what closeness could save, by which an average may be off. With 2 an arm gets
#: the benefit of the doubt as long as the chance of such a deviation exceeds the pulls spent over the pulls it could
#: save.
DOUBT = 2.0
#: Lower clip on margins; avoids division by zero.
TINY = 1e-9


class BestArms:
    """Shrinks the live sets of representatives until each has one arm.

    An arm k leaves the live set of x when
    (a) it is shown to be worse than another arm at x, or
    (b) it is shown to be less than η worse than every live arm at some y that is distinct from x: by Assumption 1 the
        best arm of x is at least η worse than the best arm of y, at y.
    Both are tests of two arms at one agent (`evidence.CandidateTests`). This class decides what is pulled for them:
    whatever is expected to settle an arm with fewest pulls.
    """

    def __init__(self, reps: Representatives, eta: float | None) -> None:
        self.reps, self.eta = reps, eta
        self.tests = CandidateTests(reps, eta)
        # What all agents take to be assigned, if differences are about η.
        self.ahead = (
            0.0 if eta is None else reps.budgets.n_agents * nats(reps.budgets.classify()) / eta**2
        )
        self.trifle = 0.0

    def plan(self) -> Floats:
        """(R, K) pulls to make next; zero where nothing is needed.

        Every arm of a live set with several arms is a task: show it worse than the leader at x, or close at some y,
        whichever is expected to take fewer pulls. Tasks that need few pulls go first: they may make the others moot.
        So does showing that two representatives are distinct.
        """
        reps = self.reps
        r, arms = reps.n.shape
        rows = np.arange(r)
        leader, slack = reps.leader, reps.cells.slack
        gap = reps.mean[rows, leader][:, None] - reps.mean
        size = np.abs(gap)
        # Pulls are counted by what they are worth: one with variance σ²/4 as much as four with σ².
        variance = reps.noise(size if self.eta is None else np.maximum(size, self.eta - gap))
        worth = reps.n / variance
        n = np.maximum(worth, 1)
        noise = 1 / np.sqrt(n)
        task = reps.live & (reps.live.sum(axis=1) > 1)[:, None]
        rival = task.copy()
        rival[rows, leader] = False
        self.trifle = TRIFLE * (self.ahead + float(worth.sum())) / max(1, int(rival.sum()))
        beaten = 2 * (self.tests.levels.beaten + slack)[:, None] / np.maximum(size, noise) ** 2
        need = np.where(rival, np.maximum(beaten, n), np.inf)
        elsewhere = None
        if self.eta is not None and reps.distinct.any():
            n_leader = n[rows, leader][:, None]
            share = np.sqrt(np.maximum(rival.sum(axis=1, keepdims=True), 1))
            cost = np.where(rival, _still(beaten, n, n_leader, share), np.inf)
            # Closeness at y that seems out of reach gets the benefit of the doubt, the more the less y knows of the arm
            # and the more it could save elsewhere. Without it an unlucky average would never be corrected.
            saves = np.where(rival, beaten, 0).max(axis=0)
            doubt = np.sqrt(DOUBT * np.log1p(saves / n) * (1 / n + 1 / n_leader))
            margin = np.maximum(self.eta - gap + np.maximum(doubt, noise), TINY)
            close = 2 * (self.tests.levels.close + slack)[:, None] / margin**2
            # What closeness at y costs is shared by all x that are distinct from y and still have the arm.
            helped = np.maximum(reps.distinct.astype(np.float64) @ task, 1)
            cost_close, via = self._cheapest(_still(close, n, n_leader, share) / helped)
            close = np.maximum(close, n)
            elsewhere = cost_close < cost
            need = np.where(elsewhere, (close / helped)[via, np.arange(arms)], need)
            need[~task] = np.inf
        times = np.zeros((r, arms))
        least = min(float(need.min(initial=np.inf)), self._plan_distinct(worth, need, times))
        now = task & (need <= URGENT * least)
        if elsewhere is not None:
            x, k = np.nonzero(now & elsewhere)
            if x.size:
                pairs = np.unique(via[x, k] * arms + k)
                self._plan_close(worth, pairs // arms, pairs % arms, close, gap, times)
            rival &= ~elsewhere
        self._plan_beaten(worth, now & rival, np.maximum(beaten, n), leader, times)
        # A plan is never empty while a live set has several arms, whatever the estimates are.
        if not times.any():
            times = np.where(task, GROWTH * n + START, 0)
        return variance * times

    def _step(self, need: Floats, n: Floats) -> Floats:
        """The next batch of an arm with n pulls that is expected to need `need`."""
        return np.minimum(
            np.maximum(PART * (need - n), np.maximum(LEAST * n, self.trifle)), GROWTH * n + START
        )

    def _cheapest(self, cost: Floats) -> tuple[Floats, Ints]:
        """For every (x, k) the least cost (R, K) over the y that are distinct from x, and that y."""
        reps = self.reps
        r = len(reps)
        if reps.distinct.sum() == r * (r - 1):
            # All are distinct: the least of all, or for the row that has it the second least.
            order = np.argpartition(cost, 1, axis=0)[:2]
            first, second = np.take_along_axis(cost, order, axis=0)
            swap = first > second
            best, other = np.where(swap, order[1], order[0]), np.where(swap, order[0], order[1])
            via = np.where(best[None, :] == np.arange(r)[:, None], other[None, :], best[None, :])
            return np.take_along_axis(cost, via, axis=0), via
        table = np.where(reps.distinct[:, :, None], cost[None, :, :], np.inf)
        via = table.argmin(axis=1)
        return np.take_along_axis(table, via[:, None, :], axis=1)[:, 0, :], via

    def _plan_beaten(
        self, worth: Floats, chosen: np.ndarray, need: Floats, leader: Ints, times: Floats
    ) -> None:
        """Pull the chosen arms, and the leader so often that the sum of pulls is least: √Σn² against rivals with n."""
        rows = np.arange(leader.size)
        step = np.where(chosen, self._step(need, worth), 0)
        np.maximum(times, step, out=times)
        goal = np.sqrt((np.where(chosen, worth + step, 0) ** 2).sum(axis=1))
        lack = np.where(goal > 0, goal - worth[rows, leader], 0)
        times[rows, leader] = np.maximum(times[rows, leader], lack)

    def _plan_distinct(self, worth: Floats, need: Floats, times: Floats) -> float:
        """Pull what tells two representatives apart, where that is far cheaper than all that is open at one of them.

        Only then can closeness at the other help. Returns the fewest pulls of an arm that such a pair needs, or inf.
        """
        reps = self.reps
        if self.eta is None or self.tests.all_distinct:
            return np.inf
        easiest = need.min(axis=1)
        easiest[np.isinf(easiest)] = 0
        a, b = np.nonzero(np.triu(~reps.distinct, 1) & (np.maximum(easiest[:, None], easiest) > 0))
        if not a.size:
            return np.inf
        apart = np.abs(reps.mean[a] - reps.mean[b]) - np.sqrt(1 / worth[a] + 1 / worth[b])
        # After n pulls of one of K arms at both, a difference d is worth nd²/4.
        level = self.tests.levels.distinct(a, b) + np.log(4 * worth.shape[1]) + reps.cells.slack
        pulls = 4 * level[:, None] / np.maximum(apart, TINY) ** 2
        arm = pulls.argmin(axis=1)
        pulls = pulls[np.arange(a.size), arm]
        wanted = URGENT * pulls < np.maximum(easiest[a], easiest[b])
        a, b, arm, pulls = a[wanted], b[wanted], arm[wanted], pulls[wanted]
        for row in (a, b):
            np.maximum.at(times, (row, arm), self._step(pulls, worth[row, arm]))
        return float(pulls.min(initial=np.inf))

    def _plan_close(
        self, worth: Floats, y: Ints, k: Ints, need: Floats, gap: Floats, times: Floats
    ) -> None:
        """Pull arm k at y, and those live arms of y that are known less well than k and seem to block it."""
        reps, eta = self.reps, self.eta
        assert eta is not None
        own, others = worth[y, k], worth[y]
        # Evidence that k is less than η worse than another arm, as normal laws would have it.
        margin = np.maximum(eta + gap[y] - gap[y, k][:, None], 0)
        shown = (
            margin**2 * (own[:, None] * others)
            >= (own[:, None] + others)
            * (2 * (self.tests.levels.close[y] + reps.cells.slack))[:, None]
        )
        blocked = reps.live[y] & ~shown
        blocked[np.arange(y.size), k] = False
        pull_k = own <= 4 * np.where(blocked, others, np.inf).min(axis=1)
        step = self._step(need[y, k], own)
        np.maximum.at(times, (y[pull_k], k[pull_k]), step[pull_k])
        i, other = np.nonzero(blocked & (others <= 2 * own[:, None]))
        n = others[i, other]
        catch_up = np.maximum(LEAST * n, own[i] + step[i] - n)
        np.maximum.at(times, (y[i], other), np.minimum(GROWTH * n + START, catch_up))

    def resolve(self) -> None:
        """Pull until every live set has one arm."""
        reps = self.reps
        reps.pull_where(np.maximum(START - reps.n, 0))
        while True:
            self.tests.certify()
            self.tests.eliminate()
            if (reps.live.sum(axis=1) == 1).all():
                self.tests.certify()
                return
            reps.pull_where(self.plan())


def _still(need: Floats, n: Floats, n_leader: Floats, share: Floats) -> Floats:
    """Pulls still to make, at an arm with n and a leader with n_leader, until the two are as good as `need` of one arm.

    1/n + 1/n_leader = 1/need; the leader's part is shared by several rivals. Never less than one small batch, so that a
    task that was begun is not given up for one that looks a little cheaper.
    """
    leader = np.maximum(n_leader, 2 * need)
    own = 1 / (1 / need - 1 / leader)
    return np.maximum(
        np.maximum(own - n, 0) + np.maximum(2 * need - n_leader, 0) / share, LEAST * n
    )
