"""Instances drawn ahead in batches, handed out a few at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.game import GameSettings, Told
from clustered_bandit_gym.game.rewards import Bernoulli, Gaussian, RewardModel
from clustered_bandit_gym.generators.batch import Batch

#: Most instances, and most numbers in their means, drawn at once.
MOST, MOST_NUMBERS = 1024, 2**18


class Law(NamedTuple):
    """What a `Simulator` needs of an instance: means (M, K), clusters (N,), and the reward model."""

    means: Floats
    clusters: Ints
    rewards: RewardModel


class Drawn(NamedTuple):
    """Instances `rows` of `batch`, and what a learner is told of the batch (`GameSettings.problems_of`)."""

    batch: Batch
    rows: slice
    told: Told

    @property
    def law(self) -> Law:
        """The first instance, without the checks of `Instance`."""
        i = self.rows.start
        return Law(self.batch.means[i], self.batch.clusters[i], self.batch.rewards)

    @property
    def told_of_first(self) -> dict[str, Any]:
        """What a learner is told of the first instance."""
        constant, varied = self.told
        return {**constant, **{key: value.item(self.rows.start) for key, value in varied.items()}}


class InstanceBuffer:
    """Draws instances of `game` ahead: drawing one costs as much as drawing a batch of a hundred.

    Batches double in size, so that short runs do not pay for what they do not use.

    Args:
        game: its generator draws the instances.
        first: size of the first batch.
    """

    def __init__(self, game: GameSettings, first: int = 1) -> None:
        self._game = game
        self._first = first
        self.clear()

    def clear(self) -> None:
        """Discard what was drawn ahead: the stream has a new seed."""
        self._size = self._first
        self._next = 0
        self._drawn: Drawn | None = None

    def take(self, n: int, rng: np.random.Generator) -> Drawn | None:
        """The next `n` instances; None where the generator, or its reward model, has no batch form."""
        if self._drawn is None or self._next + n > len(self._drawn.batch):
            batch = self._game.draw_batch(rng, max(n, self._size))
            fixed = self._game.fixed_instance is not None
            if batch is None or not (fixed or type(batch.rewards) in (Gaussian, Bernoulli)):
                return None
            self._drawn = Drawn(batch, slice(None), self._game.problems_of(batch))
            self._next = 0
            self._size = max(n, min(2 * self._size, MOST, MOST_NUMBERS // batch.means[0].size))
        batch, _, told = self._drawn
        rows = slice(self._next, self._next + n)
        self._next += n
        return Drawn(batch, rows, told)
