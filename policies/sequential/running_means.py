"""Running means: cumulative pulls and averages of many cells at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block


def add_pulls(counts: Floats, means: Floats, cells: Any, averages: Floats, times: Ints | int) -> tuple[Floats, ...]:
    """Add `times` pulls of the given averages to `cells` of the tables `counts` and `means`, in place.

    Args:
        counts: pulls so far, float64: exact below 2**53, and the formulas want floats.
        means: their averages; same shape.
        cells: an index of both tables that names no cell twice.
        averages, times: one per cell.

    Returns:
        Counts and means of these cells before, then after.
    """
    before, old = counts[cells], means[cells]
    after = before + times
    new = old + (averages - old) * (times / after)
    counts[cells], means[cells] = after, new
    return before, old, after, new


class Tally:
    """What the agents of a block have seen of `arms` so far, in units of σ.

    Attributes:
        counts: (n, k) pulls.
        means: (n, k) averages divided by σ.
    """

    def __init__(self, block: Block, arms: Ints) -> None:
        self._block, self._arms = block, arms
        shape = (len(block), arms.size)
        self.counts: Floats = np.zeros(shape)
        self.means: Floats = np.zeros(shape)

    @property
    def estimates(self) -> Floats:
        """(n, k) averages in the units of the rewards; 0 for an arm never pulled."""
        return self.means * self._block.problem.sigma

    def pull(self, rows: Ints, columns: Ints, times: Ints | int) -> None:
        """`times` more pulls of each cell (row, column), vectors of one length; no cell may appear twice."""
        if rows.size == 0:
            return
        averages = self._block.pull(rows, self._arms[columns], times) / self._block.problem.sigma
        add_pulls(self.counts, self.means, (rows, columns), averages, times)
