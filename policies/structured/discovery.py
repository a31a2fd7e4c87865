"""Discovery: one agent of every cluster, found among those that do *not* look like the ones known.

A wrong guess here costs pulls, never correctness. That representatives are distinct is shown by the tests of
`evidence.py`, from pulls made after they were chosen.
"""

from __future__ import annotations

from math import ceil, floor, log, sqrt

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.structured.representatives import Record, Representatives

#: Effort: pulls of a representative's leading arms, and of its leader at an agent that is compared with it. The search
#: starts with about FIRST_EFFORT, which shows differences of σ, and multiplies it by MORE when everybody drawn so far
#: is explained: all earlier efforts together then cost a third of the last one.
FIRST_EFFORT, MORE = 32, 4
#: Least pulls of an arm at a representative; a guess of the variance takes as many.
START = 8
#: The variance of few pulls of a skewed law is often underestimated: it is raised by this factor, up to σ². From 1 to
#: 1.6 no difference in pulls is seen beyond noise.
MARGIN = 1.3
#: Pulls of every arm at an agent: twice the effort spread over all arms if they are at most FEW_ARMS; else a share LOOK
#: of the effort, up to LOOK_MOST pulls, since every look sends an average of every arm to the centre.
FEW_ARMS, LOOK, LOOK_MOST = 64, 1 / 32, 5
#: The leader of a representative is pulled this many times as often: it is compared with many agents, and its own noise
#: then adds a quarter to the variance.
LEADER = 4
#: A comparison at full effort takes two steps: after the first, most representatives are out of the question.
STEPS = 2
#: An agent is odd beside a representative when half a χ² exceeds its mean by this many standard deviations, plus 4 for
#: the skew with few arms: two false alarms in 10^4 comparisons, for 3 to 100 arms. Each costs a needless candidate.
DEVIATIONS, EXTRA = 3.5, 4.0
#: On the leader alone an agent is odd beyond 6 nats (3.5 standard deviations), and fits below 3 (2.4).
ODD_LEADER, FITTING_LEADER = 6.0, 3.0
#: A representative that fits e^3 = 20 times worse than another is not looked at for the time being.
BEHIND = 3.0
#: Two arms of a representative are told apart, provisionally, by this many nats (3.7 standard deviations).
SOFT = 7.0
#: Search no further once a difference of η on a leading arm is worth this many nats: an agent that differs by η on the
#: leader alone is then overlooked a few times in a thousand (ODD_LEADER), which costs pulls only.
LAST = 24.0
#: Difference, in units of σ, that the search ends at where η is not told. A smaller one makes the last effort dearer
#: for everybody; clusters that are missed cost pulls later on, in acceptance.
UNTOLD = 0.1


