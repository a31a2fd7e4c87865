"""Classification: a sequential test between bandits known from their representatives, all agents in lock-step."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.structured.budget import nats
from clustered_bandit_gym.policies.structured.evidence import ClusterTests, remaining
from clustered_bandit_gym.policies.structured.plan import Plan
from clustered_bandit_gym.policies.structured.representatives import Ordered, Representatives

#: A guess that leads by this many nats is wrong about once in 20 times: from there on its tests are computed.
LEAD = 3.0
#: Batches, as parts of the pulls planned. While guesses compete a batch may go to a wrong arm, so it is small: with
#: twenty clusters about one nat of the 40 or so that a test needs, with fewer clusters more (SEARCH/√R). Afterwards the
#: last step wastes at most CONFIRM_LEAST, and no step stakes more than half of the plan on one guess.
SEARCH, CONFIRM_LEAST, CONFIRM_MOST = 0.093, 1 / 24, 1 / 2
#: Batches of a long search grow with the pulls it has taken, so that steps grow with their logarithm only. On flat
#: means 1/8 costs 5% more pulls, 1/32 costs 2% more communication.
LONG_SEARCH = 1 / 16
#: Batches grow with this power of N over the number of agents left, which saves steps. From 0.25 to 1 it changes pulls
#: by 1% at most.
FEWER = 0.5
#: An agent that has taken this many times the pulls planned starts again, with sharper representatives. An agent of the
#: guessed cluster does not get there by chance; the plan was wrong.
PATIENCE = 16
#: Agents are handled in blocks of about this many (agent, cluster, arm) cells: tables of 32 MB.
CELLS = 2**22
UNKNOWN = np.iinfo(np.int64).max


def classify(reps: Representatives, best: Ints, eta: float | None, agents: Ints) -> Ints:
    """(n,) the cluster of each agent: a row of the representatives, one of which is of the agent's own cluster.

    Every agent is tested against every cluster (`evidence.ClusterTests`) until all but one are ruled out. An agent
    that takes far more pulls than planned starts a new attempt, with sharper representatives and from zero pulls.
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
            # Noise misled the plan for the clusters that these agents look like: twice the pulls of what it used there.
            more = np.zeros_like(reps.n)
            for x in np.unique(-1 - labels[waiting]):
                used = np.unique(plan.arms[x][plan.arms[x] >= 0])
                more[:, used] = reps.n[:, used]
            reps.pull_where(more)
    return labels


