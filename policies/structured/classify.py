"""Classification: a sequential test between known bandits, all agents in lock-step."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.structured.budget import nats
from clustered_bandit_gym.policies.structured.evidence import ClusterTests, remaining
from clustered_bandit_gym.policies.structured.plan import Plan
from clustered_bandit_gym.policies.structured.representatives import Ordered, Representatives
from clustered_bandit_gym.policies.structured.tuning import TUNING

#: Agents are handled in blocks of about this many (agent, cluster, arm) cells: tables of 32 MB.
CELLS = 2**22
UNKNOWN = np.iinfo(np.int64).max


def classify(reps: Representatives, best: Ints, eta: float | None, agents: Ints) -> Ints:
    """(n,) the cluster of each agent: a row of `reps`, one of which is of the agent's own cluster.

    Every agent is tested against every cluster (`evidence.ClusterTests`) until all but one are
    ruled out. An agent that takes far more pulls than planned starts a new attempt, with sharper
    representatives and from zero pulls.
    """
    r, k = reps.n.shape
    if r == 1:
        return np.zeros(agents.size, dtype=np.int64)
    labels = np.full(agents.size, -1)
    waiting = np.arange(agents.size)
    attempt = 1
    while waiting.size:
        plan = Plan(reps, best, eta, nats(reps.budgets.classify(reps.dropped + 1, attempt)))
        tests = plan.prepare()
        size = max(1, CELLS // (3 * r + k))
        for start in range(0, waiting.size, size):
            part = waiting[start : start + size]
            labels[part] = _Block(plan, tests, agents[part]).run()
        waiting = waiting[labels[waiting] < 0]
        attempt += 1
        if waiting.size:
            _sharpen(plan, np.unique(-1 - labels[waiting]))
    return labels


def _sharpen(plan: Plan, guesses: Ints) -> None:
    """Noise misled the plan for agents that look like these clusters: double what it used there.

    Cells with 16 times an agent's pulls add little noise; they stay as they are.
    """
    reps = plan.reps
    more = np.zeros_like(reps.n)
    for x in guesses:
        used = np.unique(np.delete(plan.arms[x], x))
        enough = reps.n[:, used] > 16 * plan.pulls[x] * plan.noise[used]
        more[:, used] = np.where(enough, more[:, used], reps.n[:, used])
    reps.pull_where(more)


class _Block:
    """Agents that are tested side by side.

    Pulls are counted by what they are worth: with a quarter of the variance four times. In tables
    of n agents the U columns are the arms that some test uses.

    Attributes:
        fit: (n, R) log-likelihood of each cluster, up to a constant.
        total: (n,) pulls so far.
        since: (n,) pulls when the present guess was first made.
    """

    def __init__(self, plan: Plan, tests: ClusterTests, agents: Ints) -> None:
        self.plan, self.tests, self.agents = plan, tests, agents
        reps = plan.reps
        self.used = tests.used
        self.noise = plan.noise[self.used]
        self.estimate_by_arm = np.ascontiguousarray(tests.estimate[:, self.used].T)
        self.n_by_arm = np.ascontiguousarray(np.maximum(plan.worth[:, self.used], 1).T)
        n, r = agents.size, len(reps)
        self.cells = reps.empty(n, self.used.size)
        self.fit = np.zeros((n, r))
        self.total, self.since = np.zeros(n), np.zeros(n)
        self.ruled_out = np.zeros((n, r), dtype=bool)
        self.search = TUNING.search / np.sqrt(r)

    def run(self) -> Ints:
        """(n,) labels; where an agent lost patience, −1 minus its last guess."""
        plan, r = self.plan, len(self.plan.reps)
        rows = np.arange(self.agents.size)
        labels = np.full(rows.size, UNKNOWN)
        guess = plan.reps.federation.rng.integers(r, size=rows.size)
        rival = (guess + 1) % r
        part = np.full(rows.size, self.search)
        while rows.size:
            arm = self.tests.places[guess, rival]
            self._pull(rows, arm, np.ceil(plan.pulls[guess] * part))
            last, guess = guess, self.fit.argmax(axis=1)
            self.since = np.where(guess == last, self.since, self.total)
            done, answer, rival, part = self._judge(guess)
            limit = TUNING.patience * plan.pulls[guess]
            lost = (self.total - self.since > limit) | (self.total > TUNING.patience * limit)
            labels[rows] = np.where(done, answer, np.where(lost, -1 - guess, UNKNOWN))
            left = np.flatnonzero(~(done | lost))
            if left.size < rows.size:
                self._keep(left)
                rows, guess, rival, part = rows[left], guess[left], rival[left], part[left]
        return labels

    def _judge(self, guess: Ints) -> tuple[np.ndarray, Ints, Ints, Floats]:
        """(n,) each: all clusters but one are ruled out, that one, the rival that is hardest to
        rule out, and the next batch as a share of the plan."""
        index = np.arange(guess.size)
        evidence = self.tests.evidence(guess, self.cells.n / self.noise, self.cells.mean)
        self.ruled_out |= self.tests.rejects(guess, evidence, self.cells, index)
        done, answer = remaining(self.ruled_out, guess)
        left_open = np.where(self.ruled_out, np.inf, evidence)
        left_open[index, guess] = np.inf
        rival = left_open.argmin(axis=1)
        lack = self.plan.beta - left_open[index, rival]
        lack /= self.plan.beta + self.tests.price[guess, rival]
        # A wrong guess leads by this much with probability e^-lead: the stake grows with the lead.
        best = self.fit[index, guess].copy()
        self.fit[index, guess] = -np.inf
        lead = np.minimum(best - self.fit.max(axis=1), 20)
        self.fit[index, guess] = best
        stake = np.minimum(self.search * np.exp(lead / 2), TUNING.confirm_most)
        return done, answer, rival, np.clip(0.9 * lack, TUNING.confirm_least, stake)

    def _pull(self, rows: Ints, arm: Ints, times: Floats) -> None:
        """Agents `rows` pull one arm each; `fit` changes by how well its average agrees."""
        index, noise = np.arange(rows.size), self.noise[arm]
        cells = self.cells
        before = self._misfit(arm)
        pulls = np.ceil(times * noise).astype(np.int64)
        source = Ordered(self.plan.reps.federation, self.agents[rows])
        cells.pull(source, index, arm, pulls, self.used[arm])
        self.total += pulls / noise
        self.fit += before - self._misfit(arm)

    def _misfit(self, arm: Ints) -> Floats:
        """(n, R) half the squared distance of each agent's average of an arm from each
        representative's, in units of noise."""
        index = np.arange(arm.size)
        n = (self.cells.n[index, arm] / self.noise[arm])[:, None]
        n_rep = self.n_by_arm[arm]
        distance = self.estimate_by_arm[arm] - self.cells.mean[index, arm][:, None]
        return n_rep * (0.5 * n) / (n_rep + n) * distance**2

    def _keep(self, left: Ints) -> None:
        """Forget all agents but these."""
        self.cells.keep(left)
        self.fit, self.ruled_out = self.fit[left], self.ruled_out[left]
        self.total, self.since = self.total[left], self.since[left]
