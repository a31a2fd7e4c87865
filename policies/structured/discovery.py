"""Discovery: one agent of every cluster, found among those that do *not* look like the ones known.

A wrong guess here costs pulls, never correctness. That representatives are distinct is shown by the
tests of `evidence.py`, from pulls made after they were chosen.
"""

from __future__ import annotations

from math import ceil, floor, log, sqrt
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
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
        every_arm: clusters may differ in any arm, not only in their leaders: all arms are compared
            at full effort, and η, by which best arms differ, is not used.

    Attributes:
        goal: how many clusters there are at most; one where nothing is learnt from others.
        drawn: the record of the agents, (B,) in the order in which they are drawn.
        asked: how many of them have been drawn so far.
        odd: (B, R) agents that look different from a representative.
        seen: (B,) effort at which the agent was last explained by some representative.
        explored: effort that all representatives have received.
        variance, of_cell: (K,) and (R, K) guesses of the variance of one pull, in units of σ².
    """

    def __init__(self, reps: Representatives, every_arm: bool = False) -> None:
        self.reps = reps
        self.every_arm = every_arm
        federation = reps.federation
        first = TUNING.first_effort
        n_agents = federation.problem.n_agents
        # The last effort tells a difference of η, or 0.1σ where it is not told, with 24 nats.
        gap = 0.1 if every_arm else reps.eta or 0.1
        self.last = max(first, ceil(2 * 24.0 / gap**2))
        self.effort = ceil(self.last / 4 ** floor(log(self.last / first, 4)))
        # Without M nobody is assigned by what others are: everybody is looked at later on anyway.
        self.thorough = federation.problem.n_clusters is not None
        # Without M and η everybody finds an arm alone.
        self.goal = goal = reps.budgets.n_clusters if self.thorough or reps.eta else 1
        # A cluster of average size is missing among so many agents with probability e^-3 at most.
        self.most = min(n_agents, ceil(goal * (log(goal) + 3)))
        if not self.thorough:
            self.most = min(self.most, 256)
            self.last = min(self.last, 64 * first)
        self.explored = 0
        self.raised = False
        self.group = max(8, goal // 2)
        self._start(federation.rng.permutation(n_agents))
        self.variance: Floats = np.ones(reps.budgets.n_arms)
        self.of_cell: Floats  # learnt with the first representative

    def _start(self, order: Ints) -> None:
        """Nobody of `order` has been drawn yet."""
        self.asked = 0
        self.drawn = Record(self.reps.federation, self.reps.budgets, order)
        self.seen = np.zeros_like(order)
        self.odd = np.zeros((order.size, len(self.reps)), dtype=bool)

    def run(self) -> bool:
        """Look for representatives until there are `goal`; False if the search ended with fewer."""
        everybody = self.seen.size
        while len(self.reps) < self.goal:
            waiting = np.flatnonzero(self.seen[: self.asked] < self.effort)
            if waiting.size:
                self._search(waiting[: self.group])
            elif self.asked < self.most:
                self.asked = self.most
            elif self.raised and self.thorough and self.most < everybody:
                # More effort found nobody new: the missing cluster may have no agent among these.
                self.most = min(2 * self.most, everybody)
                self.raised = False
            elif self.effort < self.last:
                self.effort = min(4 * self.effort, self.last)
                self.raised = True
            elif self.thorough and self.asked < everybody:
                # The last resort: everybody once, at full effort.
                self.asked = min(self.asked + 256, everybody)
            else:
                return False
        return True

    def again(self) -> None:
        """Start over with all agents that are not representatives, at full effort."""
        self._start(np.setdiff1d(self.drawn.agents, self.reps.agents, assume_unique=True))
        self.effort = self.last
        self.most = min(self.most, self.seen.size)

    def drop(self, row: int) -> None:
        """Drop a representative that is not needed."""
        self.reps.drop(row)
        self.of_cell = np.delete(self.of_cell, row, axis=0)
        self.odd = np.delete(self.odd, row, axis=1)

    def _search(self, rows: Ints) -> None:
        """Compare drawn agents with all representatives; promote the first that fits none."""
        if len(self.reps):
            if self.explored < self.effort:
                self._explore_representatives(0)
            rows = self._explore(rows)
        self.explored = self.effort
        self.group *= 2
        if rows.size:
            self.raised = False
            self.group = max(8, self.goal // 2)
            self._promote(rows[0])

    def _explore(self, rows: Ints) -> Ints:
        """Pull until all of `rows` are explained or some fit no representative, which it returns.

        An agent pulls the leader of the representative that fits it best, in batches of a quarter
        of the effort: one that does not fit falls behind after a few.
        """
        drawn = self.drawn
        leader = self.reps.leader
        arms = self.variance.size
        look = ceil(TUNING.look * self.effort / arms)
        look = min(look, 5) if arms > 64 else look  # each arm sends an average
        look = self.effort if self.every_arm else look
        drawn.pull_where(look * self.variance - drawn.n[rows], rows)
        effort = self.effort * self.variance[leader]
        terms = self._terms(drawn.n[rows][:, None], drawn.mean[rows][:, None])
        while rows.size:
            odd, distance, on_leader = self._compare(terms, leader)
            self.odd[rows] |= odd
            odd = self.odd[rows]
            guess = np.where(odd, np.inf, distance).argmin(axis=1)
            nobody = odd.all(axis=1)
            if nobody.any():
                return rows[nobody]
            pulls = drawn.n[rows, leader[guess]] / effort[guess]
            # An agent may be unlucky with this leader; where in doubt it is asked twice as much.
            near = on_leader[np.arange(rows.size), guess] < TUNING.fitting_leader
            fits = ((pulls >= 1) & near) | (pulls >= 2)
            self.seen[rows[fits]] = self.effort
            rows = rows[~fits]
            guess = guess[~fits]
            terms = terms[~fits]
            arm = leader[guess]
            drawn.pull(rows, arm, effort[guess] / 4)
            changed = self._terms(drawn.n[rows, arm], drawn.mean[rows, arm], arm)
            terms[np.arange(rows.size), :, arm] = changed.T
        return rows

    def _terms(self, n: Floats, mean: Floats, arms: Any = slice(None)) -> Floats:
        """Half the squared distances of averages of n pulls of `arms` from the representatives', in
        units of noise."""
        # Agents of one cluster have the same variances.
        n_rep = self.reps.n[:, arms]
        variance = self.of_cell[:, arms]
        weight = n * n_rep / ((n + n_rep) * (2 * variance))
        return weight * (mean - self.reps.mean[:, arms]) ** 2

    def _compare(self, terms: Floats, leader: Ints) -> tuple[Bools, Floats, Floats]:
        """Agents beside the representatives, which have these leaders (R,), from `terms` (rows, R,
        K); all (rows, R): odd or not, half the squared distance in units of noise, and that on the
        leader alone."""
        on_leader = terms[:, np.arange(leader.size), leader]
        odd = on_leader > TUNING.odd_leader
        distance = terms.sum(axis=2)
        some = np.unique(leader)
        on_some = terms[:, :, some].sum(axis=2)
        for part, count in ((distance, terms.shape[2]), (on_some, some.size)):
            # Twice in 10^4 by chance, for 3 to 100 arms; 4 allows for the skew with few arms.
            limit = count / 2 + TUNING.deviations * sqrt(count / 2) + 4
            odd |= part > limit
        return odd, distance, on_leader

    def _promote(self, row: int) -> None:
        """Make a drawn agent a representative, unless fresh pulls show that it looks like one."""
        reps = self.reps
        last = len(reps)
        reps.add(self.drawn.agents[row])
        self.seen[row] = self.last  # it is not drawn again
        self.odd = np.pad(self.odd, ((0, 0), (0, 1)))
        self._explore_representatives(last)
        leader = reps.leader
        odd, *_ = self._compare(self._terms(reps.n[last], reps.mean[last])[None], leader)
        alike = (leader == leader[last]) & ~odd[0]
        if alike[:last].any():
            self.drop(last)

    def _explore_representatives(self, first: int) -> None:
        """Bring the arms that may be a representative's best, by a rough rule, to `effort` pulls.

        Those from row `first` on are explored.
        """
        reps = self.reps
        rows = np.arange(first, len(reps))
        effort = self.effort
        # A first glance at all arms drops the worst of them.
        for level in (effort / 8, effort):
            top = (np.arange(rows.size), reps.leader[rows])
            pulls = reps.n[rows]
            mean = reps.mean[rows]
            n = np.maximum(pulls / self.variance, 1e-9)
            noise = np.sqrt(2 * TUNING.apart * (1 / n + 1 / n[top][:, None]))
            contend = (mean[top][:, None] - mean <= noise) & reps.live[rows]
            goal = np.maximum(level * self.variance, TUNING.start)
            reps.pull_where(np.where(contend | self.every_arm, goal - pulls, 0), rows)
            self._learn_variance()
        # The noise of the leader then adds a quarter to the variance of a comparison.
        leader = reps.leader[rows]
        lack = 4 * effort * self.variance[leader] - reps.n[rows, leader]
        some = lack > 0
        reps.pull(rows[some], leader[some], lack[some])

    def _learn_variance(self) -> None:
        """From the representatives' pulls, as if a few more of each arm had shown what all do."""
        n = self.reps.n
        start = TUNING.start
        sums = n * self.reps.cells.variance()
        prior = start * sums.sum() / n.sum()
        of_arm = (sums.sum(axis=0) + prior) / (n.sum(axis=0) + start)
        self.variance = np.minimum(TUNING.margin * of_arm, 1)
        self.of_cell = np.minimum(TUNING.margin * ((sums + prior) / (n + start)), 1)