class _Block:
    """Agents that are tested side by side."""

    def __init__(self, plan: Plan, tests: ClusterTests, agents: Ints) -> None:
        self.plan, self.tests, self.agents = plan, tests, agents
        self.fed = plan.reps.federation
        self.used = tests.used
        self.weight = plan.allocation[:, self.used]
        self.by_arm = np.ascontiguousarray(tests.estimate[:, self.used].T)
        #: (U,) variance of a pull, in units of σ². Pulls are counted by what they are worth.
        self.noise = plan.noise[self.used]
        self.n_by_arm = np.ascontiguousarray(np.maximum(plan.worth[:, self.used], 1).T)

    def run(self) -> Ints:
        """(n,) labels; where an agent lost patience, −1 minus its last guess."""
        plan, fed = self.plan, self.fed
        r = len(plan.reps)
        rows = np.arange(self.agents.size)
        cells = plan.reps.empty(rows.size, self.used.size)
        total = np.zeros(rows.size)
        fit = np.zeros((rows.size, r))
        ruled_out = np.zeros((rows.size, r), dtype=bool)
        labels = np.full(rows.size, UNKNOWN)
        guess = fed.rng.integers(r, size=rows.size)
        rival = (guess + 1) % r
        search = SEARCH / np.sqrt(r)
        times = np.ceil(plan.pulls[guess] * search)
        while rows.size:
            index = np.arange(rows.size)
            arm = self._next_arm(guess, rival, cells.n, total)
            noise, at = self.noise.take(arm), index * self.used.size + arm
            before, m_before = cells.n.take(at) / noise, cells.mean.take(at)
            pulls = np.ceil(times * noise).astype(np.int64)
            cells.pull(Ordered(fed, self.agents[rows]), index, arm, pulls, self.used.take(arm))
            after, m_after = cells.n.take(at) / noise, cells.mean.take(at)
            total += after - before
            estimate, n_rep = self.by_arm.take(arm, axis=0), self.n_by_arm.take(arm, axis=0)
            fit += _misfit(before, m_before, n_rep, estimate) - _misfit(
                after, m_after, n_rep, estimate
            )
            guess = fit.argmax(axis=1)
            best = fit[index, guess]
            fit[index, guess] = -np.inf
            rival = fit.argmax(axis=1)
            lead = best - fit[index, rival]
            fit[index, guess] = best
            # The fewer agents are left, the less larger batches waste, and the more a step costs for each of them.
            coarse = (self.agents.size / rows.size) ** FEWER
            part = np.maximum(search * coarse, total / plan.pulls[guess] * LONG_SEARCH)
            # A wrong guess leads by this much with probability e^-lead: the larger the lead, the larger the batch.
            stake = np.minimum(part * np.exp(np.minimum(lead, 20) / 2), CONFIRM_MOST)
            keep = total <= PATIENCE * plan.pulls[guess]
            ahead = np.flatnonzero(lead >= LEAD)
            if ahead.size:
                g = guess[ahead]
                n, mean = cells.n.take(ahead, axis=0) / self.noise, cells.mean.take(ahead, axis=0)
                evidence = self.tests.evidence(g, n, mean)
                out = ruled_out.take(ahead, axis=0) | self.tests.rejects(g, evidence, cells, ahead)
                ruled_out[ahead] = out
                done, answer = remaining(out, g)
                labels[rows[ahead[done]]] = answer[done]
                keep[ahead[done]] = False
                left_open = np.where(out, np.inf, evidence)
                left_open[index[: g.size], g] = np.inf
                hardest = left_open.argmin(axis=1)
                least = left_open[index[: g.size], hardest]
                rival[ahead] = hardest
                lack = (plan.beta - least) / (plan.beta + self.tests.price[g, hardest])
                part[ahead] = np.minimum(
                    np.maximum(0.9 * lack, CONFIRM_LEAST * coarse), stake[ahead]
                )
            times = np.ceil(plan.pulls[guess] * part)
            if not keep.all():
                lost = ~keep & (labels[rows] == UNKNOWN)
                labels[rows[lost]] = -1 - guess[lost]
                left = np.flatnonzero(keep)
                cells.keep(left)
                fit, ruled_out = fit.take(left, axis=0), ruled_out.take(left, axis=0)
                rows, total, guess, rival, times = (
                    rows[left],
                    total[left],
                    guess[left],
                    rival[left],
                    times[left],
                )
        return labels

    def _next_arm(self, guess: Ints, rival: Ints, n: Floats, total: Floats) -> Ints:
        """(rows,) of the arms of the test in hand the one that is furthest behind its share."""
        options = self.tests.places[guess, rival]
        if options.shape[1] == 1:
            return options[:, 0]
        index = np.arange(guess.size)
        lag = (
            self.weight[guess[:, None], options] * total[:, None]
            - n[index[:, None], options] / self.noise[options]
        )
        return options[index, np.where(options >= 0, lag, -np.inf).argmax(axis=1)]


def _misfit(n: Floats, mean: Floats, n_rep: Floats, estimate: Floats) -> Floats:
    """(rows, R) half the squared distance of an agent's average from each representative's, in units of noise."""
    n = n[:, None]
    out = n_rep * (0.5 * n)
    out /= n_rep + n
    out *= np.square(estimate - mean[:, None])
    return out
