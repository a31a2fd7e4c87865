"""The cells of suite v1. They never change: a test compares the digest with `DIGEST_V1`.

Every cell fixes one instance by its seed, so that a cell has one lower bound and its trials differ by noise alone.
"""

# ruff: noqa: E501 (one cell per line reads as a table)

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.harness.cell import Cell

#: Root seed of the trials: trial t has the same noise under every policy.
SEED = 1
#: Seed of every cell's instance.
INSTANCE_SEED = 2026
#: Budgets of a trial. A play through `solve` that needs more is stuck; in the Gymnasium loop, one pull a step, the
#: limit is time.
MAX_PULLS, MAX_STEPS = 10**15, 20_000
#: Decimals of the instances that the digest covers. Two cells compute with exponentials and matrix products, whose last
#: digits depend on the processor's instruction set.
DECIMALS = 7
#: A cell whose first trials all end without an answer is given up: the other trials are not played.
GIVE_UP = 3


@dataclass(frozen=True)
class SuiteCell:
    """One cell of the suite.

    Attributes:
        name: identifies the cell in rows and on the leaderboard.
        probes: what the cell is for, in one line.
        tags: groups of cells for which scores are also given.
        env_id, kwargs: the environment; `kwargs` holds δ and what is told if that is not the default.
        trials, quick: number of trials in a full and in a quick run; a quick run leaves out cells with 0.
    """

    name: str
    probes: str
    tags: tuple[str, ...]
    env_id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    trials: int = 20
    quick: int = 0

    @property
    def delta(self) -> float:
        return float(self.kwargs["delta"])

    def count(self, quick: bool) -> int:
        """Trials of a full or quick run."""
        return self.quick if quick else self.trials

    def setting(self, stepper: bool = False) -> Cell:
        """The environment that is played; `stepper` for players of the Gymnasium loop."""
        budget = MAX_STEPS if stepper else MAX_PULLS
        return Cell(
            self.env_id, self.kwargs | {"instance_seed": INSTANCE_SEED, "max_pulls": budget}
        )

    @cached_property
    def instance(self) -> Instance:
        """The cell's instance, drawn by this NumPy."""
        unwrapped: Any = self.setting().make().unwrapped
        instance: Instance = unwrapped.draw_instance(INSTANCE_SEED)
        return instance

    @cached_property
    def instance_digest(self) -> str:
        """Hash of means, clusters and reward law, rounded to `DECIMALS`."""
        digest = hashlib.sha256()
        model = self.instance.rewards.to_dict()
        digest.update(str(model.pop("kind")).encode())
        for name, values in {
            "means": self.instance.means,
            "clusters": self.instance.clusters,
            **model,
        }.items():
            array = np.asarray(values, dtype=float)
            # Adding 0.0 turns -0.0 into 0.0.
            digest.update(
                f"{name} {array.shape}".encode() + (np.round(array, DECIMALS) + 0.0).tobytes()
            )
        return digest.hexdigest()[:24]


