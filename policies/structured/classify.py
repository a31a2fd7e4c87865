"""Classification: a sequential test between known bandits, all agents in lock-step.

A plan says which arms an agent should pull, and which tests they feed.
"""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Array, Floats, Ints
from clustered_bandit_gym.policies.structured.budget import nats
from clustered_bandit_gym.policies.structured.evidence import ClusterTests, remaining
from clustered_bandit_gym.policies.structured.representatives import Record, Representatives
from clustered_bandit_gym.policies.structured.tuning import TUNING

#: Cap on the pulls planned for an agent: half of what one request can ask for.
HOPELESS = 2.0**52


def classify(reps: Representatives, best: Ints | None) -> Ints:
    """(N,) the cluster of each agent: a row of `reps`, one of which is of the agent's own cluster.

    Every agent is tested against every cluster (`evidence.ClusterTests`) until all but one are
    ruled out. An agent that takes far more pulls than planned starts a new attempt, with sharper
    representatives and from zero pulls.
    """
    labels = np.full(reps.budgets.n_agents, 0 if len(reps) == 1 else -1)
    labels[reps.agents] = reps.rows
    waiting = np.flatnonzero(labels < 0)
    attempt = 1
    while waiting.size:
        plan = Plan(reps, best, nats(reps.budgets.classify(reps.dropped + 1, attempt)))
        plan.prepare()
        labels[waiting] = _Block(plan, waiting).run()
        waiting = waiting[labels[waiting] < 0]
        attempt += 1
        plan.sharpen_at(np.unique(-1 - labels[waiting]))
    return labels


