"""The catalogue of named environments.

`import clustered_bandit_gym` registers them all; `gym.make("clustered_bandit_gym:ClusteredBAI-v0")` imports the package
first, which is what a fresh worker process needs. Every id has a flat twin for learning libraries, with `Discrete` in
its name: `ClusteredBAI-Tiny-v0` and `ClusteredBAI-Tiny-Discrete-v0`. Entry points are strings and settings are plain
values: nothing heavy is loaded, no data is needed, and a specification survives JSON.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym

_ENV = "clustered_bandit_gym.envs.env:ClusteredBAIEnv"
_FLAT = "clustered_bandit_gym.envs.flat_env:FlatClusteredBAIEnv"
_VECTOR = "clustered_bandit_gym.envs.vector_env:ClusteredBAIVectorEnv"


class Entry(NamedTuple):
    """One named environment: what it is, keywords that `gym.make` may override, whether it needs the user's data."""

    about: str
    kwargs: dict[str, Any] = {}
    entry_point: str = _ENV
    vector_entry_point: str | None = None
    needs_data: bool = False


CATALOGUE: dict[str, Entry] = {
    "ClusteredBAI-v0": Entry(
        "Any instance or generator; by default the paper's first data set with N = 9"
    ),
    "ClusteredBAI-Discrete-v0": Entry(
        "The same with a flat action space, for learning libraries", {}, _FLAT, _VECTOR
    ),
    "ClusteredBAI-PaperSmall-v0": Entry(
        "Paper, data set 1: M = 3, K = 10, fixed means", {"generator": "paper-small"}
    ),
    "ClusteredBAI-PaperRandom-v0": Entry(
        "Paper, data set 2: M = 20, K = 100, random means", {"generator": "paper-random"}
    ),
    "ClusteredBAI-PaperFlat-v0": Entry(
        "Paper, data set 3: M = 20, K = 100, best arm 1, all others 1 − η",
        {"generator": "paper-flat"},
    ),
    "ClusteredBAI-PaperSkewed-v0": Entry(
        "Data set 3 with N = 500 and cluster sizes ∝ i^α, α = 1",
        {"generator": "paper-flat", "n_agents": 500, "sizes": "power", "alpha": 1.0},
    ),
    "ClusteredBAI-NearTie-v0": Entry(
        "In every cluster a runner-up 0.01 from the best arm", {"generator": "near-tie"}
    ),
    "ClusteredBAI-Tiny-v0": Entry(
        "For training: N = 4, M = 2, K = 3, random means", {"generator": "tiny"}
    ),
    "ClusteredBAI-Flights-v0": Entry(
        "Real data that ship: flights on time, 32 destinations as agents, 3 airports as arms",
        {"generator": "flights"},
    ),
    "ClusteredBAI-MovieLens-v0": Entry(
        "MovieLens-1M: age groups as clusters, movies as arms",
        {"generator": "movielens"},
        needs_data=True,
    ),
    "ClusteredBAI-Yelp-v0": Entry(
        "Yelp: states as clusters, names of businesses as arms",
        {"generator": "yelp"},
        needs_data=True,
    ),
    "ClusteredBAI-MovieLensLike-v0": Entry(
        "A synthetic stand-in for MovieLens-1M, drawn from its published statistics",
        {"generator": "movielens-like"},
    ),
    "ClusteredBAI-YelpLike-v0": Entry("A synthetic stand-in for Yelp", {"generator": "yelp-like"}),
}


def flat_id(name: str, kind: str = "Discrete") -> str:
    """The id of the same game for learning libraries: `ClusteredBAI-Tiny-Discrete-v0` for `ClusteredBAI-Tiny-v0`.

    `kind` is "Discrete" (flat actions) or "Box" (flat actions and observations).
    """
    base = name.replace("-Discrete-v", "-v").replace("-Box-v", "-v")
    return base.replace("-v", f"-{kind}-v")


def register() -> None:
    """Register every environment of the catalogue and its flat variants with Gymnasium; safe to call again."""
    for name, entry in CATALOGUE.items():
        _register(name, entry.entry_point, entry.vector_entry_point, entry.kwargs)
        _register(flat_id(name), _FLAT, _VECTOR, entry.kwargs)
        _register(flat_id(name, "Box"), _FLAT, _VECTOR, {**entry.kwargs, "observation": "box"})


def _register(name: str, entry_point: str, vector: str | None, kwargs: dict[str, Any]) -> None:
    if name not in gym.registry:
        gym.register(name, entry_point, vector_entry_point=vector, kwargs=dict(kwargs))
