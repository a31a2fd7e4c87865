"""The agents that represent the clusters found so far, and all that was pulled at them since they
were chosen.
"""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.federation import FederationView
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.sequential.cells import Cells, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales
from clustered_bandit_gym.policies.structured.budget import Budgets, nats

#: Difference, in units of σ, that the grid of ρ is tuned to where η is not told. It decides which ρ
#: has weight ½; the others cover all differences, so a poor choice costs a nat or two.
TUNED_GAP = 0.5


class Ordered:
    """Agents that pull on the centre's orders. Rows are positions in `agents`."""

    def __init__(self, federation: FederationView, agents: Ints) -> None:
        self.federation, self.agents = federation, agents

    def pull(self, rows: Ints, arms: Ints, times: Ints | int) -> Floats:
        return self.federation.pull(self.agents[rows], arms, times)

    def pull_counts(self, rows: Ints, arms: Ints, times: Ints | int) -> Ints:
        return self.federation.pull_counts(self.agents[rows], arms, times)


class Teams:
    """Agents of one cluster that share the pulls of a row evenly.

    Args:
        labels: (N,) the row of each agent; every row has at least one.
    """

    def __init__(self, federation: FederationView, labels: Ints) -> None:
        self.federation = federation
        self.order = np.argsort(labels, kind="stable")
        self.size = np.bincount(labels)
        self.start = np.cumsum(self.size) - self.size

    def _spread(self, rows: Ints, times: Ints | int) -> tuple[Ints, Ints, Ints]:
        """For orders of `times` pulls at `rows`: the order, agent and pulls of every part."""
        size = self.size[rows]
        order = np.repeat(np.arange(rows.size), size)
        place = np.arange(order.size) - np.repeat(np.cumsum(size) - size, size)
        whole = np.broadcast_to(times, rows.shape)[order]
        part = whole // size[order] + (place < whole % size[order])
        agents = self.order[self.start[rows][order] + place]
        some = part > 0
        return order[some], agents[some], part[some]

    def pull(self, rows: Ints, arms: Ints, times: Ints | int) -> Floats:
        order, agents, part = self._spread(rows, times)
        sums = self.federation.pull(agents, arms[order], part) * part
        return np.bincount(order, sums, rows.size) / times

    def pull_counts(self, rows: Ints, arms: Ints, times: Ints | int) -> Ints:
        order, agents, part = self._spread(rows, times)
        counts = self.federation.pull_counts(agents, arms[order], part)
        total = np.zeros((rows.size, counts.shape[1]), dtype=counts.dtype)
        np.add.at(total, order, counts)
        return total


class Record:
    """What the centre knows of some agents' arms, in units of σ: cells of the kind that the rewards
    allow.

    Attributes:
        agents: (R,) ids.
        cells: (R, K) pulls and what they show. ρ comes from a grid that is fixed before the data:
            half of its weight is tuned to 2 ln(1/α)/η² pulls, what a difference of η takes.
    """

    def __init__(self, federation: FederationView, budgets: Budgets, agents: Ints) -> None:
        self.federation, self.budgets, self.agents = federation, budgets, agents
        self.source: Teams | None = None
        alpha = budgets.beaten()
        eta = eta_in_sigmas(federation.problem)
        self.scales = Scales.around(
            2 * nats(alpha) / (TUNED_GAP if eta is None else eta) ** 2, alpha
        )
        self.cells = self._make((agents.size, federation.problem.n_arms))

    def empty(self, rows: int, arms: int) -> Cells:
        """(rows, arms) cells of the same kind without any pulls."""
        return self._make((rows, arms))

    def _make(self, memory: Floats | tuple[int, int]) -> Cells:
        problem = self.federation.problem
        return make_cells(
            problem, self.federation.reward_values, self.scales, memory, unit=problem.sigma
        )

    @property
    def n(self) -> Floats:
        """(R, K) pulls."""
        return self.cells.n

    def noise(self, arms: Ints, gap: Floats) -> Floats:
        """(R, k) variance of one pull of `arms` (k,), in units of σ², that a test for differences
        `gap` has to reckon with.

        Bets on small differences find the variance of the rewards; on large ones they gain less, as
        in Bernstein's inequality for rewards in an interval of 2σ. For plans only.
        """
        return np.minimum(self.cells.variance()[:, arms] + 2 / 3 * gap, 1)

    @property
    def mean(self) -> Floats:
        """(R, K) averages."""
        return self.cells.mean

    def pull(self, rows: Ints, arms: Ints, times: Ints) -> None:
        """Fresh pulls at (row, arm), each pair at most once: three arrays of one length."""
        self.cells.pull(self.source or Ordered(self.federation, self.agents), rows, arms, times)

    def pull_where(self, times: Floats, rows: Ints | None = None) -> None:
        """Fresh pulls wherever `times` (R, K) is positive, rounded up.

        With `rows`, the rows of `times` are these.
        """
        row, arms = np.nonzero(times > 0)
        if row.size:
            self.pull(
                row if rows is None else rows[row], arms, np.ceil(times[row, arms]).astype(np.int64)
            )

    def append(self, agents: Ints) -> None:
        """Add agents that have not been pulled yet."""
        memory = self.cells.memory
        self.agents = np.append(self.agents, agents)
        self.cells = self._make(
            np.concatenate([memory, np.zeros((agents.size, *memory.shape[1:]))])
        )

    def keep(self, rows: np.ndarray) -> None:
        """Forget all agents but those of `rows`, booleans (R,)."""
        self.agents = self.agents[rows]
        self.cells.keep(rows)


