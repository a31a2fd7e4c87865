"""A source of rewards that answers from a log and stops the policy where the log ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.study.order import Order


class PullsNeeded(BaseException):
    """The log ends here. A `BaseException`: no policy's `except Exception` catches it."""


class Recorded:
    """A `Source` that answers from closed orders in turn and raises `PullsNeeded` after the last.

    Args:
        log: closed orders, in the order in which the policy asked for them.
        values: (S,) the values that rewards can take; None if not known.
    """

    def __init__(self, log: Sequence[Order], values: Floats | None) -> None:
        self._log, self._values = log, values
        #: Requests answered.
        self.answered = 0
        #: The order that the log does not answer.
        self.next: Order | None = None
        #: The phase of the play; set once there is a play.
        self.phase: Callable[[], str] = lambda: ""

    def averages(self, agents: Ints, arms: Ints, times: Ints | int) -> Floats:
        return self._answer("averages", agents, arms, times)

    def counts(self, agents: Ints, arms: Ints, times: Ints | int) -> Ints:
        return self._answer("counts", agents, arms, times)

    def single(self, agent: int, arm: int) -> float:
        return float(self.averages(np.array([agent]), np.array([arm]), 1)[0])

    def _answer(self, kind: str, agents: Ints, arms: Ints, times: Ints | int) -> np.ndarray:
        if self.next is not None:
            raise PullsNeeded
        cells = np.stack(np.broadcast_arrays(agents, arms, times))
        asked = cells.reshape(3, -1).astype(np.int64)
        none = np.zeros_like(asked[0])
        told = np.zeros((none.size, 1 if self._values is None else self._values.size))
        order = Order(self.answered + 1, kind, self.phase(), cells.shape[1:], asked, none, told)
        if self.answered == len(self._log):
            self.next = order
            raise PullsNeeded
        known = self._log[self.answered]
        if not known.matches(order):
            raise changed(known)
        self.answered += 1
        return known.answer(self._values)


def changed(order: Order) -> UserError:
    """The error for a file whose `order` the policy would not give now."""
    return UserError(
        f"order {order.id} of the file is not what the policy asks for now: the policy's code or a "
        "library has changed; continue with those that began the study"
    )
