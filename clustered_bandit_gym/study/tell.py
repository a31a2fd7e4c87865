"""Rewards as users tell them: checked, and added up row by row."""

from __future__ import annotations

import hashlib
import reprlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import UserError


@dataclass(frozen=True, eq=False)
class Told:
    """One tell.

    Attributes:
        rows: (R,) rows of the order, each at most once.
        pulls: (R,) pulls told.
        table: (R, S) how often each value occurred, or (R, 1) sums where values are not known.
    """

    rows: Ints
    pulls: Ints
    table: Floats

    def digest(self, revision: int) -> str:
        """A hash of the tell; `revision` sets equal tells at different times apart."""
        arrays = (self.rows, self.pulls, self.table)
        return hashlib.sha256(b"".join([b"%d" % revision, *map(bytes, arrays)])).hexdigest()


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads tells of a study.

    Args:
        support: interval that holds every reward; None if not told.
        values: (S,) the values that rewards can take; None if not told.
    """

    support: tuple[float, float] | None
    values: Floats | None

    def rewards(self, rows: Ints, rewards: Any) -> Told:
        """A tell of single rewards: one array per row."""
        arrays = [np.ravel(_numbers(one)) for one in rewards]
        if len(arrays) != rows.size:
            raise UserError(
                f"expected one array of rewards for each of {rows.size} rows, got {len(arrays)}"
            )
        pulls = np.array([one.size for one in arrays])
        self._check("reward", np.concatenate(arrays), np.repeat(rows, pulls), self.values)
        if self.values is None:
            table = [[one.sum()] for one in arrays]
        else:
            table = [(one[:, None] == self.values).sum(axis=0) for one in arrays]
        return Told(rows, pulls, np.array(table, dtype=np.float64))

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
                f"{self.values.tolist()} occurred; got {reprlib.repr(given.tolist())}"
            )
        return Told(rows, whole.sum(axis=1).astype(np.int64), whole)

    def sums(self, rows: Ints, sums: Any, pulls: Any) -> Told:
        """A tell of sums (R,) of `pulls` (R,) rewards each."""
        totals, n = _numbers(sums), np.asarray(pulls)
        if totals.shape != rows.shape or n.shape != rows.shape:
            raise UserError(f"expected one sum for each of {rows.size} rows, got {totals.shape}")
        if n.dtype.kind not in "iu" or (n < 1).any():
            raise UserError(f"pulls must be whole numbers >= 1, got {reprlib.repr(pulls)}")
        self._check("average", totals / n, rows)
        if self.values is None:
            return Told(rows, n, totals[:, None])
        if self.values.size != 2:
            raise UserError("with more than two values a sum is not enough: tell rewards or counts")
        low, high = self.values
        upper = (totals - n * low) / (high - low)
        return self.counts(rows, np.stack([n - upper, upper], axis=1))

    def _check(self, what: str, numbers: Floats, rows: Ints, among: Floats | None = None) -> None:
        """Refuse numbers outside of the support, up to rounding, or not `among` these values.

        `rows` says to which row each number belongs.
        """
        expected = f"finite numbers, the support is {self.support}"
        nearest = np.clip(numbers, *(self.support or (None, None)))
        possible = np.isfinite(numbers) & np.isclose(numbers, nearest, 1e-9, 1e-9)
        if among is not None:
            expected = " or ".join(f"{value:g}" for value in among)
            possible = np.isin(numbers, among)
        if not possible.all():
            place = int(possible.argmin())
            raise UserError(
                f"{what} {numbers[place]:g} in row {rows[place]} is impossible: rewards are "
                f"{expected}; nothing was recorded"
            )


def _numbers(values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(
            f"rewards must be numbers, got {reprlib.repr(_culprit(values))}; nothing was recorded"
        ) from None


def _culprit(values: Any) -> Any:
    """The first text among `values` that is no number; else `values`."""
    for value in values if isinstance(values, list) else []:
        try:
            float(value if isinstance(value, str) else 0)
        except ValueError:
            return value
    return values
