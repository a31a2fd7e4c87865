"""Discovery: one agent of every cluster, found among those that do *not* look like the ones known.

A wrong guess here costs pulls, never correctness. That representatives are distinct is shown by the
tests of `evidence.py`, from pulls made after they were chosen.
"""

from __future__ import annotations

from math import ceil, floor, log, sqrt

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.structured.representatives import Record, Representatives
from clustered_bandit_gym.policies.structured.tuning import TUNING


class Discovery:
    """Draws agents at random and promotes those that fit no representative.

    The *effort* is the number of pulls of a representative's leading arms, and of its leader at an
    agent that is compared with it. It is raised when everybody drawn so far is explained, so that
    all earlier efforts together cost a third of the last one. Efforts are counted in pulls of
    variance σ²; arms with a smaller variance take fewer.

    Args:
        reps: the representatives, empty at first.
        eta: η in units of σ, or None.
        goal: how many clusters there are at most.
        every_arm: clusters may differ in any arm, not only in their leaders: all arms are compared
            at full effort.

    Attributes (B agents drawn so far and neither promoted nor forgotten):
        drawn: the record of these agents.
        odd: (B, R) agents that look different from a representative.
        seen: (B,) effort at which the agent was last explained by some representative.
        explored: (R,) effort that a representative has received.
        variance, of_cell: (K,) and (R, K) guesses of the variance of one pull, in units of σ².
    """

    def __init__(
        self, reps: Representatives, eta: float | None, goal: int, every_arm: bool = False
    ) -> None:
        self.reps, self.goal, self.every_arm = reps, goal, every_arm
        fed = reps.federation
        n_agents, n_arms = fed.problem.n_agents, fed.problem.n_arms
        self.order: Ints = fed.rng.permutation(n_agents)
        gap = eta or TUNING.untold_eta
        self.last = max(TUNING.first_effort, ceil(2 * TUNING.last_effort / gap**2))
        steps = floor(log(self.last / TUNING.first_effort, TUNING.more_effort))
        self.effort = ceil(self.last / TUNING.more_effort**steps)
        # A cluster of average size is missing among so many agents with probability e^-3 at most.
        self.most = min(n_agents, ceil(goal * (log(goal) + 3)))
        # Without M nobody is assigned by what others are: everybody is looked at later on anyway.
        self.thorough = fed.problem.n_clusters is not None
        if not self.thorough:
            self.most = min(self.most, 256)
            self.last = min(self.last, 64 * TUNING.first_effort)
        self.asked = 0
        self.raised = False
        self.group = max(8, goal // 2)
        self.drawn = Record(fed, reps.budgets, np.zeros(0, dtype=np.int64))
        self.odd = np.zeros((0, 0), dtype=bool)
        self.seen: Ints = np.zeros(0, dtype=np.int64)
        self.explored: Ints = np.zeros(0, dtype=np.int64)
        self.variance: Floats = np.ones(n_arms)
        self.of_cell: Floats = np.ones((0, n_arms))

    def run(self) -> bool:
        """Look for representatives until there are `goal`; False if the search ended with fewer."""
        while len(self.reps) < self.goal:
            waiting = np.flatnonzero(self.seen < self.effort)
            if waiting.size:
                self._search(waiting[: self.group])
            elif self.asked < self.most:
                self._draw(self.most - self.asked)
            elif self.raised and self.thorough and self.most < self.order.size:
                # More effort found nobody new: the missing cluster may have no agent among these.
                self.most = min(2 * self.most, self.order.size)
                self.raised = False
            elif self.effort < self.last:
                self.effort = min(TUNING.more_effort * self.effort, self.last)
                self.raised = True
            elif self.thorough and self.asked < self.order.size:
                # The last resort: everybody once, at full effort. Those explained are forgotten.
                self._keep(np.zeros(self.seen.size, dtype=bool))
                self._draw(256)
            else:
                return False
        return True

    def again(self) -> None:
        """Start over with all agents that are not representatives, at full effort."""
        self._keep(np.zeros(self.seen.size, dtype=bool))
        self.effort = self.last
        self.asked = 0
        self.order = self.order[~np.isin(self.order, self.reps.agents)]
        self.most = min(self.most, self.order.size)

    def forget(self, row: int) -> None:
        """Representative `row` was dropped."""
        self.of_cell = np.delete(self.of_cell, row, axis=0)
        self.explored = np.delete(self.explored, row)
        self.odd = np.delete(self.odd, row, axis=1)

    def _search(self, rows: Ints) -> None:
        """Compare drawn agents with all representatives; promote the first that fits none."""
        new = rows
        if len(self.reps):
            self._explore_representatives(np.arange(len(self.reps)))
            new = self._explore(rows)
        if new.size:
            self.raised = False
            self.group = max(8, self.goal // 2)
            self._promote(int(new[0]))
        else:
            self.group *= 2

    def _explore(self, rows: Ints) -> Ints:
        """Pull until every agent of `rows` is explained, or some of them fit no representative:
        these.

        An agent pulls the leader of the representative that fits it best, in batches of a quarter
        of the effort: one that does not fit falls behind after a few.
        """
        arms = self.reps.n.shape[1]
        look = ceil(TUNING.look * self.effort / arms)
        look = min(look, TUNING.look_most) if arms > 64 else look
        look = self.effort if self.every_arm else look
        self.drawn.pull_where(np.ceil(look * self.variance) - self.drawn.n[rows], rows)
        leader = self.reps.leader
        step = np.ceil(self.effort / 4 * self.variance[leader]).astype(np.int64)
        while rows.size:
            index = np.arange(rows.size)
            odd, distance, on_leader = self._compare(self.drawn, rows, np.arange(len(self.reps)))
            odd |= self.odd[rows]
            self.odd[rows] = odd
            guess = np.where(odd, np.inf, distance).argmin(axis=1)
            nobody = odd[index, guess]  # even the best one is odd
            if nobody.any():
                return rows[nobody]
            pulls = self.drawn.n[rows, leader[guess]] / (self.effort * self.variance[leader[guess]])
            # An agent may be unlucky with this leader; where in doubt it is asked twice as much.
            near = on_leader[index, guess] < TUNING.fitting_leader
            fits = ((pulls >= 1) & near) | (pulls >= 2)
            self.seen[rows[fits]] = self.effort
            rows, guess = rows[~fits], guess[~fits]
            self.drawn.pull(rows, leader[guess], step[guess])
        return rows

    def _compare(
        self, record: Record, rows: Ints, with_: Ints
    ) -> tuple[np.ndarray, Floats, Floats]:
        """Agents `rows` of a record beside the representatives `with_`, all (rows, with_): odd or
        not, half the squared distance in units of noise, and that on the leader alone."""
        reps, leader = self.reps, self.reps.leader[with_]
        n, n_rep = record.n[rows][:, None, :], reps.n[with_]
        # Agents of one cluster have the same variances.
        weight = n * n_rep / (np.maximum(n + n_rep, 1) * 2 * self.of_cell[with_])
        terms = weight * (record.mean[rows][:, None, :] - reps.mean[with_]) ** 2
        distance = terms.sum(axis=2)
        on_leader = terms[:, np.arange(with_.size), leader]
        odd = on_leader > TUNING.odd_leader
        for part in (terms, terms[:, :, np.unique(reps.leader)]):
            count = part.shape[2]
            # Twice in 10^4 by chance, for 3 to 100 arms; 4 allows for the skew with few arms.
            limit = count / 2 + TUNING.deviations * sqrt(count / 2) + 4
            odd |= part.sum(axis=2) > limit
        return odd, distance, on_leader

    def _promote(self, row: int) -> None:
        """Make a drawn agent a representative, unless fresh pulls show that it looks like one."""
        reps = self.reps
        reps.add(int(self.drawn.agents[row]))
        self._keep(np.arange(self.seen.size) != row)
        last = len(reps) - 1
        self.explored = np.append(self.explored, 0)
        self.odd = np.pad(self.odd, ((0, 0), (0, 1)))
        self._explore_representatives(np.array([last]))
        twins = np.flatnonzero(reps.leader[:last] == reps.leader[last])
        if twins.size:
            odd, _, _ = self._compare(reps, np.array([last]), twins)
            if not odd.all():
                reps.drop(last)
                self.forget(last)

    def _explore_representatives(self, rows: Ints) -> None:
        """Bring the arms that may be a representative's best, by a rough rule, to `effort` pulls."""
        reps = self.reps
        rows = rows[self.explored[rows] < self.effort]
        if not rows.size:
            return
        self.explored[rows] = self.effort
        index = np.arange(rows.size)
        # A first glance at all arms drops the worst of them.
        for level in (self.effort / 8, self.effort):
            leader = reps.leader[rows]
            n, mean = np.maximum(reps.n[rows] / self.variance, 1e-9), reps.mean[rows]
            gap = mean[index, leader][:, None] - mean
            noise = np.sqrt(2 * TUNING.apart * (1 / n + 1 / n[index, leader][:, None]))
            goal = np.maximum(level * self.variance, TUNING.start)
            contend = ((gap <= noise) & reps.live[rows]) | self.every_arm
            reps.pull_where(np.where(contend, goal - reps.n[rows], 0), rows)
            self._learn_variance()
        leader = reps.leader[rows]
        goal = TUNING.leader_effort * self.effort * self.variance[leader] - reps.n[rows, leader]
        lack = np.flatnonzero(goal > 0)
        reps.pull(rows[lack], leader[lack], np.ceil(goal[lack]).astype(np.int64))

    def _learn_variance(self) -> None:
        """From the representatives' pulls, as if a few more of each arm had shown what all do."""
        n = self.reps.n
        sums = n * self.reps.cells.variance()
        prior = TUNING.start * sums.sum() / n.sum()
        of_cell = (sums + prior) / (n + TUNING.start)
        of_arm = (sums.sum(axis=0) + prior) / (n.sum(axis=0) + TUNING.start)
        self.of_cell = np.minimum(TUNING.margin * of_cell, 1)
        self.variance = np.minimum(TUNING.margin * of_arm, 1)

    def _draw(self, count: int) -> None:
        new = self.order[self.asked : self.asked + count]
        self.asked += new.size
        self.drawn.append(new)
        self.seen = np.append(self.seen, np.zeros(new.size, dtype=np.int64))
        self.odd = np.pad(self.odd, ((0, new.size), (0, 0)))

    def _keep(self, keep: np.ndarray) -> None:
        self.drawn.keep(keep)
        self.seen, self.odd = self.seen[keep], self.odd[keep]
