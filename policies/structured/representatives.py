"""The agents that represent the clusters found so far, and what was pulled at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.view import FederationView
from clustered_bandit_gym.policies.sequential.cells import Cells, leaders, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales
from clustered_bandit_gym.policies.structured.budget import Budgets, nats


class Teams:
    """Pulls that are asked of an agent, shared evenly among all agents of its cluster.

    Args:
        labels: (N,) the cluster of each agent.
    """

    def __init__(self, federation: FederationView, labels: Ints) -> None:
        self.federation, self.labels = federation, labels

    def pull(self, agents: Ints, arms: Ints, times: Ints) -> Floats:
        order, members, part = self._spread(agents, times)
        averages = self.federation.pull(members, arms[order], part)
        return np.bincount(order, averages * part) / times

    def pull_counts(self, agents: Ints, arms: Ints, times: Ints) -> Ints:
        order, members, part = self._spread(agents, times)
        counts = self.federation.pull_counts(members, arms[order], part)
        total = np.zeros((agents.size, counts.shape[1]), dtype=counts.dtype)
        np.add.at(total, order, counts)
        return total

    def _spread(self, agents: Ints, times: Ints) -> tuple[Ints, Ints, Ints]:
        """For orders of `times` pulls at `agents`: the order, agent and pulls of every part."""
        teams = [np.flatnonzero(self.labels == label) for label in self.labels[agents]]
        sizes = np.array([team.size for team in teams])
        order = np.repeat(np.arange(agents.size), sizes)
        place = np.concatenate([np.arange(size) for size in sizes])
        # The first members of a team make the pulls that are left over.
        part = ((times + sizes - 1)[order] - place) // sizes[order]
        busy = part > 0
        return order[busy], np.concatenate(teams)[busy], part[busy]


class Record:
    """What the centre knows of some agents' arms, in units of σ.

    Attributes:
        agents: (R,) ids.
        source: who makes the pulls: the agents themselves (the federation), or their teams.
        eta: η; None where it is not told, or infinite.
        epsilon: ε.
        cells: (R, K) pulls and what they show. ρ comes from a grid that is fixed before the data:
            half of its weight is tuned to 2 ln(1/α)/η² pulls, what a difference of η takes.
    """

    def __init__(self, federation: FederationView, budgets: Budgets, agents: Ints) -> None:
        self.federation, self.budgets, self.agents = federation, budgets, agents
        self.source: Any = federation
        problem = federation.problem
        eta = np.inf if problem.eta is None else problem.eta
        self.eta: float | None = eta / problem.sigma if eta < np.inf else None
        self.epsilon = problem.epsilon / problem.sigma
        alpha = budgets.beaten()
        # Where η is not told: a poor choice costs a nat or two.
        self.scales = Scales.around(2 * nats(alpha) / (self.eta or 0.5) ** 2, alpha)
        self.cells = self.make((agents.size, problem.n_arms))

    def make(self, memory: Floats | tuple[int, int]) -> Cells:
        """Cells of the same kind, from memory or empty (rows, arms)."""
        problem, values = self.federation.problem, self.federation.reward_values
        return make_cells(problem, values, self.scales, memory, unit=problem.sigma)

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
        count = np.ceil(times).astype(np.int64)
        self.cells.pull(self.source, rows, arms, count, agents=self.agents[rows])

    def pull_where(self, times: Floats, rows: Ints | None = None) -> None:
        """Fresh pulls wherever `times` (R, K) is positive, rounded up.

        With `rows`, the rows of `times` are these.
        """
        row, arms = np.nonzero(times > 0)
        self.pull(row if rows is None else rows[row], arms, times[row, arms])

    def append(self, agents: Ints) -> None:
        """Add agents that have not been pulled yet."""
        memory = self.cells.memory
        new = np.zeros((agents.size, *memory.shape[1:]))
        self.agents = np.append(self.agents, agents)
        self.cells = self.make(np.concatenate([memory, new]))

    def keep(self, rows: np.ndarray) -> None:
        """Forget all agents but those of `rows`, booleans (R,)."""
        self.agents = self.agents[rows]
        self.cells.keep(rows)


class Representatives(Record):
    """The record of R representatives, rows 0..R−1.

    Only pulls made *after* an agent was chosen count: it was chosen for what it had shown before.
    `live`, `distinct` and `settled` are changed by `evidence.py` only.

    Attributes:
        live: (R, K) arms that may still be the best.
        distinct: (R, R) pairs shown to be of different clusters.
        settled: (R,) the arm that answers for a row: shown good enough; −1 if there is none yet.
        number: (R,) 1 for the first candidate ever chosen, 2 for the next, ...
        dropped: candidates dropped so far.
    """

    def __init__(self, federation: FederationView, budgets: Budgets) -> None:
        nobody = np.zeros(0, dtype=np.int64)
        super().__init__(federation, budgets, nobody)
        self.number: Ints = nobody
        self.settled: Ints = nobody
        self.live = np.zeros(self.n.shape, dtype=bool)
        self.distinct = np.zeros((0, 0), dtype=bool)
        self.dropped = 0

    def __len__(self) -> int:
        return int(self.agents.size)

    def add(self, agent: int) -> None:
        self.append(np.array([agent]))
        self.number = np.append(self.number, len(self) + self.dropped)
        self.settled = np.append(self.settled, -1)
        self.live = np.pad(self.live, ((0, 1), (0, 0)), constant_values=True)
        self.distinct = np.pad(self.distinct, (0, 1))

    def drop(self, row: int) -> None:
        keep = np.arange(len(self)) != row
        self.keep(keep)
        self.number, self.settled = self.number[keep], self.settled[keep]
        self.live, self.distinct = self.live[keep], self.distinct[np.ix_(keep, keep)]
        self.dropped += 1

    @property
    def resolved(self) -> np.ndarray:
        """(R,) rows with one live arm."""
        return self.live.sum(axis=1) == 1

    @property
    def leader(self) -> Ints:
        """(R,) the live arm with the highest average."""
        return leaders(self.mean, self.live)

    @property
    def all_distinct(self) -> bool:
        """Every pair is marked as distinct."""
        return bool(self.distinct.sum() == len(self) * (len(self) - 1))

    def twin(self) -> int | None:
        """A row whose one live arm is also that of an earlier row: both are of one cluster."""
        resolved = np.flatnonzero(self.resolved)
        _, first = np.unique(self.leader[resolved], return_index=True)
        again = np.delete(resolved, first)
        return int(again[0]) if again.size else None
