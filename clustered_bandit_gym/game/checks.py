"""Numbers and arrays that users give: checked, and protected against changes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, Floats, Ints
from clustered_bandit_gym.errors import UserError


def whole(value: Any, name: str, least: int = 1) -> int:
    """`value` as an exact int, whatever a subclass of int says of itself."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool | np.bool_) or number < least:
        raise UserError(f"{name} must be a whole number >= {least}, got {value!r}")
    return number


def check_choice(what: str, value: Any, known: tuple[Any, ...]) -> str:
    """A setting, which is one of `known`."""
    if value not in known:
        raise UserError(f"{what} must be one of {', '.join(map(repr, known))}; got {value!r}")
    return str(value)


def amount(value: Any, name: str) -> float:
    """`value` as a finite number >= 0."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < np.inf:
        raise UserError(f"{name} must be a finite number >= 0, got {value!r}")
    return number


def indices(values: ArrayLike, size: int, what: str) -> Ints:
    """`values` as int64, each checked to lie in 0..size−1; `what` names them in the error."""
    ids = np.asarray(values)
    if ids.dtype.kind not in "iu" and ids.size:
        raise UserError(f"{what} indices must be integers, got {ids.dtype}")
    ids = ids.astype(int, copy=False)
    # As unsigned numbers, negative ones are large.
    bad = ids[ids.view(np.uint64) >= min(size, 2**63)]
    if bad.size:
        raise UserError(f"{what} {bad[0]} is out of range: {what}s run from 0 to {size - 1}")
    return ids


def increasing(values: ArrayLike, name: str) -> Floats:
    """`values` as a read-only vector (n,) of finite numbers, checked to be strictly increasing."""
    vector = np.asarray(values, dtype=float)
    rises = vector.ndim == 1 and vector.size > 0 and np.all(np.diff(vector) > 0)
    if not (rises and np.isfinite(vector).all()):
        raise UserError(f"{name} must be a vector of finite numbers, strictly increasing")
    return read_only(vector)


def read_only(array: Array) -> Array:
    """A copy that cannot be made writable again: its memory is that of a bytes object."""
    return np.ndarray(array.shape, array.dtype, array.tobytes())
