"""Numbers that agents compare an arm with: how representatives make them, what they are worth.

With bounded rewards a reference is an interval that holds the mean. Otherwise it is an average.
"""

from __future__ import annotations

from math import ceil, log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmIndex, Payload, Quantised, Reals, Symbol
from clustered_bandit_gym.policies.frugal.memory import empty_cells, recall, top_up
from clustered_bandit_gym.policies.frugal.settings import Levels
from clustered_bandit_gym.policies.sequential.boundaries import tuned_rho
from clustered_bandit_gym.policies.sequential.cells import BettingCells

#: Answers of an agent that compares an arm with a reference.
BELOW, ABOVE, UNSURE = 0, 1, 2


class References:
    """Sizes of references and what agents may assume of them: known to everybody.

    The average R of n pulls of a mean μ has the e-process exp(½ñ(R − μ)²)/√(1 + n/ρ), ñ = n²/(n + ρ),
    with ρ fixed. Agents assume `worth(gap)` ≤ ñ instead of ñ, and pay `price` ≥ ½ln(1 + n/ρ) for it:
    they never claim more evidence than that.

    Attributes:
        bounded: references are intervals; there is nothing to pay.
        ratio: pulls of a reference over those of an agent, about what makes the sum of pulls least.
        least: the smallest difference that averages are made for.
    """

    def __init__(self, levels: Levels, bounded: bool) -> None:
        p = levels.problem
        self.levels, self.bounded = levels, bounded
        agents = p.n_agents / levels.m
        self.ratio = max(4.0, (1.3 * agents) ** (2 / 3) if bounded else agents**0.5)
        self.least = levels.eta / 2
        self.rho, self.price = 0.0, 0.0
        if not bounded:
            self.rho = min(32.0, float(self.pulls(levels.eta)) / 16)
            self.price = 0.5 * log(1 + (float(self.pulls(self.least)) + 1) / self.rho)

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

    @property
    def gaps(self) -> Floats:
        """Differences that can be ordered and sent, increasing."""
        p, codes = self.levels.problem, self.levels.settings.codes
        if self.bounded:
            assert p.support is not None
            return (p.support[1] - p.support[0]) * np.geomspace(0.004, 0.75, codes)
        least = min(0.02, 0.4 * self.levels.eta / p.sigma)
        return p.sigma * np.geomspace(least, 10.0, codes)

    # --- thresholds: a number and a distance, in few bits -----------------------------------------

    def threshold(self, low: float, high: float, n: int) -> tuple[Payload, ...] | None:
        """For n agents: a number of at least `low`, and a distance from it to `high` or less.

        The distance comes first, since the number is rounded to a sixteenth of it. None if `low` and
        `high` are too close.
        """
        for gap in self.gaps[::-1]:
            for reach in range(1 if self.bounded else 16):
                size = self._size(gap, reach)
                place = ceil((low - self.number(gap, reach, 0)) * 16 / gap)
                place += self.number(gap, reach, place) < low  # rounding errors
                if 0 <= place < size and self.number(gap, reach, place) + gap <= high:
                    return (
                        Quantised(np.full(n, gap), self.gaps, "down"),
                        Symbol(np.full(n, reach), among=1 if self.bounded else 16),
                        Symbol(np.full(n, place), among=size),
                    )
        return None

    def _size(self, gap: float, reach: int) -> int:
        """How many numbers can be sent."""
        p = self.levels.problem
        span = p.support[1] - p.support[0] if p.support and self.bounded else 0.0
        return ceil((span or 16 * p.sigma * 2**reach) * 16 / gap) + 1

    def number(self, gap: Floats | float, reach: Ints | int, place: Ints | int) -> Floats:
        """The number that was sent: from the lower end of the support, or of ±8σ, ±16σ, ±32σ, ..."""
        p = self.levels.problem
        start = -8.0 * p.sigma * 2.0 ** np.asarray(reach)
        if self.bounded:
            assert p.support is not None
            start = np.full(np.shape(reach), p.support[0])
        return np.asarray(start + np.asarray(gap) / 16 * place)


