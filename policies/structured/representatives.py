"""The agents that represent the clusters found so far, and all that was pulled at them since they were chosen."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.policies.sequential.running_means import add_pulls
from clustered_bandit_gym.policies.structured.budget import Budgets


class Representatives:
    """The record of R representatives, rows 0..R−1. Rewards are in units of σ.

    Only pulls made *after* an agent was chosen count: it was chosen for what it had shown before. `live` and `distinct`
    are changed by `evidence.CandidateTests` only.

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
        add_pulls(self.n, self.mean, (rows, arms), drawn, times)

    def pull_where(self, times: Floats) -> None:
        """Fresh pulls wherever `times` (R, K) is positive, rounded up."""
        rows, arms = np.nonzero(times > 0)
        if rows.size:
            self.pull(rows, arms, np.ceil(times[rows, arms]).astype(np.int64))

    @property
    def leader(self) -> Ints:
        """(R,) the live arm with the highest average."""
        return np.where(self.live, self.mean, -np.inf).argmax(axis=1)

    def at(self, arms: Ints) -> tuple[Floats, Floats]:
        """Average and pulls of arm arms[x] at each representative x: (R, 1) each."""
        rows = np.arange(len(self))
        return self.mean[rows, arms][:, None], self.n[rows, arms][:, None]

    def twin(self) -> int | None:
        """A row whose best arm, once all are resolved, is that of an earlier row: the two are of one cluster."""
        _, first = np.unique(self.leader, return_index=True)
        again = np.setdiff1d(np.arange(len(self)), first)
        return int(again[0]) if again.size else None
