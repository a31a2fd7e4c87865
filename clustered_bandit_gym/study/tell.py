"""Rewards as users tell them: checked, and added up row by row."""

from __future__ import annotations

import hashlib
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
        digest = hashlib.sha256(str(revision).encode())
        for array in (self.rows, self.pulls, self.table):
            digest.update(array.tobytes())
        return digest.hexdigest()


class Reader:
    """Reads tells of a study.

    Args:
        support: interval that holds every reward; None if not told.
        values: (S,) the values that rewards can take; None if not told.
    """

    def __init__(self, support: tuple[float, float] | None, values: Floats | None) -> None:
        self.low, self.high = support or (-np.inf, np.inf)
        self.values = values

    def rewards(self, rows: Ints, rewards: Any) -> Told:
        """A tell of single rewards: one array per row."""
        arrays = [_numbers(one, "rewards") for one in rewards]
        if len(arrays) != rows.size or any(one.ndim > 1 for one in arrays):
            raise UserError(
                f"expected one array of rewards for each of {rows.size} rows, got {len(arrays)}"
            )
        pulls = np.array([one.size for one in arrays], dtype=np.int64)
        owner = np.repeat(np.arange(rows.size), pulls)
        flat = np.concatenate([np.zeros(0), *(one.ravel() for one in arrays)])
        _refuse("reward", flat, rows[owner], ~np.isfinite(flat), "is not a finite number")
        outside = (flat < self.low) | (flat > self.high)
        support = (self.low, self.high)
        _refuse("reward", flat, rows[owner], outside, f"lies outside of the support {support}")
        if self.values is None:
            table = np.zeros((rows.size, 1))
            np.add.at(table[:, 0], owner, flat)
            return Told(rows, pulls, table)
        unknown = ~np.isin(flat, self.values)
        known = self.values.tolist()
        _refuse("reward", flat, rows[owner], unknown, f"is none of the values {known}")
        table = np.zeros((rows.size, self.values.size))
        np.add.at(table, (owner, np.searchsorted(self.values, flat)), 1)
        return Told(rows, pulls, table)

    def counts(self, rows: Ints, counts: Any) -> Told:
        """A tell of how often each value occurred: (R, S)."""
        if self.values is None:
            raise UserError("counts need a study that knows the values of rewards: values=(0, 1)")
        table = np.asarray(counts)
        shape = (rows.size, self.values.size)
        if table.shape != shape or table.dtype.kind not in "iu" or (table < 0).any():
            raise UserError(
                f"counts must be whole numbers >= 0 of shape {shape}: for each row, how often each "
                f"of {self.values.tolist()} occurred; got {table.dtype} of shape {table.shape}"
            )
        return Told(rows, table.sum(axis=1), table.astype(np.float64))

    def sums(self, rows: Ints, sums: Any, pulls: Any) -> Told:
        """A tell of sums (R,) of `pulls` (R,) rewards each."""
        totals, n = _numbers(sums, "sums"), np.asarray(pulls)
        if totals.shape != rows.shape or n.shape != rows.shape:
            raise UserError(f"expected one sum for each of {rows.size} rows, got {totals.shape}")
        if n.dtype.kind not in "iu" or (n < 0).any():
            raise UserError(f"pulls must be whole numbers >= 0, got {pulls!r}")
        _refuse("sum", totals, rows, ~np.isfinite(totals), "is not a finite number")
        _refuse("sum", totals, rows, (n == 0) & (totals != 0), "has no pulls")
        # Sums were added in floating point: they may exceed their bounds a little.
        average = totals / np.maximum(n, 1)
        slack = 1e-9 * (1 + np.abs(average))
        outside = (n > 0) & ((average < self.low - slack) | (average > self.high + slack))
        support = (self.low, self.high)
        _refuse("sum", totals, rows, outside, f"is impossible with support {support}")
        if self.values is None:
            return Told(rows, n, totals[:, None])
        if self.values.size != 2:
            raise UserError("with more than two values a sum is not enough: tell rewards or counts")
        upper = (totals - n * self.values[0]) / (self.values[1] - self.values[0])
        whole = np.clip(np.rint(upper), 0, n)
        apart = np.abs(upper - whole) > 1e-9 * (1 + n)
        _refuse("sum", totals, rows, apart, f"is no sum of {self.values.tolist()}")
        return Told(rows, n, np.stack([n - whole, whole], axis=1))


def _numbers(values: Any, name: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be numbers, got {values!r}") from None


def _refuse(what: str, numbers: Floats, rows: Ints, bad: np.ndarray, why: str) -> None:
    """Refuse a tell with a `bad` number; `rows` says to which row of the order each belongs."""
    if bad.any():
        place = int(bad.argmax())
        raise UserError(
            f"{what} {numbers[place]:g} in row {rows[place]} {why}; nothing was recorded"
        )
