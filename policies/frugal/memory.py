"""What an agent has seen of its arms, kept between programs."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.frugal.settings import Levels
from clustered_bandit_gym.policies.sequential.cells import Cells, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales


class Stuck(Exception):
    """The guesses of an attempt do not work out."""


def empty_cells(block: Block, levels: Levels, columns: int, gap: float = 0.5) -> Cells:
    """Cells (n, columns) without pulls. Their tests are tuned to differences of `gap`·η."""
    return make_cells(block.problem, block.values, _scales(levels, gap), (len(block), columns))


def recall(block: Block, name: str, levels: Levels, columns: int) -> Cells:
    """The cells (n, columns) that the agents keep under `name`; without pulls at first."""
    try:
        memory = block.load(name)
    except KeyError:
        return empty_cells(block, levels, columns)
    return make_cells(block.problem, block.values, _scales(levels, 0.5), memory)


def _scales(levels: Levels, gap: float) -> Scales:
    pulls = 2 * levels.beaten * (levels.problem.sigma / (gap * levels.eta)) ** 2
    return Scales.around(pulls, float(np.exp(-levels.beaten)))


def top_up(block: Block, cells: Cells, goal: Floats, arms: Ints | None = None) -> None:
    """Bring cells to `goal` (n, columns) pulls. `arms`: those of the columns, if not all arms."""
    row, column = np.nonzero(goal > cells.n)
    if row.size:
        times = np.ceil(goal[row, column] - cells.n[row, column]).astype(np.int64)
        cells.pull(block, row, column, times, None if arms is None else arms[column])
