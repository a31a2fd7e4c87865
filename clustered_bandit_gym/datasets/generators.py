"""The data sets and their stand-ins as generators: the bandits are fixed, the agents' clusters are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from clustered_bandit_gym.datasets import movielens_1m, stand_ins, yelp_open
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.generators import InstanceGenerator


@dataclass(frozen=True)
class MovieLens(InstanceGenerator):
    """MovieLens-1M, from the user's copy: see `datasets.movielens`. The true η and η1 are told."""

    n_agents: int = 120
    min_ratings: int = 31
    data: str | None = None
    sizes: str = "equal"
    alpha: float = 0.0
    n_clusters: int = field(default=6, init=False)
    name: ClassVar[str] = "movielens"

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return len(movielens_1m.load(self.data, self.min_ratings).names)

    def __call__(self, rng: np.random.Generator) -> Instance:
        bandits = movielens_1m.load(self.data, self.min_ratings)
        groups = tuple(movielens_1m.AGE_GROUPS.values())
        return Instance(None, self.draw_clusters(rng), bandits.rewards, arm_names=bandits.names, cluster_names=groups)


@dataclass(frozen=True)
class Yelp(InstanceGenerator):
    """The Yelp Open Dataset, from the user's copy: see `datasets.yelp`. The true η and η1 are told."""

    n_agents: int = 100
    states: tuple[str, ...] = yelp_open.STATES
    weights: str = "branches"
    data: str | None = None
    sizes: str = "equal"
    alpha: float = 0.0
    name: ClassVar[str] = "yelp"

    def __post_init__(self) -> None:
        if isinstance(self.states, list):  # JSON knows no tuples
            object.__setattr__(self, "states", tuple(self.states))
        yelp_open.check_states(self.states)
        super().__post_init__()

    @property
    def n_clusters(self) -> int:  # type: ignore[override]
        return len(self.states)

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return len(yelp_open.load(self.data, self.states, self.weights).names)

    def __call__(self, rng: np.random.Generator) -> Instance:
        bandits = yelp_open.load(self.data, self.states, self.weights)
        return Instance(bandits.means, self.draw_clusters(rng), arm_names=bandits.names, cluster_names=bandits.states)


@dataclass(frozen=True)
class MovieLensLike(InstanceGenerator):
    """A stand-in for MovieLens-1M: K = 316, M = 6, what is known of the real data holds, the rest is made up."""

    n_agents: int = 120
    sizes: str = "equal"
    alpha: float = 0.0
    n_clusters: int = field(default=6, init=False)
    n_arms: int = field(default=316, init=False)
    name: ClassVar[str] = "movielens-like"

    def __call__(self, rng: np.random.Generator) -> Instance:
        bandits = stand_ins.movielens_like()
        groups = tuple(movielens_1m.AGE_GROUPS.values())
        return Instance(None, self.draw_clusters(rng), bandits.rewards, arm_names=bandits.names, cluster_names=groups)


@dataclass(frozen=True)
class YelpLike(InstanceGenerator):
    """A stand-in for the Yelp data: K = 211, M = 4, η = 3/8, η1 = 1/6, star-like means, unit Gaussian rewards."""

    n_agents: int = 100
    sizes: str = "equal"
    alpha: float = 0.0
    n_clusters: int = field(default=4, init=False)
    n_arms: int = field(default=211, init=False)
    name: ClassVar[str] = "yelp-like"

    def __call__(self, rng: np.random.Generator) -> Instance:
        bandits = stand_ins.yelp_like()
        return Instance(bandits.means, self.draw_clusters(rng), arm_names=bandits.names, cluster_names=yelp_open.STATES)
