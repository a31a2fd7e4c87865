"""Types used throughout."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]
FilePath = str | os.PathLike[str]