class Discovery:
    """Draws agents at random and promotes those that fit no representative.

    Args:
        reps: the representatives, empty at first.
        eta: η in units of σ, or None.
        goal: how many clusters there are at most.

    Attributes (B agents drawn so far and neither promoted nor forgotten):
        drawn: the record of these agents.
        variance, of_cell: (K,) and (R, K), guesses of the variance of one pull, in units of σ². Efforts are counted in
            pulls of variance σ².
        odd: (B, R) agents that look different from a representative.
        looked: (B, R) effort at which all arms were compared.
        far: (B, R) distance found then.
        seen: (B,) effort at which the agent was last explained by some representative.
        explored: (R,) effort that a representative has received.
    """

    def __init__(self, reps: Representatives, eta: float | None, goal: int) -> None:
        self.reps, self.goal = reps, goal
        fed = reps.federation
        self.order: Ints = fed.rng.permutation(fed.problem.n_agents)
        self.last = max(FIRST_EFFORT, ceil(2 * LAST / (eta or UNTOLD) ** 2))
        self.effort = ceil(self.last / MORE ** floor(log(self.last / FIRST_EFFORT, MORE)))
        # Among so many agents a cluster is missing with probability e^-3 = 5% at most, if all are of average size.
        self.most = min(fed.problem.n_agents, ceil(goal * (log(goal) + 3)))
        # Without M nobody is assigned by what others are, and everybody is looked at closely later on anyway.
        self.thorough = fed.problem.n_clusters is not None
        if not self.thorough:
            self.most = min(self.most, 256)
        self.asked = 0
        self.raised = False
        self.dropped_by_glance = 1.0
        self.drawn = Record(fed, reps.budgets, np.zeros(0, dtype=np.int64))
        self.variance: Floats = np.ones(fed.problem.n_arms)
        self.of_cell: Floats = np.ones((0, fed.problem.n_arms))
        self.odd = np.zeros((0, 0), dtype=bool)
        self.looked: Ints = np.zeros((0, 0), dtype=np.int64)
        self.far: Floats = np.zeros((0, 0))
        self.seen: Ints = np.zeros(0, dtype=np.int64)
        self.explored: Ints = np.zeros(0, dtype=np.int64)

    def run(self) -> bool:
        """Look for representatives until there are `goal`; False if the search ended with fewer."""
        fresh = True
        while len(self.reps) < self.goal:
            waiting = np.flatnonzero(self.seen < self.effort)
            if waiting.size:
                # Once one of them was promoted, most of those that wait are of clusters yet unknown: a few will do.
                before = len(self.reps)
                self._search(
                    waiting if fresh else waiting[: max(8, self.goal // 2)], STEPS if fresh else 1
                )
                fresh = fresh and (before == 0 or len(self.reps) == before)
            elif self.asked < self.most:
                self._draw(self.most - self.asked)
                fresh = True
            elif self.raised and self.thorough and self.most < self.order.size:
                # More effort found nobody new: perhaps the cluster that is missing has no agent among those drawn.
                self.most, self.raised = min(2 * self.most, self.order.size), False
            elif self.effort < self.last:
                self.raised = True
                self.effort = min(MORE * self.effort, self.last)
                self.dropped_by_glance = 1.0
                fresh = True
            elif self.thorough and self.asked < self.order.size:
                # The last resort: everybody once, at full effort. Those that are explained are forgotten.
                self._keep(np.zeros(self.seen.size, dtype=bool))
                self._draw(256)
            else:
                return False
        return True

    def again(self) -> None:
        """Start over with all agents that are not representatives, at full effort."""
        self._keep(np.zeros(self.seen.size, dtype=bool))
        self.effort, self.asked = self.last, 0
        others = ~np.isin(self.order, self.reps.agents)
        self.order = self.order[others]
        self.most = min(self.most, self.order.size)

    def forget(self, row: int) -> None:
        """Representative `row` was dropped."""
        self.of_cell = np.delete(self.of_cell, row, axis=0)
        self.explored = np.delete(self.explored, row)
        self.odd = np.delete(self.odd, row, axis=1)
        self.looked, self.far = (
            np.delete(self.looked, row, axis=1),
            np.delete(self.far, row, axis=1),
        )

    def _search(self, rows: Ints, steps: int) -> None:
        """Compare agents with all representatives at the present effort; promote one of those that fit none."""
        if len(self.reps):
            self._explore_representatives(np.arange(len(self.reps)))
            rows = self._explore(rows, steps)
        if rows.size:
            self._promote(int(rows[0]))

    def _promote(self, row: int) -> None:
        reps, self.raised = self.reps, False
        reps.add(int(self.drawn.agents[row]))
        self._keep(np.arange(self.seen.size) != row)
        last = len(reps) - 1
        self.explored = np.append(self.explored, 0)
        self._explore_representatives(np.array([last]))
        if last:
            leader = reps.leader
            twins = np.flatnonzero(leader[:last] == leader[last])
            # Of one cluster, probably, if they look alike on all arms and on those that lead somewhere.
            for arms in (None, np.unique(leader)) if twins.size else ():
                odd, _, _ = _Sides(self, leader, twins, arms).compare(reps, np.array([last]))
                twins = twins[~odd[0]]
            if twins.size:
                reps.drop(last)
                self.explored, self.of_cell = self.explored[:-1], self.of_cell[:-1]
                return
        self.odd, self.looked, self.far = (
            np.hstack([a, np.zeros((a.shape[0], 1), dtype=a.dtype)])
            for a in (self.odd, self.looked, self.far)
        )

    def _explore_representatives(self, rows: Ints) -> None:
        """Bring the arms that may be a representative's best, by a rough rule, to `effort` pulls."""
        reps = self.reps
        rows = rows[self.explored[rows] < self.effort]
        if not rows.size:
            return
        self.explored[rows] = self.effort
        # A first glance at all arms is for dropping the worst of them; where it drops few it is left out.
        glance = self.dropped_by_glance > 0.2
        for level in (max(8, self.effort // 8), self.effort) if glance else (self.effort,):
            leader = reps.leader[rows]
            n, mean = np.maximum(reps.n[rows] / self.variance, 1e-9), reps.mean[rows]
            index = np.arange(rows.size)
            gap = mean[index, leader][:, None] - mean
            noise = np.sqrt(2 * SOFT * (1 / n + 1 / n[index, leader][:, None]))
            times = np.zeros_like(reps.n)
            contend = (gap <= noise) & reps.live[rows]
            times[rows] = np.where(
                contend, np.maximum(level * self.variance, START) - reps.n[rows], 0
            )
            reps.pull_where(times)
            self._learn_variance()
        if glance:
            self.dropped_by_glance = 1 - contend.mean()
        leader = reps.leader[rows]
        times = np.zeros_like(reps.n)
        times[rows, leader] = LEADER * self.effort * self.variance[leader] - reps.n[rows, leader]
        reps.pull_where(times)

    def _learn_variance(self) -> None:
        """From the representatives' pulls, as if START more of each arm had shown what all arms do."""
        n, variance = self.reps.n, self.reps.cells.variance()
        of_all = (n * variance).sum() / n.sum()
        sums = n * variance
        self.of_cell = np.minimum(MARGIN * (sums + START * of_all) / (n + START), 1)
        self.variance = np.minimum(
            MARGIN * (sums.sum(axis=0) + START * of_all) / (n.sum(axis=0) + START), 1
        )

    def _explore(self, rows: Ints, steps: int) -> Ints:
        """Those of `rows` that fit no representative, after each representative was given a fair chance."""
        leader = self.reps.leader
        self._look(rows, leader)
        arms, slot = np.unique(leader, return_inverse=True)
        leads = np.equal.outer(slot, np.arange(arms.size)).astype(np.float64)
        step = np.ceil(ceil(self.effort / steps) * self.variance[arms]).astype(np.int64)
        enough, most = self.effort * self.variance[leader], 2 * self.effort * self.variance[arms]
        sides = _Sides(self, leader, None, arms)
        nobody: list[Ints] = []
        while rows.size:
            odd, near, own = sides.compare(self.drawn, rows)
            odd |= self.odd.take(rows, axis=0)
            self.odd[rows] = odd
            fit = near + self.far.take(rows, axis=0)
            fit[odd] = np.inf
            guess = fit.argmin(axis=1)
            index = np.arange(rows.size)
            none = odd[index, guess]  # where even the best one is odd
            pulls = self.drawn.n[rows, leader[guess]] / enough[guess]
            # An agent of another cluster may be unlucky with this leader; where in doubt it is asked twice as much.
            fits = (pulls >= 1) & ((own[index, guess] < FITTING_LEADER) | (pulls >= 2))
            explained = fits & ~none
            nobody.append(rows[none])
            self.seen[rows[explained]] = self.effort
            if steps == 1 and nobody[-1].size:
                # One is enough for now.
                break
            go_on = ~(none | fits)
            rows, fit = rows[go_on], fit[go_on]
            if rows.size:
                near_best = fit <= fit.min(axis=1, keepdims=True) + BEHIND
                r, a = np.nonzero(
                    (near_best @ leads > 0) & (self.drawn.n[rows[:, None], arms] < most)
                )
                self.drawn.pull(rows[r], arms[a], step[a])
        return np.concatenate(nobody)

    def _look(self, rows: Ints, leader: Ints) -> None:
        """A few pulls of every arm, and a comparison over all arms where there was none at this effort."""
        arms = self.reps.n.shape[1]
        look = (
            ceil(2 * self.effort / arms)
            if arms <= FEW_ARMS
            else min(LOOK_MOST, ceil(LOOK * self.effort))
        )
        self.drawn.pull_where(np.ceil(look * self.variance) - self.drawn.n[rows], rows)
        columns = np.flatnonzero((self.looked[rows] < self.effort).any(axis=0))
        if columns.size:
            odd, distance, _ = _Sides(self, leader, columns, None).compare(self.drawn, rows)
            cells = rows[:, None], columns
            self.odd[cells] |= odd
            self.far[cells] = distance
            self.looked[cells] = self.effort

    def _draw(self, count: int) -> None:
        new = self.order[self.asked : self.asked + count]
        self.asked += new.size
        self.drawn.append(new)
        self.seen = np.append(self.seen, np.zeros(new.size, dtype=np.int64))
        self.odd, self.looked, self.far = (
            np.pad(a, ((0, new.size), (0, 0))) for a in (self.odd, self.looked, self.far)
        )

    def _keep(self, keep: np.ndarray) -> None:
        self.drawn.keep(keep)
        self.seen, self.odd, self.looked, self.far = (
            a[keep] for a in (self.seen, self.odd, self.looked, self.far)
        )


class _Sides:
    """Representatives that agents are set beside, on some arms.

    Args:
        discovery: the search.
        leader: (R,) the representatives' leaders.
        columns: rows of the representatives, None for all of them.
        arms: increasing, None for all of them; the leaders of `columns` are among them.
    """

    def __init__(
        self, discovery: Discovery, leader: Ints, columns: Ints | None, arms: Ints | None
    ) -> None:
        reps = discovery.reps
        tables = [reps.n, reps.mean, discovery.of_cell]
        if columns is not None:
            leader, tables = leader[columns], [table.take(columns, axis=0) for table in tables]
        if arms is not None:
            leader, tables = (
                np.searchsorted(arms, leader),
                [table.take(arms, axis=1) for table in tables],
            )
        self.arms, self.leader = arms, leader
        self.n, self.mean, variance = tables
        self.half = 0.5 / variance  # agents of one cluster have the same variances
        self.index = np.arange(leader.size)
        count = self.n.shape[1]
        self.limit = count / 2 + DEVIATIONS * sqrt(count / 2) + EXTRA

    def compare(self, record: Record, rows: Ints) -> tuple[np.ndarray, Floats, Floats]:
        """Agents `rows` of a record beside each representative: odd or not, half the squared distance in units of
        noise, and that on the representative's leader alone; all (rows, columns)."""
        n, mean = record.n.take(rows, axis=0), record.mean.take(rows, axis=0)
        if self.arms is not None:
            n, mean = n.take(self.arms, axis=1), mean.take(self.arms, axis=1)
        n, mean = n[:, None, :], mean[:, None, :]
        # ½·(n n'/(n + n'))·(difference)², in place: these tables are the largest of the search.
        terms = n * self.n
        other = n + self.n
        terms /= np.maximum(other, 1, out=other)
        terms *= self.half
        np.subtract(mean, self.mean, out=other)
        terms *= np.square(other, out=other)
        distance = terms.sum(axis=2)
        on_leader = terms[:, self.index, self.leader]
        return (distance > self.limit) | (on_leader > ODD_LEADER), distance, on_leader