class Plan(ClusterTests):
    """Arms for telling agents of R clusters apart: choices that cost pulls if they are poor.

    Attributes:
        pulls: (R,) pulls that an agent of x should take, once it is guessed right.
    """

    @property
    def users(self) -> float:
        """Agents of a cluster beside its representative, on average."""
        return max(1.0, self.reps.budgets.n_agents / self.rows.size - 1)

    def prepare(self) -> None:
        """Choose arms, pull representatives where their noise would cost more, freeze the tests."""
        if self.reps.cells.bets:
            self.choose_kind()
        for _ in range(4):
            # An arm that seemed to tell clusters apart by chance is dropped once known better.
            self._choose()
            self._sharpen()
        self.freeze()

    def choose_kind(self) -> None:
        """Take the kind of test with which agents are expected to make fewer pulls."""
        expected = []
        for bets in (False, True):
            self.set_kind(bets)
            self._choose()
            expected.append((self.each @ self.noise).sum())
        self.set_kind(expected[1] < expected[0])

    def set_kind(self, bets: bool) -> None:
        """Plan bets or tests by the sub-Gaussian property."""
        reps = self.reps
        self.bets = bets
        self.noise = np.ones(reps.n.shape[1])
        if bets:
            variance = (reps.n * reps.cells.variance()).sum(axis=0) / reps.n.sum(axis=0)
            self.noise = np.minimum(variance + np.ptp(reps.mean, axis=0) / 3, 1)

    @property
    def rep_pulls(self) -> Floats:
        """(R, K) representatives' pulls by what they are worth: with variance σ²/4 four times."""
        return self.reps.n / self.noise

    def _choose(self) -> None:
        """Choose the arms that rule out all rivals of x with few pulls.

        Rivals that need many pulls come first; each takes the arm that adds fewest. A rival that
        needs no more of an arm than another one is ruled out for nothing.
        """
        rows = self.rows
        need, total, assumed = self._needs()
        each, cost = np.zeros((2, *self.reps.n.shape))
        order = np.argsort(-total.min(axis=2), axis=1, kind="stable")
        arms = np.zeros_like(order)
        for rival in order.T:  # x itself comes last, and needs nothing
            own = total[rows, rival]
            # Of arms that add the same, the one that needs least.
            arm = (np.maximum(own - cost, 0) + 1e-3 * own).argmin(axis=1)
            at = (rows, arm)
            cost[at] = np.maximum(cost[at], own[at])
            each[at] = np.maximum(each[at], need[rows, rival, arm])
            arms[rows, rival] = arm
        self.arms = arms
        self.each = each
        self.assumed = assumed & (arms == self.best[:, None])
        self.pulls = np.maximum(each.sum(axis=1) * (1 + 1 / np.sqrt(self.users)), 1)

    def _needs(self) -> tuple[Floats, Floats, Array]:
        """(R, R, K) pulls of an arm at an agent of x that rule out j if all means were known, the
        same with the representatives' part; (R, R) Assumption 1 is the cheaper way for arm k_x."""
        rows = self.rows
        best = self.best
        weights = self.weights
        worth = self.rep_pulls
        # Mixing costs a representative about 3 nats; the other kind of test has half the weight.
        level = self.level + weights.alternative + 3 + np.log(2) * self.reps.cells.bets
        level += TUNING.bet_slack * self.bets
        price = weights.arm(np.arange(worth.shape[1]), best[:, None, None], best[:, None])
        need = _pulls(level + price, self.reps.differences(worth, rows[:, None], rows))
        total = _with_representatives(need, worth, self.users / rows.size)
        assumed = np.zeros(total.shape[:2], dtype=bool)
        if self.eta is not None:
            top = self.reps.mean[rows, best]
            alone = _pulls(level + weights.assumed, top[:, None] - top + self.eta)
            whole = _with_representatives(alone, worth[rows, best], self.users)
            of_best = rows, slice(None), best
            assumed = whole < total[of_best]
            need[of_best] = np.where(assumed, alone, need[of_best])
            total[of_best] = np.minimum(whole, total[of_best])
        need[rows, rows] = total[rows, rows] = 0
        return need, total, assumed

    def _sharpen(self) -> None:
        """Bring each cell that tests use to the pulls that make all pulls together fewest.

        If perfect knowledge of a cell lets an agent reject with n0 pulls, knowledge from n' pulls
        asks for n with 1/n + 1/n' = 1/n0; the sum u·n (u agents) + c·n' (c cells) is least at
        n' = n0(1 + √(u/c)).
        """
        x, j = np.nonzero(self.rows[:, None] != self.rows)
        arm = self.arms[x, j]
        assumed = self.assumed[x, j]
        at = (x, arm)
        each = self.each[at]
        goal, cells = np.zeros((2, *self.each.shape))
        np.add.at(cells, at, 1)
        ratio = self.users / np.where(assumed, 1, cells[at])
        cell = np.where(assumed, self.best[j], arm)
        np.maximum.at(goal, (j, cell), each * (1 + np.sqrt(ratio)))
        np.maximum.at(goal, at, 2 * each)
        goal *= 1.5 if self.bets else 1
        self.reps.pull_where((goal - self.rep_pulls) * self.noise)

    def sharpen_at(self, guesses: Ints) -> None:
        """Noise misled the plan for agents that look like these clusters: double what it used there.

        Cells with 16 times an agent's pulls add little noise; they stay as they are.
        """
        n = self.reps.n
        twice = np.zeros(n.shape, dtype=bool)
        for x in guesses:
            used = np.delete(self.arms[x], x)
            twice[:, used] |= n[:, used] <= 16 * self.pulls[x] * self.noise[used]
        self.reps.pull_where(n * twice)


def _pulls(level: Floats, gap: Floats) -> Floats:
    """Pulls that show a difference `gap` with `level` nats."""
    return np.minimum(2 * level / np.maximum(gap, 1e-9) ** 2, HOPELESS)


def _with_representatives(need: Floats, n: Floats, users: float) -> Floats:
    """`need` with what the noise of a representative with n pulls, or more pulls of it, cost."""
    ratio = np.sqrt(users)
    enough = n >= need * (1 + ratio)
    factor = np.where(enough, 1 + need / n, (1 + 1 / ratio) ** 2)
    return np.minimum(need * factor, HOPELESS)


