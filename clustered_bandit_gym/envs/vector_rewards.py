"""The instances of many plays side by side in arrays, and the draws of their rewards."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Categorical, Gaussian, RewardModel
from clustered_bandit_gym.game.source import Simulator
from clustered_bandit_gym.generators.batch import Batch


class VectorRewards:
    """Instances and rewards of E plays.

    Plays that come from batches share a reward model and a stream, and are drawn together. A play that was assigned
    alone has a `Simulator` of its own and equals, draw for draw, a single play with that simulator's stream.

    Attributes:
        means: (E, M, K); bandits beyond those of a play are zero.
        clusters: (E, N).
    """

    def __init__(self, n_plays: int, n_agents: int, n_arms: int) -> None:
        self.means: Floats = np.zeros((n_plays, 1, n_arms))
        self.clusters: Ints = np.zeros((n_plays, n_agents), dtype=np.int64)
        self._n_clusters: Ints = np.zeros(n_plays, dtype=np.int64)
        self._model: RewardModel = Gaussian()
        self._alone: dict[int, tuple[Instance, Simulator]] = {}

    def assign(self, plays: Ints, batch: Batch, rows: slice) -> None:
        """`plays` (n,) are the instances `rows` of `batch` from now on."""
        for play in plays.tolist() if self._alone else ():
            self._alone.pop(play, None)
        self._model = batch.rewards
        self._write(plays, batch.means[rows], batch.clusters[rows])

    def assign_alone(self, play: int, instance: Instance, rng: np.random.Generator) -> None:
        """`play` is `instance` from now on, with rewards from `rng`."""
        self._alone[play] = instance, Simulator(instance, rng)
        self._write(np.array([play]), instance.means[None], instance.clusters[None])

    def _write(self, plays: Ints, means: Floats, clusters: Ints) -> None:
        n_clusters = means.shape[1]
        missing = n_clusters - self.means.shape[1]
        if missing > 0:
            self.means = np.pad(self.means, ((0, 0), (0, missing), (0, 0)))
        self._n_clusters[plays] = n_clusters
        self.means[plays, :n_clusters] = means
        self.clusters[plays] = clusters

    def draw(
        self, plays: Ints, agents: Ints, arms: Ints, times: Ints | int, rng: np.random.Generator
    ) -> Floats:
        """(n,) averages of `times` pulls of `arms` at `agents` of `plays`, all (n,); for `times` = 1 the rewards."""
        if not self._alone:
            return self._draw(plays, agents, arms, times, rng)
        averages = np.empty(plays.size)
        together = np.array([play not in self._alone for play in plays.tolist()], dtype=np.bool_)
        if together.any():
            some = times if isinstance(times, int) else times[together]
            averages[together] = self._draw(
                plays[together], agents[together], arms[together], some, rng
            )
        for row in np.flatnonzero(~together).tolist():
            simulator = self._alone[int(plays[row])][1]
            count = times if isinstance(times, int) else int(times[row])
            if count == 1:
                averages[row] = simulator.single(int(agents[row]), int(arms[row]))
            else:
                one = slice(row, row + 1)
                averages[row] = simulator.averages(agents[one], arms[one], count)[0]
        return averages

    def _draw(
        self, plays: Ints, agents: Ints, arms: Ints, times: Ints | int, rng: np.random.Generator
    ) -> Floats:
        # The bandits of all plays as the rows of one matrix. Categorical laws are the same in all plays.
        rows = self.clusters.reshape(-1).take(plays * self.clusters.shape[1] + agents)
        if not isinstance(self._model, Categorical):
            rows += plays * self.means.shape[1]
        means = self.means.reshape(-1, self.means.shape[2])
        if isinstance(times, int) and times == 1:
            noise = self._model.noise(rng, plays.size)
            return np.asarray(self._model.single(means, rows, arms, noise))
        return self._model.average(rng, means, rows, arms, times)

    def agent_means(self, plays: Ints) -> Floats:
        """(n, N, K) mean rewards of the agents of `plays`: the truth."""
        return self.means[plays[:, None], self.clusters[plays]]

    def instance(self, play: int) -> Instance:
        """The instance of `play`."""
        if play in self._alone:
            return self._alone[play][0]
        means = self.means[play, : self._n_clusters[play]]
        return Instance(
            means, self.clusters[play], self._model, allow_ties=True, allow_overlap=True
        )
