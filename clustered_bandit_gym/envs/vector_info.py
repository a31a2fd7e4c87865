"""The `info` of a vector environment, filled for many sub-environments at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Ints


class VectorInfo:
    """Enters values into the `info` of `num_envs` sub-environments, with Gymnasium's masks (`_sample` beside `sample`).

    What `VectorEnv._add_info` does for one sub-environment at a time.
    """

    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs
        self._told: dict[str, Any] | None = None  # what the three below were made from
        self._constants: dict[str, np.ndarray] = {}
        self._constant_masks: list[str] = []
        self._others: dict[str, Any] = {}

    def tell(self, infos: dict[str, Any], which: Ints, told: dict[str, Any]) -> None:
        """Enter what the learner is told. Numbers that are the same for all instances need no array of their own."""
        if told is not self._told:
            self._told = told
            plain = {key: value for key, value in told.items() if value is None or isinstance(value, int | float)}
            self._constants = {key: _read_only(np.full(self._num_envs, value)) for key, value in plain.items()}
            self._constant_masks = ["_" + key for key in plain]
            self._others = {key: value for key, value in told.items() if key not in plain}
        mask = np.zeros(self._num_envs, dtype=np.bool_)
        mask[which] = True
        infos.update(self._constants)
        infos.update(dict.fromkeys(self._constant_masks, mask))
        if self._others:
            self.enter(infos, which, self._others)

    def enter(self, infos: dict[str, Any], which: Ints, values: dict[str, Any]) -> None:
        """`_add_info` for many sub-environments at once: `values` hold a row for each, a constant, or a dictionary."""
        mask = np.zeros(self._num_envs, dtype=np.bool_)
        mask[which] = True
        for key, value in values.items():
            if isinstance(value, np.ndarray):
                array = infos.get(key)
                if array is None:
                    array = np.zeros((self._num_envs, *value.shape[1:]), dtype=value.dtype)
                    infos[key] = array
                    if value.dtype.kind == "O":
                        array.fill(None)
                array[which] = value
            elif isinstance(value, dict):
                self.enter(infos.setdefault(key, {}), which, value)
            else:
                array = infos.setdefault(key, np.full(self._num_envs, None, dtype=object))
                for i in which.tolist():
                    array[i] = value  # one by one: NumPy would spread a tuple over the array
            name = "_" + key
            infos[name] = infos[name] | mask if name in infos else mask


def _read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
