"""Classification: a sequential test between known bandits, all agents in lock-step."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.structured.budget import nats
from clustered_bandit_gym.policies.structured.evidence import ClusterTests, remaining
from clustered_bandit_gym.policies.structured.plan import Plan
from clustered_bandit_gym.policies.structured.representatives import Representatives
from clustered_bandit_gym.policies.structured.tuning import TUNING


def classify(reps: Representatives, best: Ints, eta: float | None, agents: Ints) -> Ints:
    """(n,) the cluster of each agent: a row of `reps`, one of which is of the agent's own cluster.

    Every agent is tested against every cluster (`evidence.ClusterTests`) until all but one are
    ruled out. An agent that takes far more pulls than planned starts a new attempt, with sharper
    representatives and from zero pulls.
    """
    if len(reps) == 1:
        return np.zeros(agents.size, dtype=np.int64)
    labels = np.full(agents.size, -1)
    waiting = np.arange(agents.size)
    attempt = 1
    while waiting.size:
        plan = Plan(reps, best, eta, nats(reps.budgets.classify(reps.dropped + 1, attempt)))
        labels[waiting] = _Block(plan, plan.prepare(), agents[waiting]).run()
        waiting = waiting[labels[waiting] < 0]
        attempt += 1
        if waiting.size:
            _sharpen(plan, np.unique(-1 - labels[waiting]))
    return labels


def _sharpen(plan: Plan, guesses: Ints) -> None:
    """Noise misled the plan for agents that look like these clusters: double what it used there.

    Cells with 16 times an agent's pulls add little noise; they stay as they are.
    """
    n = plan.reps.n
    more = np.zeros_like(n)
    for x in guesses:
        used = np.unique(np.delete(plan.arms[x], x))
        enough = n[:, used] > 16 * plan.pulls[x] * plan.noise[used]
        more[:, used] = np.where(enough, more[:, used], n[:, used])
    plan.reps.pull_where(more)


class _Block:
    """Agents that are tested side by side.

    Pulls are counted by what they are worth: with a quarter of the variance four times. In tables
    of n agents the U columns are the arms that some test uses.

    Attributes:
        rep_pulls: (R, U) pulls of the representatives.
        fit: (n, R) log-likelihood of each cluster, up to a constant.
        total: (n,) pulls so far.
        since: (n,) pulls when the present guess was first made.
    """

    def __init__(self, plan: Plan, tests: ClusterTests, agents: Ints) -> None:
        self.plan, self.tests, self.agents = plan, tests, agents
        used, n, r = tests.used, agents.size, len(plan.reps)
        self.noise = plan.noise[used]
        self.estimate = tests.estimate[:, used]
        self.rep_pulls = np.maximum(plan.worth[:, used], 1)
        self.cells = plan.reps.make((n, used.size))
        self.fit = np.zeros((n, r))
        self.ruled_out = np.zeros((n, r), dtype=bool)
        self.total, self.since = np.zeros(n), np.zeros(n)
        #: First batches as a share of the planned pulls.
        self.search = 0.093 / np.sqrt(r)

    def run(self) -> Ints:
        """(n,) labels; where an agent lost patience, −1 minus its last guess."""
        plan, r = self.plan, len(self.plan.reps)
        rows = np.arange(self.agents.size)
        labels = np.full(rows.size, -1)
        guess = plan.reps.federation.rng.integers(r, size=rows.size)
        rival = (guess + 1) % r
        part = np.full(rows.size, self.search)
        while rows.size:
            times = np.ceil(plan.pulls[guess] * part)
            self._pull(self.tests.places[guess, rival], times)
            last, guess = guess, self.fit.argmax(axis=1)
            self.since = np.where(guess == last, self.since, self.total)
            done, answer, rival, part = self._judge(guess)
            labels[rows] = np.where(done, answer, -1 - guess)
            limit = TUNING.patience * plan.pulls[guess]
            lost = (self.total - self.since > limit) | (self.total > TUNING.patience * limit)
            left = ~(done | lost)
            self._keep(left)
            rows, guess, rival, part = rows[left], guess[left], rival[left], part[left]
        return labels

    def _judge(self, guess: Ints) -> tuple[np.ndarray, Ints, Ints, Floats]:
        """(n,) each: all clusters but one are ruled out, that one, the rival that is hardest to
        rule out, and the next batch as a share of the plan."""
        tests, beta, index = self.tests, self.plan.beta, np.arange(guess.size)
        evidence = tests.evidence(guess, self.cells.n / self.noise, self.cells.mean)
        self.ruled_out |= tests.rejects(guess, evidence, self.cells)
        done, answer = remaining(self.ruled_out, guess)
        left_open = np.where(self.ruled_out, np.inf, evidence)
        left_open[index, guess] = np.inf
        rival = left_open.argmin(axis=1)
        lack = (beta - left_open[index, rival]) / (beta + tests.price[guess, rival])
        # A wrong guess leads by this much with probability e^-lead: the stake grows with the lead.
        likeliest = np.partition(self.fit, -2, axis=1)
        lead = np.minimum(likeliest[:, -1] - likeliest[:, -2], 20)
        stake = np.minimum(self.search * np.exp(lead / 2), 1 / 4)
        return done, answer, rival, np.clip(0.9 * lack, 1 / 24, stake)

    def _pull(self, arm: Ints, times: Floats) -> None:
        """Every agent pulls one arm; `fit` changes by how well its average agrees."""
        noise, index = self.noise[arm], np.arange(arm.size)
        before = self._misfit(arm)
        pulls = np.ceil(times * noise).astype(np.int64)
        federation, arms = self.plan.reps.federation, self.tests.used[arm]
        self.cells.pull(federation, index, arm, pulls, arms, self.agents)
        self.total += pulls / noise
        self.fit += before - self._misfit(arm)

    def _misfit(self, arm: Ints) -> Floats:
        """(n, R) half the squared distance of each agent's average of an arm from each
        representative's, in units of noise."""
        index = np.arange(arm.size)
        n = (self.cells.n[index, arm] / self.noise[arm])[:, None]
        n_rep = self.rep_pulls[:, arm].T
        distance = self.estimate[:, arm].T - self.cells.mean[index, arm][:, None]
        return n_rep * (0.5 * n) / (n_rep + n) * distance**2

    def _keep(self, left: np.ndarray) -> None:
        """Forget all agents but these."""
        self.agents = self.agents[left]
        self.cells.keep(left)
        self.fit, self.ruled_out = self.fit[left], self.ruled_out[left]
        self.total, self.since = self.total[left], self.since[left]
