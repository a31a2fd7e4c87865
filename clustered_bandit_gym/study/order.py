"""An order: pulls that the policy needs next, and rewards as users tell them, checked and added up
row by row."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from clustered_bandit_gym._types import Array, Floats, Interval, Ints, Shape
from clustered_bandit_gym.errors import ImpossibleReward, UserError
from clustered_bandit_gym.game.pulls import Kind

if TYPE_CHECKING:
    from clustered_bandit_gym.game.federation import Federation


@dataclass(eq=False, repr=False)
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
    shape: Shape
    asked: Ints
    done: Ints
    told: Floats
    tells: int = 0

    def __post_init__(self) -> None:
        missing = self.asked[2] - self.done
        self.rows: Ints = np.flatnonzero(missing)
        self.agents: Ints = self.asked[0, self.rows]
        self.arms: Ints = self.asked[1, self.rows]
        self.times: Ints = missing[self.rows]
        self.pulls = int(missing.sum())

    @property
    def table(self) -> pd.DataFrame:
        """What is missing, one line per row: order, row, agent, arm, times."""
        cells = {"agent": self.agents, "arm": self.arms, "times": self.times}
        return pd.DataFrame({"order": self.id, "row": self.rows, **cells})

    def __len__(self) -> int:
        return self.rows.size

    def __repr__(self) -> str:
        return f"Order(id={self.id}, phase={self.phase!r}, rows={len(self)}, pulls={self.pulls})"


class Told(NamedTuple):
    """One tell.

    Attributes:
        rows: (R,) rows of the order, each at most once.
        pulls: (R,) pulls told.
        table: (R, S) how often each value occurred, or (R, 1) sums where values are not known.
    """

    rows: Ints
    pulls: Ints
    table: Floats


class Reader(NamedTuple):
    """Reads tells of a study.

    Args:
        support: interval that holds every reward; None if not told.
        values: (S,) the values that rewards can take; None if not told.
    """

    support: Interval | None
    values: Floats | None

    def rewards(self, rows: Ints, rewards: Any, missing: Ints) -> Told:
        """A tell of single rewards: one array per row, which waits for `missing` (R,) of them."""
        given = rewards if np.iterable(rewards) else [rewards]
        arrays = [np.ravel(_numbers(one)) for one in given]
        if len(arrays) != rows.size:
            raise UserError(
                f"expected one array of rewards for each of {rows.size} rows, got {len(arrays)}"
            )
        bare = np.array([np.ndim(one) == 0 for one in given]) & (missing > 1)
        if np.iterable(rewards) and bare.any():
            place = bare.argmax()
            raise UserError(
                f"row {rows[place]} waits for {missing[place]} rewards and got a number: tell an array "
                'of rewards, or what is in a sum (sums=; pull returns {"sums": ...}); nothing was '
                "recorded"
            )
        pulls = np.array([one.size for one in arrays])
        self._check("reward", np.concatenate(arrays), np.repeat(rows, pulls), self.values)
        if self.values is None:
            sums = np.array([one.sum() for one in arrays])
            if not np.isfinite(sums).all():
                raise UserError("the rewards are too large to be added up; nothing was recorded")
            table = sums[:, None]
        else:
            counts = [(one[:, None] == self.values).sum(axis=0) for one in arrays]
            table = np.array(counts, dtype=float)
        return Told(rows, pulls, table)

    def counts(self, rows: Ints, counts: Any) -> Told:
        """A tell of how often each value occurred: (R, S)."""
        if self.values is None:
            raise UserError("counts need a study that knows the values of rewards: values=(0, 1)")
        given = _numbers(counts)
        shape = (rows.size, self.values.size)
        whole = np.rint(given)
        possible = np.isclose(given, whole, 1e-9, 1e-9) & (whole >= 0) & (whole < 2**53)
        if given.shape != shape or not possible.all():
            raise UserError(
                f"expected whole numbers >= 0 of shape {shape}: for each row, how often each of "
                f"{self.values.tolist()} occurred; got {reprlib.repr(given.tolist())}; nothing was recorded"
            )
        return Told(rows, whole.sum(axis=1).astype(int), whole)

    def sums(self, rows: Ints, sums: Any, pulls: Any) -> Told:
        """A tell of sums (R,) of `pulls` (R,) rewards each."""
        totals = _numbers(sums)
        n = np.asarray(pulls)
        whole = n.dtype.kind in "iu" and (n >= 1).all()
        if not whole or not totals.shape == n.shape == rows.shape:
            raise UserError(
                f"expected one sum for each of {rows.size} rows, and pulls that are whole numbers "
                f">= 1; got {reprlib.repr(sums)} and {reprlib.repr(pulls)}"
            )
        self._check("sum / pulls =", totals / n, rows)
        if self.values is None:
            return Told(rows, n, totals[:, None])
        if self.values.size != 2:
            raise UserError("with more than two values a sum is not enough: tell rewards or counts")
        low, high = self.values
        upper = (totals - n * low) / (high - low)
        try:
            return self.counts(rows, np.stack([n - upper, upper], axis=1))
        except UserError:
            raise UserError(
                f"sums of rewards that are {low:g} or {high:g} cannot be {reprlib.repr(sums)}; "
                "nothing was recorded"
            ) from None

    def _check(self, what: str, numbers: Floats, rows: Ints, among: Floats | None = None) -> None:
        """Refuse numbers (of these rows) outside of the support, up to rounding, or not `among`
        these values."""
        low, high = self.support or (-np.inf, np.inf)
        expected = f"finite numbers from {low:g} to {high:g}"
        inside = np.isclose(numbers, np.clip(numbers, low, high), 1e-9, 1e-9)
        possible = np.isfinite(numbers) & inside
        if among is not None:
            expected = " or ".join(f"{value:g}" for value in among)
            possible = np.isin(numbers, among)
        if not possible.all():
            place = int(possible.argmin())
            raise ImpossibleReward(
                f"{what} {numbers[place]:g} in row {rows[place]} is impossible: rewards are "
                f"{expected}; nothing was recorded",
                place,
            )


def _numbers(values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise UserError(f"rewards must be numbers: {error}; nothing was recorded") from None


class PullsNeeded(BaseException):
    """The log ends here. A `BaseException`: no policy's `except Exception` catches it."""


