"""Numbers that agents compare an arm with: how representatives make them, what they are worth.

With bounded rewards a reference is an interval that holds the mean. Otherwise it is an average.
"""

from __future__ import annotations

from math import log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.payloads import Payload, Quantised, Reals
from clustered_bandit_gym.policies.frugal.memory import empty_cells, recall, top_up
from clustered_bandit_gym.policies.frugal.settings import Levels
from clustered_bandit_gym.policies.sequential.boundaries import tuned_rho
from clustered_bandit_gym.policies.sequential.cells import BettingCells


class References:
    """Sizes of references and what agents may assume of them: known to everybody.

    The average R of n pulls of a mean μ has the e-process exp(½ñ(R − μ)²)/√(1 + n/ρ), with ρ fixed
    and ñ = n²/(n + ρ). Agents assume `worth(gap)` ≤ ñ instead of ñ, and pay `price` ≥ ½ln(1 + n/ρ)
    for it: they never claim more evidence than that.

    Args:
        bounded: references are intervals; there is nothing to pay.

    Attributes:
        ratio: pulls of a reference over those of an agent; about what makes the sum of pulls least.
        gaps: differences that references are made for, and that can be sent, increasing.
        grid: numbers that can be sent to agents, increasing; ends of intervals come from `fine`.
    """

    def __init__(self, levels: Levels, bounded: bool) -> None:
        p = levels.problem
        self.levels, self.bounded = levels, bounded
        agents = p.n_agents / levels.m
        self.rho, self.price = 0.0, 0.0
        if bounded:
            assert p.support is not None
            low, high = p.support
            self.ratio = max(4.0, (1.3 * agents) ** (2 / 3))
        else:
            low, high = -6 * p.sigma, 6 * p.sigma
            self.ratio = max(4.0, agents**0.5)
            self.rho = min(32.0, float(self.pulls(levels.eta)) / 16)
            self.price = 0.5 * log(1 + (float(self.pulls(levels.eta / 2)) + 1) / self.rho)
        most = max(levels.eta, (high - low) / 2)
        self.gaps = np.geomspace(levels.eta / 8, most, levels.settings.codes)
        self.fine = np.linspace(low, high, 2045)
        self.grid = self.fine[::4]

    def pulls(self, gap: Floats | float, variance: Floats | float = np.inf) -> Floats:
        """Pulls of a reference for differences of `gap`."""
        sigma = self.levels.problem.sigma
        level = self.levels.agent(1) + self.levels.settings.slack
        noise = np.minimum(variance + sigma * np.asarray(gap) / 3, sigma**2)
        return np.maximum(self.ratio * 2 * level * noise / np.asarray(gap) ** 2, 2 * self.rho)

    def worth(self, gap: Floats) -> Floats:
        """At most ñ of a reference that was made for differences of `gap` or smaller ones."""
        if self.bounded:
            return np.full(np.shape(gap), np.inf)
        n = np.floor(self.pulls(gap))
        return np.asarray(n * n / (n + self.rho))

    def threshold(self, low: float, high: float, n: int) -> tuple[Payload, Payload] | None:
        """For n agents: a number of at least `low`, and a distance from it to `high` or less.

        None if they are too close, or out of reach.
        """
        if not self.grid[0] <= low <= self.grid[-1]:
            return None
        number = Quantised(np.full(n, low), self.grid, "up")
        distance = high - float(number.values[0])
        if distance < self.gaps[0]:
            return None
        # Rounding errors: number + gap must not exceed `high`.
        distance -= 1e-9 * distance + 1e-15 * abs(high)
        return number, Quantised(np.full(n, distance), self.gaps, "down", clip=True)


def measure(
    block: Block, arms: Ints, gap: Floats, name: str, ref: References
) -> tuple[Payload, ...]:
    """References for `arms` (n, u) to differences `gap` (n, u): averages, or ends of intervals.

    Averages come from pulls made for them. Intervals hold at all times, so all pulls since the
    agent was chosen count.
    """
    name = name if ref.bounded else name + " reference"
    at = np.arange(len(block))[:, None], arms
    cells = recall(block, name, ref.levels, block.problem.n_arms)
    goal = np.zeros(cells.n.shape)
    goal[at] = ref.pulls(gap, np.where(cells.n > 0, cells.variance(), np.inf)[at])
    top_up(block, cells, goal)
    block.save(name, cells.memory)
    if not isinstance(cells, BettingCells):
        return (Reals(cells.mean[at]),)
    low, high = cells.interval(ref.levels.bound)
    # An end may miss that of the support, where the grid ends, by a rounding error.
    down = Quantised(low[at], ref.fine, "down", clip=True)
    return down, Quantised(high[at], ref.fine, "up", clip=True)


def ends(got: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    """Lower and upper ends of references that arrived. Averages arrive as float32."""
    off = np.abs(got[0]) * 2.0**-23 + 2.0**-126 if len(got) == 1 else 0.0
    return got[0] - off, got[-1] + off


def which_side(
    block: Block, arm: Ints, number: Floats, gap: Floats, ref: References
) -> tuple[np.ndarray, np.ndarray]:
    """(n,) whether the mean of `arm` is shown above `number`, and whether below `number + gap`.

    A mean in between may be shown either. Neither is shown after too many pulls.
    """
    sigma, settings = block.problem.sigma, ref.levels.settings
    level = ref.levels.agent(1) + ref.price
    cells = empty_cells(block, ref.levels, 1)
    above, below = np.zeros(len(block), dtype=bool), np.zeros(len(block), dtype=bool)
    todo = np.arange(len(block))
    plan = 2 * level * (sigma / gap) ** 2
    rho = tuned_rho(plan * (1 + 1 / ref.ratio), np.exp(-level))
    worth = ref.worth(gap)
    times = np.ceil((0.06 if ref.bounded else 0.45) * plan)
    while todo.size:
        zero = np.zeros(todo.size, dtype=np.int64)
        cells.pull(block, todo, zero, times[todo].astype(np.int64), arm[todo])
        up = cells.mean[todo, 0] >= number[todo] + gap[todo] / 2
        bound = np.where(up, number[todo], number[todo] + gap[todo])
        shown = cells.side(todo, zero, bound, up, worth[todo], rho[todo]) >= level
        above[todo], below[todo] = shown & up, shown & ~up
        n = cells.n[todo, 0]
        times[todo] = np.ceil(settings.look / 2 * n)
        limit = np.inf if ref.bounded else settings.patience * (plan[todo] + 1)
        todo = todo[~shown & (n <= limit)]
    return above, below
