"""Numbers that agents compare an arm with: how representatives make them, what they are worth.

With bounded rewards a reference is an interval that holds the mean. Otherwise it is an average.
"""

from __future__ import annotations

from functools import partial
from math import exp, log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import Payload, Quantised, Reals, Symbol
from clustered_bandit_gym.policies.frugal.memory import recall, top_up
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
        p, eta = levels.problem, levels.eta
        self.levels, self.bounded = levels, bounded
        agents = p.n_agents / levels.m
        low, high = p.support if bounded else (-6 * p.sigma, 6 * p.sigma)
        self.middle, self.reach = (low + high) / 2, (high - low) / 2
        self.rho, self.price = 0.0, 0.0
        if bounded:
            self.ratio = max(4.0, (1.3 * agents) ** (2 / 3))
        else:
            self.ratio = max(4.0, agents**0.5)
            self.rho = min(32.0, float(self.pulls(eta)) / 16)
            self.price = 0.5 * log(1 + (float(self.pulls(eta / 2)) + 1) / self.rho)
        self.gaps = np.geomspace(eta / 2, max(eta, self.reach), levels.settings.codes // 2)
        self.fine = np.linspace(low, high, 2045)
        self.grid = self.fine[::4]

    def pulls(self, gap: Floats | float, variance: Floats | float = np.inf) -> Floats:
        """Pulls of a reference for differences of `gap`."""
        sigma = self.levels.problem.sigma
        level = self.levels.agent + self.levels.settings.slack
        noise = np.minimum(variance + sigma * np.asarray(gap) / 3, sigma**2)
        return np.maximum(self.ratio * 2 * level * noise / np.asarray(gap) ** 2, 2 * self.rho)

    def worth(self, gap: Floats) -> Floats:
        """At most ñ of a reference that was made for differences of `gap` or smaller ones."""
        if self.bounded:
            return np.full(gap.shape, np.inf)
        n = np.floor(self.pulls(gap))
        return n * n / (n + self.rho)

    def threshold(
        self, low: float, high: float, least: float, n: int
    ) -> tuple[Payload, Payload] | None:
        """For n agents: a number of at least `low`, and a distance from it to `high` or less.

        None if the distance is below `least`, or the number out of reach.
        """
        if not self.grid[0] <= low <= self.grid[-1]:
            return None
        number = Quantised(np.full(n, low), self.grid, "up")
        distance = high - self.grid[np.searchsorted(self.grid, low)]
        # Rounding errors: number + gap must not exceed `high`.
        distance -= 1e-9 * distance + 1e-15 * abs(high)
        gap = self.gaps[self.gaps <= distance].max(initial=0.0)
        if gap < max(least, self.gaps[0]):
            return None
        return number, Quantised(np.full(n, gap), self.gaps, "nearest")


def order(
    federation: Federation, reps: Ints, arms: Ints, gap: Floats, ref: References
) -> tuple[Floats, Floats, Floats]:
    """Have all representatives make references for `arms` (M, u) to differences `gap` (M, u).

    Returns lower and upper ends (M, u), and the least differences to use them for. Agents must not
    take references for better than they are: averages serve no smaller differences than those that
    they were made for. Intervals do, but tests take long.
    """
    served = Quantised(gap, ref.gaps, "down", clip=True)
    down = Symbol(arms, among=federation.problem.n_arms), served
    with federation.phase("references"):
        got = federation.local(reps, partial(measure, ref=ref), down=down)
    if ref.bounded:
        return (*got, 0.2 * served.values)
    off = float32_error(got)
    return got - off, got + off, served.values


def float32_error(average: Floats) -> Floats:
    """How far averages that arrived, as float32, may be from what was sent."""
    return np.abs(average) * 2.0**-23 + 2.0**-126


def measure(
    block: Block, arms: Ints, gap: Floats, ref: References
) -> Payload | tuple[Payload, ...]:
    """References for `arms` (n, u) to differences `gap` (n, u): averages, or ends of intervals.

    Averages come from pulls made for them. Intervals hold at all times, so all pulls since the
    agent was chosen count.
    """
    name = ref.levels.name + ("" if ref.bounded else " reference")
    at = np.arange(len(block))[:, None], arms
    cells = recall(block, ref.levels, block.problem.n_arms, name)
    variance = np.where(cells.n > 0, cells.variance(), np.inf)
    goal = np.zeros(cells.n.shape)
    goal[at] = ref.pulls(gap, variance[at])
    top_up(block, cells, goal)
    block.save(name, cells.memory)
    if not isinstance(cells, BettingCells):
        return Reals(cells.mean[at])
    low, high = cells.interval(ref.levels.bound)
    # An end may miss that of the support, where the grid ends, by a rounding error.
    down = Quantised(low[at], ref.fine, "down", clip=True)
    return down, Quantised(high[at], ref.fine, "up", clip=True)


def which_side(block: Block, arm: Ints, number: Floats, gap: Floats, ref: References) -> Ints:
    """(n,) 1 if the mean of `arm` is shown above `number`, 0 if it is shown below `number + gap`.

    A mean in between may be shown either. 2 if neither is shown after too many pulls.
    """
    settings, level = ref.levels.settings, ref.levels.agent + ref.price
    cells = recall(block, ref.levels, 1)
    rows, zero = np.arange(len(block)), np.zeros(len(block), dtype=np.int64)
    plan = 2 * level * (block.problem.sigma / gap) ** 2
    rho = tuned_rho(plan * (1 + 1 / ref.ratio), exp(-level))
    limit = np.inf if ref.bounded else settings.patience * (plan + 1)
    times = np.ceil((0.06 if ref.bounded else 0.45) * plan)
    side, todo = zero + 2, rows
    while todo.size:
        cells.pull(block, todo, zero[todo], times[todo].astype(np.int64), arm[todo])
        n = cells.n[:, 0]
        up = cells.mean[:, 0] >= number + gap / 2
        bound = np.where(up, number, number + gap)
        evidence = cells.side(rows, zero, bound, up, ref.worth(gap), rho)
        side = np.where(evidence >= level, up, 2)
        times = np.ceil(settings.look / 2 * n)
        todo = np.flatnonzero((side == 2) & (n <= limit))
    return side
