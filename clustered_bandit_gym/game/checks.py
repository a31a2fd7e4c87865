"""Whole numbers and indices that users give, checked."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Ints
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


def indices(values: ArrayLike, size: int, what: str) -> Ints:
    """`values` as int64, each checked to lie in 0..size−1; `what` names them in the error."""
    ids = np.asarray(values)
    if ids.dtype.kind not in "iu" and ids.size:
        raise UserError(f"{what} indices must be integers, got {ids.dtype}")
    if ids.size and (ids.min() < 0 or ids.max() >= size):
        bad = ids[(ids < 0) | (ids >= size)].flat[0]
        raise UserError(f"{what} {bad} is out of range: {what}s run from 0 to {size - 1}")
    return ids.astype(np.int64, copy=False)
