"""Cumulative pulls and averages of many agents in lock-step: what the sequential engines share."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block


class Tally:
    """What the agents of a block have seen of `arms` so far, in units of σ.

    Attributes:
        counts: (n, k) pulls, float64: exact below 2**53, and the formulas want floats.
        means: (n, k) averages divided by σ.
        within: (n, k) booleans, the arms each agent plays at all.
    """

    def __init__(self, block: Block, arms: Ints, within: np.ndarray | None = None) -> None:
        self._block, self._arms = block, arms
        shape = (len(block), arms.size)
        self.within = np.ones(shape, dtype=np.bool_) if within is None else within.copy()
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
        before = self.counts[rows, columns]
        total = before + times
        self.means[rows, columns] += (averages - self.means[rows, columns]) * (times / total)
        self.counts[rows, columns] = total
