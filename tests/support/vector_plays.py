"""Settings, actions and comparisons for the tests of the vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np

ID = "ClusteredBAI-Discrete-v0"


SETTINGS: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "bernoulli": {"generator": "random", "rewards": "bernoulli", "n_agents": 3},
    "noiseless": {"generator": "tiny", "generator_kwargs": {"sigma": 0.0}},
}


def assert_same(one: Any, other: Any, where: str = "") -> None:
    """Exact equality of nested dictionaries of arrays."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), f"{where}: {sorted(one)} and {sorted(other)}"
        for key in one:
            assert_same(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, np.ndarray) and one.dtype == object:
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    else:
        np.testing.assert_array_equal(one, other, err_msg=where)
        assert np.asarray(one).dtype == np.asarray(other).dtype, where


def scripted(rng: np.random.Generator, num_envs: int, n_actions: int, steps: int) -> np.ndarray:
    """(steps, num_envs) flat actions, mostly pulls: one in twenty is a stop."""
    actions = rng.integers(n_actions - 1, size=(steps, num_envs))
    actions[rng.random((steps, num_envs)) < 0.05] = n_actions - 1
    return actions
