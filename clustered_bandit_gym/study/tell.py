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
        flat = np.concatenate(arrays)
        possible = self._inside(flat) if self.values is None else np.isin(flat, self.values)
        self._check("reward", flat, np.repeat(rows, pulls), possible)
        if self.values is None:
            table = np.array([[one.sum()] for one in arrays])
        else:
            table = np.array([(one[:, None] == self.values).sum(axis=0) for one in arrays])
        return Told(rows, pulls, table.astype(np.float64))

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
        totals, n = _numbers(sums), np.asarray(pulls)
        if totals.shape != rows.shape or n.shape != rows.shape:
            raise UserError(f"expected one sum for each of {rows.size} rows, got {totals.shape}")
        if n.dtype.kind not in "iu" or (n < 1).any():
            raise UserError(f"pulls must be whole numbers >= 1, got {pulls!r}")
        if self.values is None:
            # Sums were added in floating point: they may exceed their bounds a little.
            self._check("sum", totals, rows, self._inside(totals / n, 1e-9))
            return Told(rows, n, totals[:, None])
        if self.values.size != 2:
            raise UserError("with more than two values a sum is not enough: tell rewards or counts")
        low, high = self.values
        upper = (totals - n * low) / (high - low)
        whole = np.clip(np.rint(upper), 0, n)
        self._check("sum", totals, rows, np.abs(upper - whole) <= 1e-9 * (1 + n))
        return Told(rows, n, np.stack([n - whole, whole], axis=1))

    def _inside(self, numbers: Floats, slack: float = 0.0) -> np.ndarray:
        """(n,) whether numbers are finite and lie in the support, up to rounding."""
        low, high = self.support or (-np.inf, np.inf)
        finite = np.isfinite(numbers)
        apart = slack * (1 + np.abs(np.where(finite, numbers, 0.0)))
        return finite & (numbers >= low - apart) & (numbers <= high + apart)

    def _check(self, what: str, numbers: Floats, rows: Ints, possible: np.ndarray) -> None:
        """Refuse a tell with an impossible number; `rows` says to which row each belongs."""
        if not possible.all():
            place = int(possible.argmin())
            expected = f"are finite numbers, the support is {self.support}"
            if self.values is not None:
                expected = f"are {' or '.join(f'{value:g}' for value in self.values)}"
            raise UserError(
                f"{what} {numbers[place]:g} in row {rows[place]} is impossible: rewards {expected}; "
                "nothing was recorded"
            )


def _numbers(values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"rewards must be numbers, got {values!r}") from None
