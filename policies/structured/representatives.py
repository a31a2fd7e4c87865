"""The agents that stand for the clusters found so far, and all that was drawn from them since they were chosen."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.policies.sequential.boundaries import pair_evidence
from clustered_bandit_gym.policies.sequential.scales import Scales
from clustered_bandit_gym.policies.structured.budget import Budgets


class Representatives:
    """R representatives, rows 0..R−1. Rewards are in units of σ.

    Only pulls made *after* an agent was chosen count: it was chosen for what it had shown before.

    Attributes:
        agents: (R,) ids.
        n: (R, K) pulls.
        mean: (R, K) averages.
        live: (R, K) arms that may still be the best.
        distinct: (R, R) pairs shown to be of different clusters.
        number: (R,) 1 for the first candidate ever chosen, 2 for the next, ...
        dropped: candidates dropped so far.
    """

    def __init__(self, federation: Federation, budgets: Budgets) -> None:
        self.federation, self.budgets = federation, budgets
        k = federation.problem.n_arms
        self.agents: Ints = np.zeros(0, dtype=np.int64)
        self.number: Ints = np.zeros(0, dtype=np.int64)
        self.n: Floats = np.zeros((0, k))
        self.mean: Floats = np.zeros((0, k))
        self.live = np.zeros((0, k), dtype=bool)
        self.distinct = np.zeros((0, 0), dtype=bool)
        self.dropped = 0
        # One scale for all arms at once: the price of mixing is paid K times, so ρ must be of the order of n.
        self.wide = Scales(np.float64(16) * 8.0 ** np.arange(8.0), np.full(8, 1 / 8))

    def __len__(self) -> int:
        return int(self.agents.size)

    def add(self, agent: int) -> None:
        r, k = self.n.shape
        self.agents = np.append(self.agents, agent)
        self.number = np.append(self.number, r + self.dropped + 1)
        self.n = np.vstack([self.n, np.zeros(k)])
        self.mean = np.vstack([self.mean, np.zeros(k)])
        self.live = np.vstack([self.live, np.ones(k, dtype=bool)])
        grown = np.zeros((r + 1, r + 1), dtype=bool)
        grown[:r, :r] = self.distinct
        self.distinct = grown

    def drop(self, row: int) -> None:
        keep = np.arange(len(self)) != row
        self.agents, self.number = self.agents[keep], self.number[keep]
        self.n, self.mean, self.live = self.n[keep], self.mean[keep], self.live[keep]
        self.distinct = self.distinct[keep][:, keep]
        self.dropped += 1

    def pull(self, rows: Ints, arms: Ints, times: Ints) -> None:
        """Fresh pulls at (row, arm), each pair at most once: three arrays of one length."""
        drawn = self.federation.pull(self.agents[rows], arms, times) / self.federation.problem.sigma
        n = self.n[rows, arms]
        self.mean[rows, arms] += (drawn - self.mean[rows, arms]) * (times / (n + times))
        self.n[rows, arms] = n + times

    def pull_where(self, times: Floats) -> None:
        """Fresh pulls wherever `times` (R, K) is positive, rounded up."""
        rows, arms = np.nonzero(times > 0)
        if rows.size:
            self.pull(rows, arms, np.ceil(times[rows, arms]).astype(np.int64))

    @property
    def leader(self) -> Ints:
        """(R,) the live arm with the highest average."""
        return np.where(self.live, self.mean, -np.inf).argmax(axis=1)

    def twin(self) -> int | None:
        """A row whose best arm, once all are resolved, is that of an earlier row: the two are of one cluster."""
        _, first = np.unique(self.leader, return_index=True)
        again = np.setdiff1d(np.arange(len(self)), first)
        return int(again[0]) if again.size else None

    def certify(self) -> None:
        """Mark pairs as distinct that are shown to be: by their rewards, or because no arm can be the best of both."""
        live = self.live.astype(np.float32)
        self.distinct |= live @ live.T == 0
        np.fill_diagonal(self.distinct, False)
        a, b = np.nonzero(np.triu(~self.distinct, 1))
        if not a.size:
            return
        difference, n_a, n_b = self.mean[a] - self.mean[b], self.n[a], self.n[b]
        level = self.distinct_level(a, b)
        terms = difference**2 * (0.5 * n_a * n_b / np.maximum(n_a + n_b, 1))
        # The arm that tells most, and all arms together: the latter only where it could do if ρ were tuned to it.
        pick = (np.arange(a.size), terms.argmax(axis=1))
        evidence = self.wide.pair_evidence(difference[pick], n_a[pick], n_b[pick]) - np.log(terms.shape[1])
        mean = np.maximum(terms.mean(axis=1), 1)
        hope = terms.shape[1] * (mean - 1 - np.log(mean)) >= level
        if hope.any():
            evidence[hope] = np.maximum(evidence[hope], self._all_arms(difference[hope], n_a[hope], n_b[hope]))
        shown = evidence - np.log(2) >= level
        self.distinct[a[shown], b[shown]] = self.distinct[b[shown], a[shown]] = True

    def _all_arms(self, difference: Floats, n_a: Floats, n_b: Floats) -> Floats:
        """(pairs,) evidence from all arms with one ρ, at the best ρ of the grid."""
        values = [
            pair_evidence(difference, 0.0, n_a, n_b, rho).sum(axis=1) + np.log(weight)
            for rho, weight in zip(self.wide.rho, self.wide.weight, strict=True)
        ]
        return np.max(values, axis=0)

    def distinct_level(self, a: Ints, b: Ints) -> Floats:
        """(pairs,) the evidence that shows rows a and b distinct."""
        weight = np.array([self.budgets.number_weight(number) for number in self.number.tolist()])
        return -np.log(self.budgets.distinct_share() * weight[a] * weight[b])
