"""Classification: a sequential test between bandits known from their representatives, all agents in lock-step."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.structured.budget import nats
from clustered_bandit_gym.policies.structured.plan import Plan
from clustered_bandit_gym.policies.structured.representatives import Representatives

#: Batches, as parts of the pulls planned: while guesses compete, and the least and the most once one leads by 3 nats.
SEARCH, CONFIRM_LEAST, CONFIRM_MOST, LEAD = 1 / 48, 1 / 24, 1 / 2, 3.0
#: Batches of a long search: this part of the pulls it has taken.
LONG_SEARCH = 1 / 16
#: An agent that has taken this many times the pulls planned starts afresh, with sharper representatives.
PATIENCE = 16
#: Agents are handled in blocks of about this many (agent, cluster, arm) cells.
CELLS = 2**22
UNKNOWN = np.iinfo(np.int64).max


def classify(reps: Representatives, best: Ints, eta: float | None, agents: Ints) -> Ints:
    """(n,) the cluster of each agent: a row of the representatives, one of which is of the agent's own cluster.

    Against "agent i is of cluster j", for an alternative x and a set A of arms, the evidence is the smallest value over
    the unknown means μ of

        Σ_{k in A}  ½ñ_jk(R_jk − μ_k)² − ½ln(1 + n_jk/ρ)  +  ½n_ik[(m_ik − μ_k)² − (m_ik − R_xk)²] :

    the representative's mixture at μ (n_jk pulls of average R_jk) times the agent's Wald ratio of the estimates of x to
    μ (n_ik pulls of average m_ik). The weights of x, A and ρ, which are chosen after the representatives' rewards were
    seen, are subtracted; they sum to at most one for every j. An agent is done when all but one cluster are ruled out.
    """
    r, k = reps.n.shape
    if r == 1:
        return np.zeros(agents.size, dtype=np.int64)
    labels = np.full(agents.size, -1)
    waiting = np.arange(agents.size)
    attempt = 1
    while waiting.size:
        beta = nats(reps.budgets.classify(reps.dropped + 1, attempt))
        plan = Plan(reps, best, eta, beta)
        plan.prepare()
        size = max(1, CELLS // (3 * r + k))
        for start in range(0, waiting.size, size):
            part = waiting[start : start + size]
            labels[part] = _Block(plan, agents[part]).run()
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

    def __init__(self, plan: Plan, agents: Ints) -> None:
        self.plan, self.agents = plan, agents
        self.fed = plan.reps.federation
        self.used = np.unique(plan.arms[plan.arms >= 0])
        place = np.full(plan.allocation.shape[1] + 1, -1)
        place[self.used] = np.arange(self.used.size)
        slots = int((plan.arms >= 0).sum(axis=2).max())
        self.arms = place[plan.arms[:, :, :slots]]
        r = len(plan.reps)
        self.arms[np.arange(r), np.arange(r)] = self.arms[np.arange(r), (np.arange(r) + 1) % r]
        # Slot first, so that a slot is one block of memory: rows are taken from these tables in every step.
        self.worth, self.reference, self.slot_arms = (
            np.ascontiguousarray(np.moveaxis(table[:, :, :slots], 2, 0))
            for table in (plan.worth, plan.reference, self.arms)
        )
        self.weight = plan.allocation[:, self.used]
        self.single = slots == 1 and bool((self.arms == self.arms[:, :1]).all())
        off_diagonal = plan.assumed[~np.eye(r, dtype=bool)]
        self.any_assumed, self.all_assumed = bool(off_diagonal.any()), bool(off_diagonal.all())
        self.estimate = plan.estimate[:, self.used]
        self.by_arm = np.ascontiguousarray(self.estimate.T)
        self.n_by_arm = np.ascontiguousarray(np.maximum(plan.reps.n[:, self.used], 1).T)

    def run(self) -> Ints:
        """(n,) labels; where an agent lost patience, −1 minus its last guess."""
        plan, fed = self.plan, self.fed
        r = len(plan.reps)
        rows = np.arange(self.agents.size)
        n = np.zeros((rows.size, self.used.size))
        mean = np.zeros_like(n)
        total = np.zeros(rows.size)
        fit = np.zeros((rows.size, r))
        ruled_out = np.zeros((rows.size, r), dtype=bool)
        labels = np.full(rows.size, UNKNOWN)
        guess = fed.rng.integers(r, size=rows.size)
        rival = (guess + 1) % r
        times = np.ceil(plan.pulls[guess] * SEARCH).astype(np.int64)
        while rows.size:
            index = np.arange(rows.size)
            arm = self._next_arm(guess, rival, n, total)
            drawn = fed.pull(self.agents[rows], self.used[arm], times) / fed.problem.sigma
            before, m_before = n[index, arm], mean[index, arm]
            after = before + times
            m_after = m_before + (drawn - m_before) * (times / after)
            n[index, arm], mean[index, arm] = after, m_after
            total += times
            estimate, n_rep = self.by_arm.take(arm, axis=0), self.n_by_arm.take(arm, axis=0)
            fit += _misfit(before, m_before, n_rep, estimate) - _misfit(after, m_after, n_rep, estimate)
            guess = fit.argmax(axis=1)
            best = fit[index, guess]
            fit[index, guess] = -np.inf
            rival = fit.argmax(axis=1)
            lead = best - fit[index, rival]
            fit[index, guess] = best
            part = np.maximum(SEARCH, total / plan.pulls[guess] * LONG_SEARCH)
            # One in e^lead wrong guesses gets that far ahead: the more it leads, the more may be staked on it.
            stake = np.minimum(part * np.exp(np.minimum(lead, 20) / 2), CONFIRM_MOST)
            keep = total <= PATIENCE * plan.pulls[guess]
            ahead = np.flatnonzero(lead >= LEAD)
            if ahead.size:
                g = guess[ahead]
                evidence = self._evidence(g, n.take(ahead, axis=0), mean.take(ahead, axis=0))
                out = ruled_out.take(ahead, axis=0) | (evidence >= plan.beta)
                ruled_out[ahead] = out
                left_open = np.where(out, np.inf, evidence)
                left_open[index[: g.size], g] = np.inf
                hardest = left_open.argmin(axis=1)
                least = left_open[index[: g.size], hardest]
                done, answer = np.isinf(least), g
                lost_guess = out[index[: g.size], g]
                if lost_guess.any():
                    # Ruled out before, when another cluster was the guess: the last one open is the answer.
                    last = lost_guess & ((~out).sum(axis=1) == 1)
                    done, answer = done | last, np.where(last, hardest, g)
                labels[rows[ahead[done]]] = answer[done]
                keep[ahead[done]] = False
                rival[ahead] = hardest
                lack = (plan.beta - least) / (plan.beta + plan.price[g, hardest])
                part[ahead] = np.minimum(np.maximum(0.9 * lack, CONFIRM_LEAST), stake[ahead])
            times = np.ceil(plan.pulls[guess] * part).astype(np.int64)
            if not keep.all():
                lost = ~keep & (labels[rows] == UNKNOWN)
                labels[rows[lost]] = -1 - guess[lost]
                left = np.flatnonzero(keep)
                n, mean, fit, ruled_out = (table.take(left, axis=0) for table in (n, mean, fit, ruled_out))
                rows, total, guess, rival, times = rows[left], total[left], guess[left], rival[left], times[left]
        return labels

    def _next_arm(self, guess: Ints, rival: Ints, n: Floats, total: Floats) -> Ints:
        """(rows,) of the arms of the test in hand the one that is furthest behind its share."""
        options = self.arms[guess, rival]
        if options.shape[1] == 1:
            return options[:, 0]
        index = np.arange(guess.size)
        lag = self.weight[guess[:, None], options] * total[:, None] - n[index[:, None], options]
        return options[index, np.where(options >= 0, lag, -np.inf).argmax(axis=1)]

    def _evidence(self, guess: Ints, n: Floats, mean: Floats) -> Floats:
        """(rows, R) evidence against each cluster with the guess as alternative; −inf at the guess itself."""
        plan = self.plan
        index = np.arange(guess.size)[:, None]
        column = guess[:, None]
        evidence = -plan.price.take(guess, axis=0)
        for slot, table in enumerate(self.slot_arms):
            # One arm against all rivals is the common case, and then a column of numbers does.
            arm = table[guess, :1] if self.single else table.take(guess, axis=0)
            safe = np.maximum(arm, 0)
            n_i, m_i = n[index, safe], mean[index, safe]
            worth, reference = self.worth[slot].take(guess, axis=0), self.reference[slot].take(guess, axis=0)
            alternative = self.estimate[column, safe]
            term = n_i * worth / (n_i + worth) * (m_i - reference) ** 2
            term -= n_i * (m_i - alternative) ** 2
            term *= 0.5
            if slot == 0 and self.any_assumed:
                one_sided = _one_sided(n_i, m_i, worth, reference, alternative, term)
                term = one_sided if self.all_assumed else np.where(plan.assumed.take(guess, axis=0), one_sided, term)
            evidence += term if self.single else np.where(arm >= 0, term, 0)
        evidence[index[:, 0], guess] = -np.inf
        return evidence


def _one_sided(
    n: Floats, mean: Floats, worth: Floats, reference: Floats, alternative: Floats, inside: Floats
) -> Floats:
    """Smallest value over μ of ½ñ(R − μ)² + n-term, where the n-term counts for μ below the alternative only.

    "The mean is at most μ" is tested against the alternative by a Wald ratio only if μ is below it; for larger μ there
    is no evidence but the representative's own. `inside` is the smallest value if μ is free.
    """
    centre = (worth * reference + n * mean) / (worth + n)
    edge = 0.5 * worth * (alternative - reference) ** 2
    value = np.where(centre < alternative, inside, edge)
    return np.where(reference < alternative, value, 0.0)


def _misfit(n: Floats, mean: Floats, n_rep: Floats, estimate: Floats) -> Floats:
    """(rows, R) half the squared distance of an agent's average from each representative's, in units of noise."""
    n = n[:, None]
    out = n_rep * (0.5 * n)
    out /= n_rep + n
    out *= np.square(estimate - mean[:, None])
    return out
