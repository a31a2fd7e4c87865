"""What an agent has seen of its arms, kept between programs."""

from __future__ import annotations

from contextlib import suppress
from math import exp

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.frugal.settings import Levels
from clustered_bandit_gym.policies.sequential.cells import Cells, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales


class Stuck(Exception):
    """The guesses do not work out."""


def recall(
    block: Block, levels: Levels, columns: int, name: str | None = None, gap: float = 0.5
) -> Cells:
    """The cells (n, columns) that agents keep under `name`; without pulls at first, or without name.

    Their tests are tuned to differences of `gap`·η.
    """
    problem = levels.problem
    pulls = 2 * levels.agent * (problem.sigma / (gap * levels.eta)) ** 2
    scales = Scales.around(pulls, exp(-levels.agent))
    memory: Floats | tuple[int, int] = (len(block), columns)
    if name is not None:
        with suppress(KeyError):  # nothing is saved yet
            memory = block.load(name)
    return make_cells(problem, block.values, scales, memory)


def top_up(block: Block, cells: Cells, goal: Floats, arms: Ints | None = None) -> None:
    """Bring cells to `goal` (n, columns) pulls. `arms`: those of the columns, if not all arms."""
    row, column = np.nonzero(goal > cells.n)
    if row.size:
        times = np.ceil(goal[row, column] - cells.n[row, column]).astype(np.int64)
        cells.pull(block, row, column, times, None if arms is None else arms[column])