def measure(
    block: Block, arms: Ints, gap: Floats, name: str, ref: References
) -> tuple[Payload, ...]:
    """References for `arms` (n, u) to differences `gap` (n, u): averages, or intervals.

    Averages come from pulls made for them. Intervals hold at all times, so all pulls since the agent
    was chosen count.
    """
    p = block.problem
    name = name if ref.bounded else name + " reference"
    at = np.arange(len(block))[:, None], arms
    cells = recall(block, name, ref.levels, p.n_arms)
    goal = np.zeros(cells.n.shape)
    goal[at] = ref.pulls(gap, np.where(cells.n > 0, cells.variance(), np.inf)[at])
    top_up(block, cells, goal)
    block.save(name, cells.memory)
    if not isinstance(cells, BettingCells):
        return (Reals(cells.mean[at]),)
    assert p.support is not None
    low, high = cells.interval(ref.levels.bound)
    bound = Quantised(low[at], np.linspace(*p.support, 2048), "down", clip=True)
    widths = (p.support[1] - p.support[0]) * 1.19 ** np.arange(-31.0, 1.0)
    return bound, Quantised(high[at] - bound.values, widths, "up", clip=True)


def read(got: tuple[np.ndarray, ...]) -> tuple[Floats, Floats]:
    """Lower and upper ends (M, u) of references that arrived; averages arrive in single precision."""
    if len(got) == 2:
        return got[0], got[0] + got[1]
    off = np.abs(got[0]) * 2.0**-23 + 2.0**-126
    return got[0] - off, got[0] + off


def which_side(
    block: Block, arm: Ints, gap: Floats, reach: Ints, place: Ints, ref: References
) -> Ints:
    """(n,) ABOVE if the mean of `arm` is shown above the threshold's number, BELOW if it is shown
    below the number plus `gap`. A mean in between may be either, or UNSURE after too many pulls."""
    levels, sigma = ref.levels, block.problem.sigma
    low = ref.number(gap, reach, place)
    level = levels.agent(1) + ref.price
    cells = empty_cells(block, levels, 1)
    answer = np.full(len(block), UNSURE)
    todo = np.arange(len(block))
    plan = 2 * level * (sigma / gap) ** 2
    rho = tuned_rho(plan * (1 + 1 / ref.ratio), np.exp(-level))
    worth = ref.worth(gap)
    times = np.ceil((0.06 if ref.bounded else 0.45) * plan)
    while todo.size:
        zero = np.zeros(todo.size, dtype=np.int64)
        cells.pull(block, todo, zero, times[todo].astype(np.int64), arm[todo])
        n = cells.n[todo, 0]
        above = cells.mean[todo, 0] - low[todo]
        lower = above < 0.5 * gap[todo]
        bound = low[todo] + np.where(lower, gap[todo], 0.0)
        shown = cells.side(todo, zero, bound, ~lower, worth[todo], rho[todo]) >= level
        answer[todo[shown]] = np.where(lower, BELOW, ABOVE)[shown]
        # The pulls that a normal law would need, without haste.
        ahead = np.maximum(np.where(lower, gap[todo] - above, above), 1e-9 * sigma)
        variance = np.maximum(cells.variance()[todo, 0], 1e-12 * sigma**2)
        rate = ahead**2 / (2 * (level + 1) * variance) - 1 / worth[todo]
        more = 0.7 * (1 / np.maximum(rate, 1e-12) - n)
        times[todo] = np.ceil(np.clip(more, np.maximum(0.04 * n, 1), np.maximum(0.5 * n, 1)))
        limit = np.inf if ref.bounded else levels.settings.patience * (plan[todo] + 1)
        todo = todo[~shown & (n <= limit)]
    return answer


def own_references(
    federation: Federation, reps: Ints, best: Ints, name: str, ref: References, gap: float
) -> tuple[Floats, Floats]:
    """Lower and upper ends (M,) of references for the representatives' best arms."""

    def program(block: Block, own: Ints) -> tuple[Payload, ...]:
        return measure(block, own[:, None], np.full((len(block), 1), gap), name, ref)

    got = federation.local(reps, program, down=ArmIndex(best, among=federation.problem.n_arms))
    low, high = read(got)
    return low[:, 0], high[:, 0]
