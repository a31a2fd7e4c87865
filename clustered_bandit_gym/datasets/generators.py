"""Generators of the data sets and their stand-ins: the bandits are fixed, clusters are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from clustered_bandit_gym._types import FilePath, Ints, Rng, Values
from clustered_bandit_gym.datasets import flights, movielens_1m, yelp_open
from clustered_bandit_gym.game.checks import check_choice
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli
from clustered_bandit_gym.generators.base import FixedBandits


@dataclass(frozen=True)
class MovieLens(FixedBandits):
    """MovieLens-1M, from the user's copy: see `datasets.movielens`."""

    n_agents: int = 120
    min_ratings: int = 31
    data: FilePath | None = None

    @property
    def bandits(self) -> Instance:
        return movielens_1m.load(self.data, self.min_ratings)


@dataclass(frozen=True)
class Yelp(FixedBandits):
    """The Yelp Open Dataset, from the user's copy: see `datasets.yelp`."""

    n_agents: int = 100
    data: FilePath | None = None

    @property
    def bandits(self) -> Instance:
        return yelp_open.load(self.data)


@cache
def stand_in(name: str) -> Instance:
    """The bandits of "movielens_like" or "yelp_like", one agent in each: shipped stand-ins for the
    two data sets that may not be redistributed.

    They are made up, by ``docs/make_stand_ins.py``. What is printed about the real data holds
    exactly, everything else was drawn. A claim about the real data cannot be tested on a stand-in.
    """
    with files("clustered_bandit_gym.datasets").joinpath(f"{name}.npz").open("rb") as file:
        return Instance.load(file)


@dataclass(frozen=True)
class MovieLensLike(FixedBandits):
    """A stand-in for MovieLens-1M: K = 316, M = 6, with what is known of the real data."""

    n_agents: int = 120

    @property
    def bandits(self) -> Instance:
        return stand_in("movielens_like")


@dataclass(frozen=True)
class YelpLike(FixedBandits):
    """A stand-in for the Yelp data: K = 211, M = 4, η = 3/8, η1 = 1/6, unit Gaussian rewards."""

    n_agents: int = 100

    @property
    def bandits(self) -> Instance:
        return stand_in("yelp_like")


@dataclass(frozen=True)
class Flights(FixedBandits):
    """Flights from New York City: 32 destinations as agents, three airports as arms, reward 1 for
    an arrival on time.

    Args:
        truth: "clusters": all destinations with the same best airport share one bandit, their
            pooled rates: Assumption 1 holds with η = 0.025, and every draw gives the destinations'
            true sizes 7, 7 and 18 in random order. "agents": every destination has its own rates,
            as in the data; several share a best airport, Assumption 1 fails, nothing is told of
            clusters, and only policies that need no clusters have a guarantee.
    """

    truth: str = "clusters"
    n_agents: int = field(default=32, init=False)
    sizes: str = field(default="equal", init=False)
    alpha: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        check_choice("truth", self.truth, ("clusters", "agents"))

    @property
    def declared(self) -> Values:
        return {} if self.truth == "clusters" else {"n_clusters": None, "eta": None, "eta1": None}

    @property
    def bandits(self) -> Instance:
        data = flights.load()
        rates, names = data.rates, data.destinations
        if self.truth == "clusters":
            rates = data.cluster_rates
            names = tuple(f"best from {airport}" for airport in flights.AIRPORTS)
        return Instance(
            rates,
            range(len(rates)),
            Bernoulli(),
            arm_names=flights.AIRPORTS,
            cluster_names=names,
            allow_overlap=self.truth == "agents",
        )

    def draw_clusters(self, rng: Rng, n: int | None = None) -> Ints:
        """(N,) the cluster of each destination; in "clusters", their true ones in random order."""
        clusters = flights.load().clusters if self.truth == "clusters" else self.n_agents
        return rng.permutation(clusters)


def movielens(
    path: FilePath | None = None,
    n_agents: int = 120,
    min_ratings: int = 31,
    *,
    seed: int | Rng | None = 0,
    **spread: Any,
) -> Instance:
    """The MovieLens-1M instance of the paper, from your own copy of the data.

    Six age groups from 18 to 56+; an arm is a movie with at least `min_ratings` ratings in each of
    them; its reward in a group is half a rating drawn from those that the group gave it. η and η1
    are those of the data (`Instance.eta`).

    Args:
        path: the folder ml-1m, ml-1m.zip, or a folder that holds one of them; None: environment
            variable CLUSTERED_BANDIT_DATA.
        n_agents: N simulated users.
        min_ratings: 31 gives the 316 movies of the paper, which says "at least 30"; 30 gives 333.
        seed: of the agents' spread over the groups.
        spread: `sizes` and `alpha`, as for the generators.
    """
    return MovieLens(n_agents, min_ratings, path, **spread)(np.random.default_rng(seed))


def yelp(
    path: FilePath | None = None, n_agents: int = 100, *, seed: int | Rng | None = 0, **spread: Any
) -> Instance:
    """The Yelp instance of the paper, from your own copy of the data.

    An arm is a business name present in LA, TN, MO and IN, the clusters; its mean in a state is the
    average of the stars of the branches of that name there; rewards are unit Gaussian. Several
    names may share the best mean of a state. Then one stays, the first in alphabetical order among
    those that are best in no other state, and the others are no arms at all.

    Args:
        path: yelp_academic_dataset_business.json, or a folder or zip that holds it; None:
            environment variable CLUSTERED_BANDIT_DATA.
        n_agents: N simulated agents.
        seed: of the agents' spread over the states.
        spread: `sizes` and `alpha`, as for the generators.
    """
    return Yelp(n_agents, path, **spread)(np.random.default_rng(seed))
