"""Instances drawn ahead in batches, handed out a few at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.generators.batch import Batch

#: Most instances, and most numbers in their means, drawn at once.
MOST, MOST_NUMBERS = 1024, 2**18


class Drawn(NamedTuple):
    """Instances `rows` of `batch`, and what a learner is told of each: constants, or arrays with a row for each."""

    batch: Batch
    rows: slice
    told: dict[str, Any]


class Supply:
    """Draws instances of `game` ahead: a few episodes end in most steps, and a batch of a few costs as much as many.

    Batches double in size, so that short runs do not pay for what they do not use.
    """

    def __init__(self, game: ClusteredBAIEnv, first: int) -> None:
        self._game, self._first = game, first
        self._size, self._next = first, 0
        self._drawn: Drawn | None = None

    def clear(self) -> None:
        """Discard what was drawn ahead: the stream has a new seed."""
        self._size, self._next, self._drawn = self._first, 0, None

    def take(self, n: int, rng: np.random.Generator) -> Drawn | None:
        """The next `n` instances; None where the game has no batch form."""
        if self._drawn is None or self._next + n > len(self._drawn.batch):
            batch = self._game.draw_batch(rng, max(n, self._size))
            if batch is None:
                return None
            self._drawn, self._next = Drawn(batch, slice(None), self._game.problems_of(batch)), 0
            self._size = max(n, min(2 * self._size, MOST, MOST_NUMBERS // batch.means[0].size))
            self._varied = [
                key for key, value in self._drawn.told.items() if isinstance(value, np.ndarray)
            ]
        rows = slice(self._next, self._next + n)
        self._next += n
        batch, _, told = self._drawn
        if self._varied:
            told = {**told, **{key: told[key][rows] for key in self._varied}}
        return Drawn(batch, rows, told)
