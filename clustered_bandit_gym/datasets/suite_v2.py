"""The instances of suite v2: shipped as data, and the families that they were drawn from.

No other version of NumPy or SciPy can change what is shipped. Fresh instances of the same families
show whether a policy is tuned to the shipped ones.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from zipfile import ZipFile

import gymnasium as gym
import numpy as np

from clustered_bandit_gym._types import Floats, Ints, Rng, Values
from clustered_bandit_gym.datasets import flights
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli

#: Instances of a cell.
INSTANCES = 5


def choice(rng: Rng) -> int:
    """Which instance a trial plays: by PCG64's raw stream, the same in all versions of NumPy."""
    return int(rng.bit_generator.random_raw() % INSTANCES)


@cache
def shipped(cell: str) -> list[Instance]:
    """The instances of a cell."""
    archive = files("clustered_bandit_gym.datasets").joinpath("suite_v2.zip")
    with archive.open("rb") as packed, ZipFile(packed) as file:
        parts = [file.read(f"{cell}-{number}.npz") for number in range(INSTANCES)]
    return [Instance.load(io.BytesIO(part)) for part in parts]


@dataclass(frozen=True)
class Shipped:
    """A generator: one of the shipped instances of a cell."""

    cell: str

    def __call__(self, rng: Rng) -> Instance:
        return shipped(self.cell)[choice(rng)]


@dataclass(frozen=True)
class Fresh:
    """A generator: one of five instances of a family that a seed draws."""

    family: Values
    seed: int

    def __call__(self, rng: Rng) -> Instance:
        return drawn(self.family, [self.seed, choice(rng)])


def drawn(family: Values, seed: list[int]) -> Instance:
    """An instance of the family: {"env": id, ...keywords} or {"kind": name, ...keywords}."""
    keywords = dict(family)
    if "kind" in keywords:
        return KINDS[keywords.pop("kind")](np.random.default_rng(seed), **keywords)
    env: Any = gym.make(keywords.pop("env"), disable_env_checker=True, **keywords).unwrapped
    return env.draw_instance(np.random.SeedSequence(seed))


def clicks(rng: Rng, n_agents: int, n_clusters: int, n_arms: int) -> Instance:
    """Click rates: the best arm of a cluster pays with 0.12, all others with 0.08 to 0.10."""
    means = rng.uniform(0.08, 0.10, (n_clusters, n_arms))
    best = rng.permutation(n_arms)[:n_clusters]
    means[np.arange(n_clusters), best] = 0.12
    return Instance(means, _equal(rng, n_agents, n_clusters), Bernoulli())


def shared(rng: Rng, n_agents: int, n_clusters: int, n_arms: int, n_best: int) -> Instance:
    """Clusters that share best arms: `n_best` different ones. Gaussian, gap 0.2 at least."""
    means = _apart(rng, n_clusters, n_arms, n_best)
    return Instance(means, _equal(rng, n_agents, n_clusters), allow_overlap=True)


def differing(rng: Rng, n_agents: int, n_clusters: int, n_arms: int, spread: float) -> Instance:
    """Agents that differ a little within a cluster: the cluster's means plus U(-spread, spread)."""
    centres = _apart(rng, n_clusters, n_arms, n_clusters)
    own = centres[_equal(rng, n_agents, n_clusters)]
    means = own + rng.uniform(-spread, spread, own.shape)
    return Instance(means, range(n_agents), allow_overlap=True)


def destinations(rng: Rng, n_agents: int, pooled: bool) -> Instance:
    """Flights on time at random destinations; `pooled`: by best airport, they share its rates."""
    data = flights.load()
    chosen = rng.permutation(len(data.rates))[:n_agents]
    if pooled:
        return Instance(data.cluster_rates, data.clusters[chosen], Bernoulli())
    return Instance(data.rates[chosen], range(n_agents), Bernoulli(), allow_overlap=True)


def _apart(rng: Rng, n_clusters: int, n_arms: int, n_best: int) -> Floats:
    """(M, K) best means U(0.8, 1) at `n_best` different arms, all others U(0, 0.6)."""
    means = rng.uniform(0.0, 0.6, (n_clusters, n_arms))
    best = rng.permutation(n_arms)[np.arange(n_clusters) % n_best]
    means[np.arange(n_clusters), best] = rng.uniform(0.8, 1.0, n_clusters)
    return means


def _equal(rng: Rng, n_agents: int, n_clusters: int) -> Ints:
    """(N,) clusters of equal size, in random order."""
    return rng.permutation(np.arange(n_agents) % n_clusters)


KINDS: dict[str, Callable[..., Instance]] = {
    "clicks": clicks,
    "shared": shared,
    "differing": differing,
    "destinations": destinations,
}
