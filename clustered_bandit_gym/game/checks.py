"""Indices and numbers of pulls, checked before anything is drawn."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import BudgetExceeded, UserError

#: Largest number of pulls of one arm in one request: whole numbers up to here are exact in float64.
MAX_TIMES = 2**53


def indices(values: ArrayLike, size: int, what: str) -> Ints:
    """`values` as int64, each checked to lie in 0..size−1; `what` names them in the error."""
    ids = np.asarray(values)
    if ids.dtype.kind not in "iu":
        if ids.size:
            raise UserError(f"{what} indices must be integers, got {ids.dtype}")
        ids = ids.astype(np.int64)
    if ids.dtype == np.uint64:
        ids = np.minimum(ids, np.iinfo(np.int64).max)
    ids = ids.astype(np.int64, copy=False)
    if ids.size and (ids.min() < 0 or ids.max() >= size):
        bad = ids[(ids < 0) | (ids >= size)].flat[0]
        raise UserError(f"{what} {bad} is out of range: {what}s run from 0 to {size - 1}")
    return ids


def whole_times(times: ArrayLike) -> Ints | int:
    """`times` as a plain int or an int64 array, checked to lie in 1..`MAX_TIMES`."""
    if isinstance(times, int | np.integer) and not isinstance(times, bool):
        low = high = operator.index(times)
        counts: Ints | int = low
    else:
        array = np.asarray(times)
        if array.dtype.kind not in "iu":
            raise UserError(f"times must be whole numbers, got {array.dtype}")
        if array.size == 0:
            return array.astype(np.int64)
        low, high = int(array.min()), int(array.max())
        counts = int(array) if array.ndim == 0 else array.astype(np.int64, copy=False)
    if low < 1:
        raise UserError(f"an arm is pulled at least once: times must be >= 1, got {low}")
    if high > MAX_TIMES:
        raise BudgetExceeded(
            f"{high:,} pulls of one arm in one request; at most {MAX_TIMES:,} can be counted exactly"
        )
    return counts


#: Length of the Elias δ code of the numbers 2^e to 2^(e+1) − 1, for e = 0..63: e + 2⌊log2(e + 1)⌋ +
#: 1 bits.
_DELTA_CODE = np.array([e + 2 * ((e + 1).bit_length() - 1) + 1 for e in range(64)], dtype=np.int64)


def count_bits(numbers: Ints | int) -> Any:
    """Bits of the Elias δ code of whole numbers 1..2**53: prefix-free, so neither side need know a
    range.

    1 bit for 1.
    """
    if isinstance(numbers, int):
        return int(_DELTA_CODE[numbers.bit_length() - 1])
    _, exponents = np.frexp(numbers.astype(np.float64))  # n = m·2^e with m in [1/2, 1)
    return _DELTA_CODE[exponents - 1]


def read_only(array: np.ndarray) -> np.ndarray:
    """A copy that cannot be made writable again: its memory is that of a bytes object."""
    if not array.size:
        return array.copy()
    return np.frombuffer(array.tobytes(), dtype=array.dtype).reshape(array.shape)
