"""The truth of many plays side by side in arrays: one pull in each, and the judging of answers."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel
from clustered_bandit_gym.generators.batch import Batch

_KINDS: list[type[RewardModel]] = [Gaussian, Bernoulli, Categorical]
_GAUSSIAN, _BERNOULLI, _CATEGORICAL = range(3)


def is_known(model: RewardModel) -> bool:
    """Whether the laws of `model` can be kept in arrays; rewards of other models are drawn play by play."""
    return type(model) in _KINDS


class VectorRewards:
    """Instances and rewards of E plays.

    Plays share one stream of base variates, `rng` of `draw`, unless they were given a stream of their own; with their
    own stream they equal, draw for draw, a single play with that stream. Laws are kept by play: means (E, M, K),
    clusters (E, N), for categorical rewards cumulative probabilities (E, M, K, S).
    """

    def __init__(self, n_plays: int, n_agents: int, n_arms: int) -> None:
        self._n_agents, self._n_arms = n_agents, n_arms
        self.clusters: Ints = np.zeros((n_plays, n_agents), dtype=np.int64)
        self._sigma: Floats = np.zeros(n_plays)
        self._kind: Ints = np.full(n_plays, -1)  # index into _KINDS, −1: none of them
        self._only_kind: int | None = None  # the kind of all plays, if they share one
        self._means: Floats = np.zeros((n_plays, 1, n_arms))
        self._cumulative: Floats = np.ones((n_plays, 0, n_arms, 1))
        self._support: Floats = np.zeros((n_plays, 1))
        self._n_clusters: Ints = np.zeros(n_plays, dtype=np.int64)
        self._model: RewardModel = Gaussian()  # of the latest batch
        self._models: dict[int, RewardModel] = {}  # models that are not in arrays
        self._streams: dict[int, np.random.Generator] = {}

    def assign(self, plays: Ints, batch: Batch, rows: slice = slice(None)) -> None:
        """`plays` are the instances `rows` of `batch` from now on, with rewards from the shared stream."""
        self._forget(plays)
        model = batch.rewards
        kind = _KINDS.index(type(model)) if type(model) in _KINDS else -1
        n_clusters = batch.means.shape[1]
        self._model, self._n_clusters[plays] = model, n_clusters
        self.clusters[plays] = batch.clusters[rows]
        if n_clusters > self._means.shape[1]:
            self._means = _with_room(self._means, (n_clusters,))
        self._means[plays, :n_clusters] = batch.means[rows]
        if isinstance(model, Gaussian):
            self._sigma[plays] = model.sigma
        elif isinstance(model, Categorical):
            size = model.support.size
            # Room beyond a support is never reached: its cumulative probability stays 1, and a variate is below 1.
            self._cumulative = _with_room(
                self._cumulative, (n_clusters, self._n_arms, size), fill=1.0
            )
            self._support = _with_room(self._support, (size,))
            self._cumulative[plays] = 1.0
            self._cumulative[plays, :n_clusters, :, :size] = model.cumulative
            self._support[plays, :size] = model.support
        if kind != self._only_kind or kind < 0:
            self._kind[plays] = kind
            self._only_kind = kind if kind >= 0 and bool((self._kind == kind).all()) else None
        if kind < 0:
            self._models.update(dict.fromkeys(plays.tolist(), model))

    def own_stream(self, play: int, stream: np.random.Generator) -> None:
        """Rewards of `play` come from `stream` until its next assignment."""
        self._streams[play] = stream

    def _forget(self, plays: Ints) -> None:
        if self._streams or self._models:
            for play in plays.tolist():
                self._streams.pop(play, None)
                self._models.pop(play, None)

    def draw(self, plays: Ints, actions: Ints, rng: np.random.Generator) -> Floats:
        """One pull of flat action `agent * K + arm` in each of `plays` (distinct): (n,)."""
        agents, arms = np.divmod(actions, self._n_arms)
        clusters = self.clusters.reshape(-1).take(plays * self._n_agents + agents)
        kind = self._only_kind
        if kind is not None:
            noise = rng.standard_normal(plays.size) if kind == _GAUSSIAN else rng.random(plays.size)
            if self._streams:
                self._own_noise(plays, noise)
            return self._single(kind, plays, clusters, arms, noise)
        kinds = self._kind[plays]
        noise = np.where(
            kinds == _GAUSSIAN, rng.standard_normal(plays.size), rng.random(plays.size)
        )
        self._own_noise(plays, noise)
        samples = np.empty(plays.size)
        for kind in np.unique(kinds).tolist():
            part = kinds == kind
            samples[part] = self._single(kind, plays[part], clusters[part], arms[part], noise[part])
        return samples

    def _own_noise(self, plays: Ints, noise: Floats) -> None:
        """Replace the base variates of plays that have a stream of their own."""
        for row, play in enumerate(plays.tolist()):
            stream = self._streams.get(play)
            if stream is None:
                continue
            kind = int(self._kind[play]) if self._only_kind is None else self._only_kind
            if kind < 0:
                noise[row] = self._models[play].noise(stream)
            else:
                noise[row] = stream.standard_normal() if kind == _GAUSSIAN else stream.random()

    def _single(self, kind: int, plays: Ints, clusters: Ints, arms: Ints, noise: Floats) -> Floats:
        """The `single` of each reward model, over plays."""
        if kind == _CATEGORICAL:
            index = np.sum(noise[:, None] >= self._cumulative[plays, clusters, arms], axis=1)
            return self._support[plays, index]
        if kind < 0:
            rows = zip(
                plays.tolist(), clusters.tolist(), arms.tolist(), noise.tolist(), strict=True
            )
            return np.array(
                [self._models[play].single(self._means[play], m, k, z) for play, m, k, z in rows]
            )
        rows_of = plays * self._means.shape[1] + clusters
        means = self._means.reshape(-1).take(rows_of * self._n_arms + arms)
        if kind == _BERNOULLI:
            return np.where(noise < means, 1.0, 0.0)
        return means + self._sigma.take(plays) * noise

    def agent_means(self, plays: Ints) -> Floats:
        """(n, N, K) mean rewards of the agents of `plays`: the truth."""
        return self._means[plays[:, None], self.clusters[plays]]

    def instance(self, play: int) -> Instance:
        """The instance of `play`, if it was assigned in a batch and all batches had one reward model."""
        return Instance(
            self._means[play, : self._n_clusters[play]], self.clusters[play], self._model
        )


def _with_room(array: Floats, needed: tuple[int, ...], fill: float = 0.0) -> Floats:
    """`array` (E, ...) if its axes after the first are at least `needed` long in front; else a longer copy."""
    have = array.shape[1 : 1 + len(needed)]
    if all(a >= b for a, b in zip(have, needed, strict=True)):
        return array
    longer = tuple(max(a, b) for a, b in zip(have, needed, strict=True))
    grown = np.full((array.shape[0], *longer, *array.shape[1 + len(needed) :]), fill)
    grown[tuple(slice(size) for size in array.shape)] = array
    return grown
