"""Types used throughout."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]
Array = NDArray[Any]
#: Values by name: an `info` of Gymnasium, options, settings.
Values = dict[str, Any]
#: Sizes of an array.
Shape = tuple[int, ...]
#: Two ends, low < high.
Interval = tuple[float, float]
#: Numbers of pulls.
Times = Ints | int
Rng = np.random.Generator
FilePath = str | os.PathLike[str]
