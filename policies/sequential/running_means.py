"""Running means: what the agents of a block have seen of some arms, and which arms that shows to be
worse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.sequential.cells import Cells, bounded, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales


class RunningMeans:
    """What the agents of a block have seen of `arms` so far, in units of σ.

    Args:
        scales: the grid of ρ for the tests of `worse`, fixed before the data, in pulls; None if
            they are not used.

    Attributes:
        cells: (n, k) pulls, averages divided by σ, and what they show.
        bounded: rewards take finitely many values in an interval that is told.
    """

    def __init__(self, block: Block, arms: Ints, scales: Scales | None = None) -> None:
        self._block, self._arms = block, arms
        shape, problem = (len(block), arms.size), block.problem
        scales = scales or Scales.around(100.0, 0.1)
        self.cells: Cells = make_cells(problem, block.values, scales, shape, unit=problem.sigma)
        self.bounded = bounded(problem, block.values)

    @property
    def counts(self) -> Floats:
        """(n, k) pulls."""
        return self.cells.n

    @property
    def means(self) -> Floats:
        """(n, k) averages divided by σ; 0 for an arm never pulled."""
        return self.cells.mean

    @property
    def estimates(self) -> Floats:
        """(n, k) averages in the units of the rewards; 0 for an arm never pulled."""
        return self.means * self._block.problem.sigma

    def pull(self, rows: Ints, columns: Ints, times: Ints | int) -> None:
        """`times` more pulls of each cell (row, column), vectors of one length; no cell may appear
        twice.
        """
        if rows.size:
            self.cells.pull(self._block, rows, columns, times, self._arms[columns])

    def worse(
        self, rows: Ints, leader: Ints, level: Any, among: np.ndarray, epsilon: float = 0.0
    ) -> np.ndarray:
        """(n, k) those of `among` (n, k) shown worse than leader[i] at rows[i] with `level` nats, a
        number or (n,); with `epsilon`, in units of σ, shown less than that much better."""
        return self.cells.shows_worse(rows, leader, epsilon, level, among)

    def all_close(
        self, rows: Ints, active: np.ndarray, precision: float, level: Floats
    ) -> np.ndarray:
        """(n,) rows at which every arm of `active` (n, k) is shown less than `precision` σ worse
        than every other one.

        The arm with the lowest average is the hardest; where it fails the others are not looked at.
        """
        lowest = np.where(active, self.means[rows], np.inf).argmin(axis=1)
        close = (self.cells.shows_worse(rows, lowest, precision, level, active) | ~active).sum(
            axis=1
        )
        close = close >= active.shape[1] - 1  # an arm is not compared with itself
        i, arm, other = np.nonzero((active & close[:, None])[:, :, None] & active[:, None, :])
        pair = arm != other
        i, arm, other = i[pair], arm[pair], other[pair]
        shown = self.cells.shows(rows[i], other, rows[i], arm, precision, level[i])
        close[i[~shown]] = False
        return close