class Representatives(Record):
    """The record of R representatives, rows 0..R−1.

    Only pulls made *after* an agent was chosen count: it was chosen for what it had shown before.
    `live` and `distinct` are changed by `evidence.CandidateTests` only.

    Attributes:
        live: (R, K) arms that may still be the best.
        distinct: (R, R) pairs shown to be of different clusters.
        settled: (R,) the arm that answers for a row: shown good enough; −1 if there is none yet.
        source: who makes the pulls; None for the representatives themselves.
        number: (R,) 1 for the first candidate ever chosen, 2 for the next, ...
        dropped: candidates dropped so far.
    """

    def __init__(self, federation: FederationView, budgets: Budgets) -> None:
        super().__init__(federation, budgets, np.zeros(0, dtype=np.int64))
        self.number: Ints = np.zeros(0, dtype=np.int64)
        self.live = np.zeros(self.n.shape, dtype=bool)
        self.distinct = np.zeros((0, 0), dtype=bool)
        self.settled: Ints = np.zeros(0, dtype=np.int64)
        self.dropped = 0

    def __len__(self) -> int:
        return int(self.agents.size)

    def add(self, agent: int) -> None:
        r, k = self.n.shape
        self.append(np.array([agent]))
        self.number = np.append(self.number, r + self.dropped + 1)
        self.live = np.vstack([self.live, np.ones(k, dtype=bool)])
        self.distinct = np.pad(self.distinct, (0, 1))
        self.settled = np.append(self.settled, -1)

    def drop(self, row: int) -> None:
        keep = np.arange(len(self)) != row
        self.keep(keep)
        self.number, self.live = self.number[keep], self.live[keep]
        self.distinct = self.distinct[keep][:, keep]
        self.settled = self.settled[keep]
        self.dropped += 1

    @property
    def resolved(self) -> np.ndarray:
        """(R,) rows with one live arm."""
        return self.live.sum(axis=1) == 1

    @property
    def leader(self) -> Ints:
        """(R,) the live arm with the highest average."""
        return np.where(self.live, self.mean, -np.inf).argmax(axis=1)

    def twin(self) -> int | None:
        """A row left with one arm that is also the only arm of an earlier row: both are of one
        cluster.
        """
        resolved = np.flatnonzero(self.resolved)
        _, first = np.unique(self.leader[resolved], return_index=True)
        again = np.delete(resolved, first)
        return int(again[0]) if again.size else None


def epsilon_in_sigmas(problem: Problem) -> float:
    """ε in units of σ."""
    return problem.epsilon / problem.sigma if problem.epsilon else 0.0


def eta_in_sigmas(problem: Problem) -> float | None:
    """η in units of σ; None where it is not told, or infinite."""
    return (
        None if problem.eta is None or not np.isfinite(problem.eta) else problem.eta / problem.sigma
    )
