"""An order: pulls that the policy needs next, and what has been told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from clustered_bandit_gym._types import Array, Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.pulls import Kind

if TYPE_CHECKING:
    import pandas as pd

    from clustered_bandit_gym.game.federation import Federation


@dataclass(eq=False)
class Order:
    """Pulls to make: for each row, `times` pulls of arm `arms` at agent `agents`.

    Rows that are complete are left out of `rows`, `agents`, `arms` and `times`.

    Attributes:
        id: 1, 2, ...; an order keeps its number until all of its pulls are told.
        kind: "averages" or "counts": what the policy wants to know of the rewards.
        phase: the policy's phase.
        shape: of the policy's request, R cells in all.
        asked: (3, R) agents, arms and times as first asked for.
        done: (R,) pulls told.
        told: (R, S) how often each value occurred, or (R, 1) sums where values are not known.
        tells: number of tells taken.
        rows: (r,) numbers of the rows that are not complete.
        agents, arms: (r,) of these rows.
        times: (r,) pulls missing in these rows.
        pulls: pulls missing in all; 0 once the order is closed.
    """

    id: int
    kind: str
    phase: str
    shape: tuple[int, ...]
    asked: Ints
    done: Ints
    told: Floats
    tells: int = 0
    rows: Ints = field(init=False)
    agents: Ints = field(init=False)
    arms: Ints = field(init=False)
    times: Ints = field(init=False)
    pulls: int = field(init=False)

    def __post_init__(self) -> None:
        missing = self.asked[2] - self.done
        self.rows = np.flatnonzero(missing)
        self.agents, self.arms = self.asked[:2, self.rows]
        self.times = missing[self.rows]
        self.pulls = int(missing.sum())

    @property
    def table(self) -> pd.DataFrame:
        """What is missing, one line per row: order, row, agent, arm, times."""
        import pandas as pd

        columns = {"row": self.rows, "agent": self.agents, "arm": self.arms, "times": self.times}
        return pd.DataFrame({"order": self.id, **columns})

    def __len__(self) -> int:
        return self.rows.size

    def sums(self, values: Floats | None) -> Floats:
        """(R,) sums of the rewards told; `values` (S,) are those that rewards can take."""
        return self.told[:, 0] if values is None else self.told @ values

    def matches(self, other: Order | None) -> bool:
        """Whether both ask for the same pulls in the same way."""
        if other is None or (self.kind, self.shape) != (other.kind, other.shape):
            return False
        return np.array_equal(self.asked, other.asked)


class PullsNeeded(BaseException):
    """The log ends here. A `BaseException`: no policy's `except Exception` catches it."""


class Recorded:
    """A `Source` that answers from closed orders in turn and raises `PullsNeeded` after the last.

    Args:
        log: closed orders, in the order in which the policy asked for them.
        values: (S,) the values that rewards can take; None if not known.

    Attributes:
        play: the play that is answered; set it before the first request.
        answered: number of requests answered.
        next: the order that the log does not answer.
    """

    play: Federation

    def __init__(self, log: Sequence[Order], values: Floats | None) -> None:
        self._log = log
        self._values = values
        self.answered = 0
        self.next: Order | None = None

    def draw(self, agents: Ints, arms: Ints, times: Ints | int, kind: Kind) -> Array:
        known = self._known(kind, agents, arms, times)
        if kind == "counts":
            return known.told.astype(np.int64).reshape(*known.shape, -1)
        averages: Floats = known.sums(self._values) / known.asked[2]
        return averages.reshape(known.shape)

    def single(self, agent: int, arm: int) -> float:
        return float(self.draw(np.array(agent), np.array(arm), 1, "averages"))

    def _known(self, kind: str, agents: Ints, arms: Ints, times: Ints | int) -> Order:
        """The closed order that answers a request."""
        if self.next is not None:
            raise PullsNeeded
        cells = np.stack(np.broadcast_arrays(agents, arms, times)).astype(np.int64)
        shape, asked = cells.shape[1:], cells.reshape(3, -1)
        done = np.zeros_like(asked[0])
        told = np.zeros((done.size, 1 if self._values is None else self._values.size))
        phase = self.play.current_phase
        order = Order(self.answered + 1, kind, phase, shape, asked, done, told)
        if self.answered == len(self._log):
            self.next = order
            raise PullsNeeded
        known = self._log[self.answered]
        check_unchanged(known, order)
        self.answered += 1
        return known


def check_unchanged(stored: Order, asked: Order | None) -> None:
    """Refuse a file whose order is not what the policy asks for."""
    if not stored.matches(asked):
        raise UserError(
            f"order {stored.id} of the file is not what the policy asks for now: the policy's code "
            "or a library has changed; continue with those that began the study"
        )