def suite_digest(cells: tuple[SuiteCell, ...]) -> str:
    """A hash of everything that defines the suite: instances, settings, δ, trials, seeds and budgets. Plays are strict."""
    content = {
        "rules": [SEED, INSTANCE_SEED, MAX_PULLS, MAX_STEPS, GIVE_UP, "strict"],
        "cells": [
            [
                c.name,
                list(c.tags),
                c.env_id,
                c.setting().plain_kwargs,
                c.trials,
                c.quick,
                c.instance_digest,
            ]
            for c in cells
        ],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


#: Digest of `SUITE_V1`.
DIGEST_V1 = "4736acfa443f5ab8a34bf3986725a324856b97dd7c897951515acfa3099298b6"

_V0 = "ClusteredBAI-v0"
_SMALL, _RANDOM = "ClusteredBAI-PaperSmall-v0", "ClusteredBAI-PaperRandom-v0"
_FLAT, _TIE = "ClusteredBAI-PaperFlat-v0", "ClusteredBAI-NearTie-v0"
_NOT_TOLD = {"n_clusters": None, "eta": None, "eta1": None}
#: One bandit with evenly spaced arms, and one with two arms 0.05 apart.
_LADDER = [[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]]
_PAIR = [[0.525, 0.475]]
#: Rare events: the best arms pay in 8 of 100 pulls, the others in 1 to 4.
_RARE = [
    [0.08, 0.01, 0.02, 0.04, 0.03],
    [0.02, 0.08, 0.01, 0.04, 0.01],
    [0.01, 0.03, 0.08, 0.02, 0.04],
]
_LOUD = [[-29.0, -30.0, -30.5, -31.0], [-30.0, -29.0, -31.0, -30.5]]

SUITE_V1: tuple[SuiteCell, ...] = (
    # The paper's families.
    SuiteCell("small-30", "paper's data set 1 where errors can be seen", ("paper",), _SMALL, {"n_agents": 30, "delta": 0.1}, 120, 70),
    SuiteCell("small-30-sure", "the same at a confidence that only a proof can show", ("paper", "small-delta"), _SMALL, {"n_agents": 30, "delta": 1e-10}, 100, 30),
    SuiteCell("small-300", "ten times the agents: what sharing saves", ("paper",), _SMALL, {"n_agents": 300, "delta": 0.01}, 800, 20),
    SuiteCell("small-3000", "a hundred times the agents", ("paper", "many-agents"), _SMALL, {"n_agents": 3000, "delta": 1e-4}, 100),
    SuiteCell("random-200", "data set 2: 20 clusters, 100 arms, one fixed draw", ("paper",), _RANDOM, {"n_agents": 200, "delta": 0.05}, 240, 20),
    SuiteCell("random-1000-sure", "data set 2 with more agents and a small error", ("paper", "small-delta"), _RANDOM, {"n_agents": 1000, "delta": 1e-10}, 100),
    SuiteCell("flat-200", "data set 3: all rivals tie exactly behind the best arm", ("paper",), _FLAT, {"n_agents": 200, "delta": 0.1}, 120, 30),
    SuiteCell("flat-200-sure", "data set 3 at a small error", ("paper", "small-delta"), _FLAT, {"n_agents": 200, "delta": 1e-10}, 100),
    SuiteCell("flat-1000", "data set 3 with more agents and a small eta", ("paper",), _FLAT, {"n_agents": 1000, "eta": 0.05, "delta": 0.01}, 200),
    # Sizes of clusters.
    SuiteCell("skewed-500", "cluster sizes from 2 to 50", ("paper", "skewed"), "ClusteredBAI-PaperSkewed-v0", {"delta": 0.05}, 240),
    SuiteCell("empty-100", "most of 20 clusters have no agent, one has most", ("skewed", "empty"), _FLAT, {"n_agents": 100, "sizes": "power", "alpha": 12.0, "delta": 0.1}, 120, 30),
    SuiteCell("lonely-8", "one agent per cluster: nothing can be shared", ("skewed",), _TIE, {"n_agents": 8, "n_clusters": 8, "n_arms": 20, "gap": 0.1, "delta": 0.1}, 120),
    # Near ties.
    SuiteCell("tie-1e-2", "runner-up 0.01 behind the best arm", ("near-tie",), _TIE, {"n_agents": 60, "delta": 0.1}, 120, 70),
    SuiteCell("tie-1e-3", "runner-up 0.001 behind", ("near-tie",), _TIE, {"n_agents": 60, "gap": 0.001, "delta": 0.01}, 800),
    SuiteCell("tie-1e-4-sure", "runner-up 0.0001 behind, 8 clusters, small error", ("near-tie", "small-delta"), _TIE, {"n_agents": 400, "n_clusters": 8, "n_arms": 30, "gap": 0.0001, "delta": 1e-6}, 100),
    # One cluster.
    SuiteCell("one-ladder", "M = 1, ten arms evenly spaced", ("one-cluster",), _V0, {"generator": "fixed-means", "means": _LADDER, "n_agents": 50, "delta": 0.1}, 120, 70),
    SuiteCell("one-pair", "M = 1, two arms 0.05 apart, many agents", ("one-cluster",), _V0, {"generator": "fixed-means", "means": _PAIR, "n_agents": 400, "delta": 0.05}, 240),
    # Reward laws.
    SuiteCell("coins", "Bernoulli rewards, random means", ("bernoulli",), _V0, {"generator": "random", "rewards": "bernoulli", "n_agents": 60, "n_clusters": 4, "n_arms": 12, "delta": 0.1}, 120, 70),
    SuiteCell("rare-coins", "rare successes: sigma = 1/2 is far from the truth", ("bernoulli",), _V0, {"generator": "fixed-means", "rewards": "bernoulli", "means": _RARE, "n_agents": 45, "delta": 0.01}, 800),
    SuiteCell("stars", "rewards on five values", ("categorical",), _V0, {"generator": "random", "rewards": "categorical", "n_agents": 60, "n_clusters": 5, "n_arms": 10, "delta": 0.1}, 120, 70),
    SuiteCell("movies", "stand-in for MovieLens: 316 arms, half-star ratings", ("categorical", "stand-in"), "ClusteredBAI-MovieLensLike-v0", {"n_agents": 120, "delta": 0.05}, 60),
    SuiteCell("shops", "stand-in for Yelp: 211 arms", ("stand-in",), "ClusteredBAI-YelpLike-v0", {"n_agents": 100, "delta": 1e-4}, 100),
    SuiteCell("loud", "sigma = 4 around means near -30", ("noise",), _V0, {"generator": "fixed-means", "means": _LOUD, "sigma": 4.0, "n_agents": 40, "delta": 0.05}, 240),
    # What is told.
    SuiteCell("no-m", "M is not told", ("untold",), _SMALL, {"n_agents": 60, "delta": 0.05, "told": {"n_clusters": None}}, 240),
    SuiteCell("no-eta", "neither eta nor eta1 is told", ("untold",), _SMALL, {"n_agents": 60, "delta": 0.05, "told": {"eta": None, "eta1": None}}, 240, 30),
    SuiteCell("no-eta1", "eta1 alone is not told", ("untold",), _SMALL, {"n_agents": 60, "delta": 0.05, "told": {"eta1": None}}, 240),
    SuiteCell("nothing-told", "none of M, eta, eta1 is told", ("untold",), _SMALL, {"n_agents": 60, "delta": 0.05, "told": _NOT_TOLD}, 240),
    SuiteCell("timid-eta", "told eta and eta1 are a tenth of the truth, as they may be", ("untold",), _SMALL, {"n_agents": 60, "delta": 0.05, "told": {"eta": 0.05, "eta1": 0.047}}, 240, 20),
    # Scale.
    SuiteCell("agents-1e5", "10^5 agents", ("many-agents",), _SMALL, {"n_agents": 100_000, "delta": 0.01}, 20),
    SuiteCell("arms-1e3", "10^3 arms", ("many-arms",), _FLAT, {"n_agents": 100, "n_clusters": 10, "n_arms": 1000, "eta": 0.3, "delta": 0.05}, 60),
    SuiteCell("clusters-50", "50 clusters, hardly more arms", ("many-clusters",), _FLAT, {"n_agents": 500, "n_clusters": 50, "n_arms": 60, "eta": 0.3, "delta": 0.05}, 60),
    # Real data.
    SuiteCell("flights", "flights on time: 32 destinations, three airports", ("real-data", "bernoulli"), "ClusteredBAI-Flights-v0", {"delta": 0.1}, 120, 70),
    SuiteCell("flights-sure", "the same at a small error, nothing told", ("real-data", "bernoulli", "untold", "small-delta"), "ClusteredBAI-Flights-v0", {"delta": 1e-6, "told": _NOT_TOLD}, 100),
)  # fmt: skip
