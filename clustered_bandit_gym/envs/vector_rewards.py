"""Rewards of many plays at once, one pull each: the laws side by side in arrays, base variates fetched ahead."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel

#: Base variates fetched at a time: enough that refilling costs little, few enough that a short episode wastes little.
AHEAD = 256


class VectorRewards:
    """One reward stream for each of E plays, equal draw for draw to `RewardModel.single` on that play's own stream.

    `RewardModel.noise` is the same stream one by one or in bulk, so a play's variates are fetched in bulk and used up
    one by one. Laws are kept by play: means (E, M, K), for categorical rewards cumulative probabilities (E, M, K, S).
    """

    def __init__(self, n_plays: int, n_agents: int, n_arms: int) -> None:
        self._n_agents, self._n_arms = n_agents, n_arms
        self._plays: dict[int, tuple[Instance, np.random.Generator]] = {}
        self._noise: Floats = np.zeros((n_plays, AHEAD))
        self._next: Ints = np.zeros(n_plays, dtype=np.int64)
        self._clusters: Ints = np.zeros((n_plays, n_agents), dtype=np.int64)
        self._sigma: Floats = np.zeros(n_plays)
        self._kind: np.ndarray = np.zeros(n_plays, dtype=np.int64)  # index into _KINDS, −1: none of them
        self._means: Floats = np.zeros((n_plays, 1, n_arms))
        self._cumulative: Floats = np.ones((n_plays, 0, n_arms, 1))
        self._support: Floats = np.zeros((n_plays, 1))
        self._only_kind: int | None = None  # the kind of all plays, if they share one

    def assign(self, play: int, instance: Instance, stream: np.random.Generator) -> None:
        """Play number `play` is `instance` from now on, with rewards from `stream`."""
        model = instance.rewards
        kind = _KINDS.index(type(model)) if type(model) in _KINDS else -1
        self._plays[play] = instance, stream
        self._clusters[play] = instance.clusters
        self._means = _with_room(self._means, (instance.n_clusters,))
        self._means[play, : instance.n_clusters] = instance.means
        if isinstance(model, Gaussian):
            self._sigma[play] = model.sigma
        elif isinstance(model, Categorical):
            size = model.support.size
            # Room beyond a support is never reached: its cumulative probability stays 1, and a variate is below 1.
            self._cumulative = _with_room(self._cumulative, (instance.n_clusters, self._n_arms, size), fill=1.0)
            self._support = _with_room(self._support, (size,))
            self._cumulative[play] = 1.0
            self._cumulative[play, : instance.n_clusters, :, :size] = model._cumulative
            self._support[play, :size] = model.support
        if self._kind[play] != kind or self._only_kind is None:
            self._kind[play] = kind
            self._only_kind = kind if kind >= 0 and bool((self._kind == kind).all()) else None
        self._noise[play] = model.noise(stream, AHEAD)
        self._next[play] = 0

    def draw(self, plays: Ints, actions: Ints) -> Floats:
        """One pull of flat action `agent * K + arm` in each of `plays` (distinct): (n,)."""
        position = self._next.take(plays)
        noise = self._noise.reshape(-1).take(plays * AHEAD + position)
        position += 1
        self._next[plays] = position
        for play in plays[position == AHEAD].tolist() if position.max() == AHEAD else ():
            instance, stream = self._plays[play]
            self._noise[play] = instance.rewards.noise(stream, AHEAD)
            self._next[play] = 0
        agents, arms = np.divmod(actions, self._n_arms)
        clusters = self._clusters.reshape(-1).take(plays * self._n_agents + agents)
        if self._only_kind is not None:
            return self._single(self._only_kind, plays, clusters, arms, noise)
        samples = np.empty(plays.size)
        kinds = self._kind[plays]
        for kind in np.unique(kinds).tolist():
            part = kinds == kind
            samples[part] = self._single(kind, plays[part], clusters[part], arms[part], noise[part])
        return samples

    def _single(self, kind: int, plays: Ints, clusters: Ints, arms: Ints, noise: Floats) -> Floats:
        """The `single` of each reward model, over plays."""
        if kind == _CATEGORICAL:
            index = np.sum(noise[:, None] >= self._cumulative[plays, clusters, arms], axis=1)
            return self._support[plays, index]
        if kind < 0:
            return np.array([self._one(*row) for row in zip(plays, clusters, arms, noise, strict=True)])
        rows = plays * self._means.shape[1] + clusters
        means = self._means.reshape(-1).take(rows * self._n_arms + arms)
        if kind == _BERNOULLI:
            return np.where(noise < means, 1.0, 0.0)
        return means + self._sigma.take(plays) * noise

    def _one(self, play: int, cluster: int, arm: int, noise: float) -> float:
        """For reward models that this file does not know."""
        instance, _ = self._plays[play]
        return float(instance.rewards.single(instance.means, cluster, arm, noise))


_KINDS: list[type[RewardModel]] = [Gaussian, Bernoulli, Categorical]
_BERNOULLI, _CATEGORICAL = 1, 2


def _with_room(array: Floats, needed: tuple[int, ...], fill: float = 0.0) -> Floats:
    """`array` (E, ...) if its axes after the first are at least `needed` long in front; else a longer copy."""
    have = array.shape[1 : 1 + len(needed)]
    if all(a >= b for a, b in zip(have, needed, strict=True)):
        return array
    longer = tuple(max(a, b) for a, b in zip(have, needed, strict=True))
    grown = np.full((array.shape[0], *longer, *array.shape[1 + len(needed) :]), fill)
    grown[tuple(slice(size) for size in array.shape)] = array
    return grown