class Recorded:
    """A `Source` that answers from closed orders in turn and raises `PullsNeeded` after the last.

    Args:
        log: closed orders, in the order in which the policy asked for them.
        weights: (S,) the sum of a row's rewards is that of the row of `told` with these weights.

    Attributes:
        play: the play that is answered; set it before the first request.
        answered: number of requests answered.
        next: the order that the log does not answer.
    """

    play: Federation

    def __init__(self, log: Sequence[Order], weights: Floats) -> None:
        self._log = log
        self._weights = weights
        self.answered = 0
        self.next: Order | None = None

    def draw(self, agents: Ints, arms: Ints, times: Ints | int, kind: Kind) -> Array:
        request = np.array(np.broadcast_arrays(agents, arms, times), dtype=int)
        asked = request.reshape(3, -1)
        shape = request.shape[1:]
        done = np.zeros_like(asked[0])
        told = np.zeros((done.size, self._weights.size))
        order = Order(self.answered + 1, kind, self.play.current_phase, shape, asked, done, told)
        if self.answered == len(self._log):
            if self.next is None:  # a policy may ask for more in a `finally`
                self.next = order
            raise PullsNeeded
        known = self._log[self.answered]
        check_same(known, order)
        self.answered += 1
        if kind == "counts":
            return known.told.astype(int).reshape(*known.shape, -1)
        return np.reshape(known.told @ self._weights / known.asked[2], known.shape)

    def single(self, agent: int, arm: int) -> float:
        return float(self.draw(np.array(agent), np.array(arm), 1, "averages"))


def check_same(stored: Order, other: Order | None) -> None:
    """Refuse an order that is not the one in the file."""
    if (
        other is None
        or (stored.kind, stored.shape) != (other.kind, other.shape)
        or not np.array_equal(stored.asked, other.asked)
    ):
        raise UserError(
            f"order {stored.id} of the file is another one: this order is not of this study, or the "
            "policy's code or a library has changed; continue with those that began the study"
        )
