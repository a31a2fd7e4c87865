"""The agents that represent the clusters found so far, and what was pulled at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Array, Floats, Ints
from clustered_bandit_gym.game.federation import FederationView
from clustered_bandit_gym.policies.sequential.cells import Cells, leaders, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales
from clustered_bandit_gym.policies.structured.budget import Budgets, nats


class Teams:
    """Pulls that are asked of an agent, shared evenly among all agents of its cluster.

    Args:
        labels: (N,) the cluster of each agent.
    """

    def __init__(self, federation: FederationView, labels: Ints) -> None:
        self.federation = federation
        self.labels = labels

    def pull(self, agents: Ints, arms: Ints, times: Ints) -> Floats:
        order, members, part = self._spread(agents, times)
        averages = self.federation.pull(members, arms[order], part)
        return np.bincount(order, averages * part) / times

    def pull_counts(self, agents: Ints, arms: Ints, times: Ints) -> Ints:
        order, members, part = self._spread(agents, times)
        counts = self.federation.pull_counts(members, arms[order], part)
        return np.add.reduceat(counts, np.flatnonzero(np.diff(order, prepend=-1)))

    def _spread(self, agents: Ints, times: Ints) -> tuple[Ints, Ints, Ints]:
        """For orders of `times` pulls at `agents`: the order, agent and pulls of every part."""
        order, members = np.nonzero(self.labels[agents][:, None] == self.labels)
        size = np.bincount(order)[order]
        place = np.arange(order.size) - np.searchsorted(order, order)
        # The first members of a team make the pulls that are left over.
        part = (times[order] + size - 1 - place) // size
        busy = part > 0
        return order[busy], members[busy], part[busy]


class Record:
    """What the centre knows of some agents' arms, in units of σ.

    Attributes:
        agents: (R,) ids.
        source: who makes the pulls: the agents themselves (the federation), or their teams.
        eta: η; None where it is not told, or infinite.
        epsilon: ε.
        live: (R, K) arms that may still be the best.
        settled: (R,) the arm that answers for a row: shown good enough; −1 if there is none yet.
        to_beat: (R,) nats that show an arm beaten, or settle a row.
        cells: (R, K) pulls and what they show. ρ comes from a grid that is fixed before the data:
            half of its weight is tuned to 2 ln(1/α)/η² pulls, what a difference of η takes.
    """

    def __init__(self, federation: FederationView, budgets: Budgets, agents: Ints) -> None:
        self.federation = federation
        self.budgets = budgets
        self.agents = agents
        self.source: Any = federation
        problem = federation.problem
        self.eta: float | None = None
        if problem.eta is not None and problem.eta < np.inf:
            self.eta = problem.eta / problem.sigma
        self.epsilon = problem.epsilon / problem.sigma
        alpha = budgets.beaten()
        # Where η is not told: a poor choice costs a nat or two.
        self.scales = Scales(2 * nats(alpha) / (self.eta or 0.5) ** 2, alpha)
        self.cells = self._make(np.zeros((agents.size, problem.n_arms, 1)))
        self.live = np.ones(self.n.shape, dtype=bool)
        self.settled: Ints = np.full(agents.size, -1)
        self.to_beat = np.full(agents.size, nats(budgets.accept()))

    def _make(self, memory: Floats) -> Cells:
        federation = self.federation
        problem = federation.problem
        return make_cells(problem, federation.reward_values, self.scales, memory, problem.sigma)

    @property
    def rows(self) -> Ints:
        """(R,) 0..R−1."""
        return np.arange(len(self.agents))

    @property
    def n(self) -> Floats:
        """(R, K) pulls."""
        return self.cells.n

    @property
    def mean(self) -> Floats:
        """(R, K) averages."""
        return self.cells.mean

    def pull(self, rows: Ints, arms: Ints, times: Floats) -> None:
        """Fresh pulls at (row, arm), each pair at most once, rounded up: arrays of one length."""
        count = np.ceil(times).astype(int)
        self.cells.pull(self.source, rows, arms, count, agents=self.agents[rows])

    def pull_where(self, times: Floats, rows: Ints | None = None) -> None:
        """Fresh pulls wherever `times` (R, K) is positive, rounded up.

        With `rows`, the rows of `times` are these.
        """
        row, arms = np.nonzero(times > 0)
        self.pull(row if rows is None else rows[row], arms, times[row, arms])


class Representatives(Record):
    """The record of R representatives, rows 0..R−1.

    Only pulls made *after* an agent was chosen count: it was chosen for what it had shown before.
    `live`, `distinct` and `settled` are changed by `evidence.py` only.

    Args:
        share: the part of δ that the tests may use.

    Attributes:
        distinct: (R, R) pairs shown to be of different clusters.
        to_be_close: (R,) nats that show an arm close.
        number: (R,) 1 for the first candidate ever chosen, 2 for the next, ...
        dropped: candidates dropped so far.
        alike: two settled rows were not told apart for so long that they are taken to be of one
            cluster.
    """

    def __init__(self, federation: FederationView, share: float = 1.0) -> None:
        nobody = np.zeros(0, dtype=int)
        super().__init__(federation, Budgets(federation.problem, share), nobody)
        self._set_number(nobody)
        self.distinct = np.zeros((0, 0), dtype=bool)
        self.dropped = 0
        self.alike = False

    def __len__(self) -> int:
        return len(self.agents)

    def _set_number(self, number: Ints) -> None:
        self.number = number
        self.to_beat = nats(self.budgets.beaten(number))
        self.to_be_close = nats(self.budgets.close(number))

    def add(self, agent: int) -> None:
        """A new candidate, without pulls; it is the last row."""
        self.agents = np.append(self.agents, agent)
        self.cells = self._make(np.pad(self.cells.memory, ((0, 1), (0, 0), (0, 0))))
        self.live = np.pad(self.live, ((0, 1), (0, 0)), constant_values=True)
        self.settled = np.append(self.settled, -1)
        self.distinct = np.pad(self.distinct, (0, 1))
        self._set_number(np.append(self.number, len(self) + self.dropped))

    def drop(self, row: int) -> None:
        """Forget a candidate that is not needed."""
        keep = self.rows != row
        self.agents = self.agents[keep]
        self.live = self.live[keep]
        self.settled = self.settled[keep]
        self.cells = self._make(self.cells.memory[keep])
        self.distinct = self.distinct[np.ix_(keep, keep)]
        self.dropped += 1
        self._set_number(self.number[keep])

    @property
    def resolved(self) -> Array:
        """(R,) rows with one live arm."""
        return self.live.sum(axis=1) == 1

    @property
    def leader(self) -> Ints:
        """(R,) the live arm with the highest average."""
        return leaders(self.mean, self.live)

    @property
    def all_distinct(self) -> bool:
        """Every pair is marked as distinct."""
        return bool((~self.distinct).sum() == len(self))  # a row is not distinct from itself

    def differences(self, n: Floats, a: Ints, b: Ints) -> Floats:
        """(..., K) differences of averages of rows a and b, where pulls are worth n (R, K); for plans.

        A standard deviation is taken off: of many noisy differences the largest is exaggerated.
        """
        return np.abs(self.mean[a] - self.mean[b]) - np.sqrt(1 / n[a] + 1 / n[b])

    @property
    def twins(self) -> Ints:
        """Rows whose one live arm is also that of an earlier row: both are of one cluster."""
        only = self.live & self.resolved[:, None]
        return np.flatnonzero((only & (only.cumsum(axis=0) > 1)).any(axis=1))
