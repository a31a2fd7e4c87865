"""The catalogue of named environments.

`import clustered_bandit_gym` registers them all; `gym.make("clustered_bandit_gym:ClusteredBAI-v0")`
imports the package first, which is what a fresh worker process needs. Every id has two variants for
learning libraries: `ClusteredBAI-Tiny-Discrete-v0` (flat actions) and `ClusteredBAI-Tiny-Box-v0`
(flat observations as well) for `ClusteredBAI-Tiny-v0`. Entry points are strings and settings are
plain values: nothing heavy is loaded, no data is needed, and a specification survives JSON.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import gymnasium as gym


class Entry(NamedTuple):
    """One named environment.

    Attributes:
        about: what it is.
        kwargs: keywords that `gym.make` may override.
        needs_data: whether it needs the user's copy of a data set.
        batches: whether its generator has a batch form, which the native vector environment needs.
    """

    about: str
    kwargs: dict[str, Any]
    needs_data: bool = False
    batches: bool = True


CATALOGUE: dict[str, Entry] = {
    "ClusteredBAI-v0": Entry(
        "Any instance or generator; by default the paper's first data set with N = 9", {}
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
        batches=False,
    ),
    "ClusteredBAI-MovieLens-v0": Entry(
        "MovieLens-1M: age groups as clusters, movies as arms",
        {"generator": "movielens"},
        needs_data=True,
        batches=False,
    ),
    "ClusteredBAI-Yelp-v0": Entry(
        "Yelp: states as clusters, names of businesses as arms",
        {"generator": "yelp"},
        needs_data=True,
        batches=False,
    ),
    "ClusteredBAI-MovieLensLike-v0": Entry(
        "A synthetic stand-in for MovieLens-1M, drawn from its published statistics",
        {"generator": "movielens-like"},
        batches=False,
    ),
    "ClusteredBAI-YelpLike-v0": Entry(
        "A synthetic stand-in for Yelp", {"generator": "yelp-like"}, batches=False
    ),
}


def flat_id(name: str, kind: str = "Discrete") -> str:
    """The id of the same game for learning libraries, of kind "Discrete" or "Box"."""
    return re.sub("(-Discrete|-Box)?-v", f"-{kind}-v", name)


def register() -> None:
    """Register every environment and its variants with Gymnasium; safe to call again."""
    flat = "clustered_bandit_gym.envs.flat_env:FlatClusteredBAIEnv"
    native = "clustered_bandit_gym.envs.vector_env:ClusteredBAIVectorEnv"
    for name, (_, kwargs, _, batches) in CATALOGUE.items():
        vector = native if batches else None
        variants = {
            name: ("clustered_bandit_gym.envs.env:ClusteredBAIEnv", None, {}),
            flat_id(name): (flat, vector, {}),
            flat_id(name, "Box"): (flat, vector, {"observation": "box"}),
        }
        for variant, (entry_point, vectorised, more) in variants.items():
            if variant not in gym.registry:
                gym.register(
                    variant, entry_point, vector_entry_point=vectorised, kwargs=kwargs | more
                )