class _Block:
    """Agents that are tested side by side.

    Pulls are counted by what they are worth: with a quarter of the variance four times.

    Attributes:
        record: the agents' pulls, and what they gave.
        rep_pulls, rep_mean: (K, R) pulls and averages of the representatives.
        fit: (n, R) log-likelihood of each cluster, up to a constant.
        ruled_out: (n, R) clusters that are ruled out.
        total: (n,) pulls so far.
        since: (n,) pulls when the present guess was first made.
    """

    def __init__(self, plan: Plan, agents: Ints) -> None:
        self.plan = plan
        reps = plan.reps
        self.record = Record(reps.federation, reps.budgets, agents)
        self.rep_pulls = plan.rep_pulls.T.copy()
        self.rep_mean = reps.mean.T.copy()
        self.fit = np.zeros((agents.size, len(reps)))
        self.ruled_out = np.zeros(self.fit.shape, dtype=bool)
        self.total, self.since = np.zeros((2, agents.size))
        #: First batches as a share of the planned pulls.
        self.search = 0.093 / np.sqrt(len(reps))

    def run(self) -> Ints:
        """(n,) labels; where an agent lost patience, −1 minus its last guess."""
        plan = self.plan
        cells = self.record.cells
        (n, r) = self.fit.shape
        rows = np.arange(n)
        labels = np.full(n, -1)
        guess = plan.reps.federation.rng.integers(r, size=n)
        rival = (guess + 1) % r
        part = np.full(n, self.search)
        while rows.size:
            self._pull(rows, plan.arms[guess, rival], np.ceil(plan.pulls[guess] * part))
            last = guess
            guess = self.fit[rows].argmax(axis=1)
            new = rows[guess != last]
            self.since[new] = self.total[new]
            arms = plan.arms[guess]
            own = rows[:, None], arms
            evidence = plan.evidence(guess, cells.n[own] / plan.noise[arms], cells.mean[own])
            self.ruled_out[rows] |= plan.rejects(guess, evidence, cells, rows)
            done, answer = remaining(self.ruled_out[rows], guess)
            labels[rows] = np.where(done, answer, -1 - guess)
            total = self.total[rows]
            limit = TUNING.patience * plan.pulls[guess]
            lost = (total - self.since[rows] > limit) | (total > TUNING.patience * limit)
            left = ~(done | lost)
            rows = rows[left]
            guess = guess[left]
            rival, part = self._next_batch(rows, guess, evidence[left])
        return labels

    def _next_batch(self, rows: Ints, guess: Ints, evidence: Floats) -> tuple[Ints, Floats]:
        """(rows,) the rival that is hardest to rule out, and the next batch as a share of the plan."""
        plan = self.plan
        index = np.arange(rows.size)
        left_open = np.where(self.ruled_out[rows], np.inf, evidence)
        left_open[index, guess] = np.inf
        rival = left_open.argmin(axis=1)
        lack = (plan.level - left_open[index, rival]) / (plan.level + plan.price[guess, rival])
        # A wrong guess leads by this much with probability e^-lead: the stake grows with the lead.
        second, first = np.sort(self.fit[rows], axis=1)[:, -2:].T
        stake = np.minimum(self.search * np.exp(np.minimum(first - second, 20) / 2), 1 / 4)
        return rival, np.clip(0.9 * lack, 1 / 24, stake)

    def _pull(self, rows: Ints, arms: Ints, times: Floats) -> None:
        """Agents `rows` pull one arm each; `fit` changes by how well its average agrees."""
        noise = self.plan.noise[arms]
        pulls = np.ceil(times * noise)
        before = self._misfit(rows, arms)
        self.record.pull(rows, arms, pulls)
        self.total[rows] += pulls / noise
        self.fit[rows] += before - self._misfit(rows, arms)

    def _misfit(self, rows: Ints, arms: Ints) -> Floats:
        """(rows, R) half the squared distance of each agent's average of an arm from each
        representative's, in units of noise."""
        n = (self.record.n[rows, arms] / self.plan.noise[arms])[:, None]
        n_rep = self.rep_pulls[arms]
        distance = self.rep_mean[arms] - self.record.mean[rows, arms][:, None]
        return n_rep * (0.5 * n) / (n_rep + n) * distance**2
