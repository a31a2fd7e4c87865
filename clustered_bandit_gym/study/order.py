"""An order: pulls that the policy needs next, and what has been told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clustered_bandit_gym._types import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Order:
    """Pulls to make: for each row, `times` pulls of arm `arms` at agent `agents`.

    `agents`, `arms` and `times` show what is missing: rows that are complete are left out.

    Attributes:
        id: 1, 2, ...; an order keeps its number until all of its pulls are told.
        kind: "averages" or "counts": what the policy wants to know of the rewards.
        phase: the policy's phase.
        shape: of the policy's request, R cells in all.
        asked: (3, R) agents, arms and times as first asked for.
        done: (R,) pulls told.
        told: (R, S) how often each value occurred, or (R, 1) sums where values are not known.
        tells: number of tells taken.
    """

    id: int
    kind: str
    phase: str
    shape: tuple[int, ...]
    asked: Ints
    done: Ints
    told: Floats
    tells: int = 0

    @property
    def rows(self) -> Ints:
        """(r,) numbers of the rows that are not complete."""
        return np.flatnonzero(self.asked[2] > self.done)

    @property
    def agents(self) -> Ints:
        """(r,) agents of these rows."""
        agents: Ints = self.asked[0, self.rows]
        return agents

    @property
    def arms(self) -> Ints:
        """(r,) arms of these rows."""
        arms: Ints = self.asked[1, self.rows]
        return arms

    @property
    def times(self) -> Ints:
        """(r,) pulls missing in these rows."""
        missing: Ints = self.asked[2] - self.done
        return missing[missing > 0]

    @property
    def pulls(self) -> int:
        """Pulls missing in all."""
        return int(self.times.sum())

    @property
    def closed(self) -> bool:
        """Whether every pull has been told."""
        return not self.pulls

    @property
    def table(self) -> pd.DataFrame:
        """What is missing, one line per row: order, row, agent, arm, times."""
        import pandas as pd

        columns = {"row": self.rows, "agent": self.agents, "arm": self.arms, "times": self.times}
        table = pd.DataFrame(columns)
        table.insert(0, "order", self.id)
        return table

    def __len__(self) -> int:
        return int(self.rows.size)

    def sums(self, values: Floats | None) -> Floats:
        """(R,) sums of the rewards told; `values` (S,) are those that rewards can take."""
        return self.told[:, 0] if values is None else self.told @ values

    def add_to(self, pulls: Ints, sums: Floats, values: Floats | None) -> None:
        """Add what was told to tables (N, K) of pulls and of sums."""
        cells = (self.asked[0], self.asked[1])
        np.add.at(pulls, cells, self.done)
        np.add.at(sums, cells, self.sums(values))

    def matches(self, other: Order) -> bool:
        """Whether both ask for the same pulls in the same way."""
        same = (self.kind, self.shape) == (other.kind, other.shape)
        return same and np.array_equal(self.asked, other.asked)

    def answer(self, values: Floats | None) -> np.ndarray:
        """What the policy gets of a closed order, in an array of its own."""
        if self.kind == "counts":
            return self.told.astype(np.int64).reshape(*self.shape, -1)
        averages: Floats = self.sums(values) / self.asked[2]
        return averages.reshape(self.shape)
