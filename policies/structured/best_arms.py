"""Best arms of the representatives, resolved together: Assumption 1 binds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.policies.sequential.cells import leader_pulls
from clustered_bandit_gym.policies.structured.budget import nats
from clustered_bandit_gym.policies.structured.evidence import certify, eliminate, settle
from clustered_bandit_gym.policies.structured.representatives import Representatives
from clustered_bandit_gym.policies.structured.tuning import TUNING

#: Lower clip on margins; avoids division by zero.
TINY = 1e-9


def resolve(reps: Representatives, until_twins: bool = False) -> None:
    """Shrink the live sets of representatives until each has one arm.

    An arm k leaves the live set of x when
    (a) it is shown to be worse than another arm at x, or
    (b) it is shown to be less than η worse than every live arm at some y that is distinct from x:
        by Assumption 1 the best arm of x is at least η worse than the best arm of y, at y.
    Both are tests of two arms at one agent (`evidence.eliminate`). `PullPlan` decides what is
    pulled for them.

    It ends when every row is settled and all are distinct, or every live set has one arm; or
    (`until_twins`) when two live sets have the same one. Two of one cluster whose best arms tie
    would never end it. After 16 times the pulls with which all rows were settled, that they are
    settled is enough.
    """
    limit = np.inf
    reps.pull_where(TUNING.start - reps.n)
    while True:
        certify(reps)
        eliminate(reps)
        _, needed = settle(reps, reps.rows, reps.epsilon)
        done = reps.resolved.all()
        if (reps.settled >= 0).all():
            pulls = reps.n.sum()
            limit = min(limit, 16 * pulls)
            reps.alike |= pulls > limit
            done |= reps.alike or reps.all_distinct
        if done or (until_twins and reps.twins.size):
            certify(reps)
            return
        reps.pull_where(PullPlan(reps, needed).times())


def pulls_to_tell(reps: Representatives, n: Floats, a: Ints, b: Ints) -> Floats:
    """(P, K) pulls of an arm at rows a and b (P,), after n (R, K), that show them distinct; more than
    1e18 where they do not differ beyond noise."""
    alpha = reps.budgets.distinct(reps.number[a], reps.number[b])
    level = nats(alpha) + np.log(4 * reps.budgets.n_arms) + reps.cells.slack
    # After n pulls of the arm at both, a difference d is worth nd²/4.
    return 4 * level[..., None] / np.maximum(reps.differences(n, a, b), TINY) ** 2


class PullPlan:
    """What to pull next, from the representatives' averages and pulls as they are now.

    It covers each arm in the cheapest way: beat it wherever it is live; or show it close at one y,
    which settles every x distinct from y, and settle the rest one by one.
    Pulls are counted by what they are worth: one with variance σ²/4 as much as four with σ².

    Args:
        needed: (R, K) live arms that may be ε better than the leader.

    Attributes:
        eta: η, −inf where it is not told: no arm is then close.
        top: the index of the leaders' cells.
        gap: (R, K) leader's average minus the arm's.
        n: (R, K) pulls.
        together: (R,) rows that are not yet distinct from every other one.
        task: (R, K) arms of live sets with several arms.
        rival: the same without the leaders.
        to_distinct, telling: (R, R) pulls of one arm at both that show x and y distinct, that arm;
            inf for x itself.
        beaten, close: (R, K) pulls of the arm, with a leader that is known, that show it beaten at
            x, or close at y; inf for a leader that is close once all other live arms have left.
        cost, cost_close: (R, K) pulls still to make until the arm is beaten at x, or close at y.
        second: (R, K) the least cost of closeness at a y other than x.
        total, everywhere: (R, K) the cost of settling arm k by closeness at y first, (K,) of beating
            it wherever it is live.
    """

    def __init__(self, reps: Representatives, needed: Bools) -> None:
        slack = reps.cells.slack
        self.distinct = reps.distinct
        self.eta = eta = -np.inf if reps.eta is None else reps.eta
        self.top = top = (reps.rows, reps.leader)
        self.gap = gap = reps.mean[top][:, None] - reps.mean
        # Bets on small differences find the variance of the rewards; on large ones they gain less,
        # as in Bernstein's inequality for rewards in an interval of 2σ.
        hardest = np.maximum(np.abs(gap), eta - gap)
        self.variance = np.minimum(reps.cells.variance() + 2 / 3 * hardest, 1)
        self.n = n = reps.n / self.variance
        self.n_leader = n[top][:, None]
        #: All rows are good enough, but not shown distinct: that, or their best arms, are left.
        self.only_distinct = (reps.settled >= 0).all()
        alike = ~reps.distinct
        np.fill_diagonal(alike, False)
        self.together = alike.any(axis=1)
        open_ = ~reps.resolved & (self.together if self.only_distinct else reps.settled < 0)
        self.task = reps.live & open_[:, None]
        self.rival = self.task & (needed | self.only_distinct)
        self.rival[top] = False
        self.enough = 0.0 if self.only_distinct else reps.epsilon
        # Arms that are a leader or still to be settled.
        wanted = np.asarray(self.task.any(axis=0))
        wanted[top[1]] = True
        self.live = reps.live & wanted
        # The least batch: a small share of all expected pulls over the number of tasks. Agents take
        # `ahead` to be assigned, if differences are about η.
        ahead = reps.budgets.n_agents * nats(reps.budgets.classify()) / eta**2
        expected = ahead + n[:, wanted].sum()
        self.trifle = 0.005 * expected / max(1, self.rival.sum())
        self.share = np.sqrt(np.maximum(self.rival.sum(axis=1, keepdims=True), 1))
        self.level_beaten = 2 * (reps.to_beat + slack)[:, None]
        self.level_close = 2 * (reps.to_be_close + slack)[:, None]
        self.telling = np.zeros(reps.distinct.shape, dtype=int)
        self.to_distinct = np.zeros(reps.distinct.shape)
        if self.together.any():
            pulls = np.where(wanted, pulls_to_tell(reps, n, *np.nonzero(alike)), np.inf)
            self.telling[alike] = pulls.argmin(axis=1)
            self.to_distinct[alike] = pulls.min(axis=1)
        np.fill_diagonal(self.to_distinct, np.inf)
        price = self._cover(TINY)
        # Averages may be off: without a second time an unlucky one would never be corrected. The
        # chance of such deviations exceeds the pulls made over the pulls that they could save.
        doubt = np.sqrt(2 * np.log1p(price / n) * (1 / n + 1 / self.n_leader))
        self._cover(doubt)

    def _cover(self, doubt: Any) -> Floats:
        """Work out what each way costs in which an arm can leave the live sets.

        Args:
            doubt: (R, K) or one number; every way gets the benefit of such a deviation.

        Returns (K,) pulls that it takes to be rid of each arm.
        """
        top = self.top
        gap = self.gap
        size = np.maximum(np.abs(gap) + self.enough + doubt, 1 / np.sqrt(self.n))
        self.beaten = self.level_beaten / size**2
        self.close = self.level_close / np.maximum(self.eta - gap + doubt, TINY) ** 2
        self.cost = cost = np.where(self.rival, self._still(self.beaten), 0.0)
        cost_close = self._still(self.close)
        second = self._at_other(cost_close)
        # A leader is close once all else has left, which has to be shown anyway: wait for that.
        hardest = np.minimum(cost, second).max(axis=1)
        waits = (hardest < cost_close[top]) & (self.eta > 0)
        cost_close[top] = np.where(waits, hardest, cost_close[top])
        self.close[top] = np.where(waits, np.inf, self.close[top])
        self.cost_close = cost_close
        self.second = self._at_other(cost_close)
        rest = np.minimum(cost, self.second)
        # At y itself the pulls for closeness count towards beating the arm, too.
        own = np.minimum(np.maximum(cost - cost_close, 0), self.second)
        self.total = cost_close + ~self.distinct @ rest - rest + own
        self.everywhere = cost.sum(axis=0)
        return np.minimum(self.total.min(axis=0), self.everywhere)

    def _at_other(self, cost: Floats, best: Callable[..., Any] = np.ndarray.min) -> Any:
        """For every (x, k) the least `cost` (R, K) of closeness at another y, or that y (argmin).

        Where x and y are not known to be distinct, that has to be shown first.
        """
        own = np.arange(len(cost))[:, None] == cost.argmin(axis=0)
        found = np.where(own, best(np.where(own, np.inf, cost), axis=0), best(cost, axis=0))
        if self.together.any():
            to_distinct = self.to_distinct[self.together][:, :, None]
            found[self.together] = best(cost + to_distinct, axis=1)
        return found

    def times(self) -> Floats:
        """(R, K) pulls to make next, where positive. Ways that need few go first: they may make the
        others moot."""
        top = self.top
        # Tasks that are to be settled by closeness elsewhere, and the y where that is to be shown.
        first = self.total.argmin(axis=0)
        least = self.total.min(axis=0)
        covered = self.distinct[:, first] & (least < self.everywhere) & self.rival
        via = np.where(covered, first, self._at_other(self.cost_close, np.ndarray.argmin))
        elsewhere = covered | (self.second < self.cost)
        # The leader may be wrong, too, which a comparison with the runner-up would show.
        runner_up = np.where(self.rival, self.cost, np.inf).min(axis=1)
        elsewhere[top] = self.task[top] & (self.second[top] < runner_up)
        beaten = np.maximum(self.beaten, self.n)
        self.close = np.maximum(self.close, self.n)
        need = np.where(self.rival, beaten, np.inf)
        x, k = np.nonzero(elsewhere)
        y = via[x, k]
        need[x, k] = np.where(self.distinct[x, y], self.close[y, k], self.to_distinct[x, y])
        now = (need <= TUNING.urgent * need.min()) & np.isfinite(need)
        goal = np.where(now & ~elsewhere, self._next(beaten, self.n), 0.0)
        x, k = np.nonzero(now & elsewhere)
        y = via[x, k]
        apart = self.distinct[x, y]
        at = np.zeros_like(now)
        at[y[apart], k[apart]] = True  # one y may serve many x
        self._aim_at_closeness(at, goal)
        tell = np.triu(~self.distinct & self.only_distinct, 1)
        tell[x, y] = ~apart
        x, y = pairs = np.nonzero(tell)
        arm = self.telling[pairs]
        for row in (x, y):
            np.maximum.at(goal, (row, arm), self._next(self.to_distinct[pairs], self.n[row, arm]))
        others = goal.copy()
        others[top] = 0
        goal[top] = np.maximum(goal[top], leader_pulls(others))
        times = goal - self.n
        if not (times > 0).any():
            # A plan is never empty while a live set has several arms, whatever the averages are.
            times = np.where(self.task, TUNING.growth * self.n + TUNING.start, 0)
        return self.variance * times

    def _aim_at_closeness(self, at: Bools, goal: Floats) -> None:
        """Raise the goals of the cells `at` (R, K), arms k at y, and of live arms there that k is not
        yet close to."""
        y, k = cells = np.nonzero(at)
        own_n = self.n[cells]
        np.maximum.at(goal, cells, self._next(self.close[cells], own_n))
        margin = np.maximum(self.eta + self.gap[y] - self.gap[cells][:, None], 0)
        # Two averages with n and n' pulls show closeness from 1/n + 1/n' = margin²/level on.
        target = margin**2 / self.level_close[y]
        blocked = self.live[y] & (1 / own_n[:, None] + 1 / self.n[y] > target)
        blocked[np.arange(y.size), k] = False
        own = 1 / goal[cells][:, None]
        wanted = 1 / np.maximum(target - own, own)
        most = (1 + TUNING.growth) * self.n[y] + TUNING.start
        i, other = np.nonzero(blocked)
        np.maximum.at(goal, (y[i], other), np.minimum(wanted, most)[i, other])

    def _next(self, need: Floats, n: Floats) -> Floats:
        """Pulls after the next batch of an arm with n pulls that is expected to need `need`."""
        least = np.maximum(TUNING.least * n, self.trifle)
        batch = np.maximum(TUNING.part * (need - n), least)
        return n + np.minimum(batch, TUNING.growth * n + TUNING.start)

    def _still(self, need: Floats) -> Floats:
        """(R, K) pulls still to make until an arm and the leader are worth `need` of the arm alone.

        1/n + 1/n_leader = 1/need; the leader's part is shared by its rivals. Never less than one
        small batch, so that a task that was begun is not given up for one that looks a little
        cheaper.
        """
        twice = 2 * need
        own = 1 / (1 / need - 1 / np.maximum(self.n_leader, twice))
        leader = np.maximum(twice - self.n_leader, 0) / self.share
        return np.maximum(np.maximum(own - self.n, 0) + leader, TUNING.least * self.n)
