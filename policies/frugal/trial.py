"""What agents are compared with: how many pulls references have, and the evidence of a comparison.

The correctness of a comparison with an average rests on `Sides.evidence` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.frugal.budget import Budget
from clustered_bandit_gym.policies.frugal.spending import FRUGAL, Spending
from clustered_bandit_gym.policies.sequential.gaussian import pair, pair_reaches

#: A reference has at least the pulls that agents take for granted, and at most this many times as many: the price of
#: the choice grows with it (`Sides.steep`). With 2 pulls rise by 3% to 5%, 8 changes nothing beyond noise.
MOST_PULLS = 4
#: What references are worth must be this many times what is needed, since evidence saturates at their worth. From 1.1
#: to 2 pulls change by 1%.
SATURATION = 1.5
#: A wide reference has this many times the pulls that show a difference of η between two averages, in units of (σ/η)²:
#: four times as many would do if the averages had no noise and were not rounded.
WIDE = 8
#: Nats that mixing costs, roughly: for plans only. Half and twice change pulls by 5% at most.
SLACK = 2.5


@dataclass(frozen=True)
class Trial:
    """What agents know before the first message.

    Attributes:
        ratio: references are worth this many times the pulls that an agent is expected to make.
        bounded: references are bounds on means, else averages.
        gap: if given, references are worth what a difference of `gap` asks for, whatever the difference is.
        spending: how precise messages are.
    """

    problem: Problem
    budget: Budget
    ratio: float
    bounded: bool = False
    gap: float | None = None
    spending: Spending = FRUGAL

    def expected(self, level: float, gap: Floats) -> Floats:
        """Pulls that show a difference of `gap` at `level`, in units of σ², without the reference's noise."""
        return 2 * (level + 1.0) * (self.problem.sigma / gap) ** 2

    def reference_pulls(self, gap: Floats) -> Floats:
        """Pulls that a reference has at least, if agents are to show a difference of `gap`."""
        gap = gap if self.gap is None else np.full(np.shape(gap), self.gap)
        return (
            (0.25 if self.bounded else 1.0)
            * self.ratio
            * self.expected(self.budget.classify(1), gap)
        )

    def widest(self, pulls: int) -> float:
        """The largest difference with which a reference of `pulls` pulls may be used: it has at most `MOST_PULLS` times
        what agents take for granted."""
        return float(
            self.problem.sigma
            * np.sqrt(MOST_PULLS * self.reference_pulls(np.array(self.problem.sigma)) / pulls)
        )

    @property
    def concentration(self) -> float:
        """Pulls of a reference over the ρ of its mixture: the same whatever the difference."""
        return 2 * self.budget.classify(1) / (1 + self.ratio)

    def own_rho(self, gap: Floats) -> Floats:
        """ρ of the mixture for the agent's own pulls, tuned to a difference of `gap`."""
        level = self.budget.classify(1)
        pulls, own = self.reference_pulls(gap), self.expected(level, gap)
        return own * (pulls + own) / (2 * level * pulls)

    @property
    def reference_size(self) -> int:
        """Pulls of a reference where they are the same for all differences."""
        assert self.gap is not None
        return ceil(float(self.reference_pulls(np.array(self.gap))))

    @property
    def wide(self) -> Trial:
        """The same with references that have at least as many pulls, enough to show a difference of η; fixed, too."""
        p = self.problem
        assert p.eta is not None
        assert self.gap is not None
        most = WIDE * (self.budget.distinct() + SLACK) * (p.sigma / p.eta) ** 2
        return replace(
            self,
            ratio=self.ratio * max(1.0, most / float(self.reference_pulls(np.array(self.gap)))),
        )

    def usable(self, gap: Floats) -> np.ndarray:
        """Whether a difference of `gap` can be shown with references that are worth that much: evidence saturates."""
        most = 0.5 * self.reference_pulls(gap) * (gap / self.problem.sigma) ** 2
        return (gap > 0) & (most >= SATURATION * (self.budget.classify(1) + 2.5))

    def sides(self, gap: Floats, level: Any) -> Sides:
        """Tests of differences `gap` (n,) at `level` nats, a number or (n,)."""
        worth = np.asarray(self.reference_pulls(gap))
        level = np.broadcast_to(np.asarray(level, dtype=np.float64), worth.shape)
        share = self.concentration / (1 + self.concentration)
        steep = (
            np.zeros(worth.shape)
            if self.gap is not None
            else np.sqrt(2 / np.pi * MOST_PULLS * worth * share)
        )
        return Sides(worth, worth / self.concentration, self.own_rho(gap), level, steep)


@dataclass(frozen=True)
class Sides:
    """Tests of agents against references, n of them: what is fixed by the messages, before the agents' pulls.

    Attributes:
        worth, rho: (n,) pulls that the reference has at least, and ρ of its mixture.
        own_rho: (n,) ρ of the mixture for the agent's pulls.
        level: (n,) nats that are needed.
        steep: (n,) no evidence is claimed unless that of the agent's pulls falls as fast as this with the reference's
            mean. In a tree the number of pulls that is taken for granted follows from the distance that the agent is
            told, hence from the reference itself; this makes it legitimate (docs/frugal-bai.md). Otherwise 0.
    """

    worth: Floats
    rho: Floats
    own_rho: Floats
    level: Floats
    steep: Floats

    def evidence(self, n: Floats, ahead: Floats) -> Floats:
        """(n,) nats for "the agent's mean is higher": its average of n pulls is `ahead` of the reference's, in units of
        σ, after all rounding. For "lower" pass how far it is behind."""
        evidence = pair(ahead, self.worth, n, self.rho, self.own_rho)
        return np.where(n * n * ahead >= self.steep * (n + self.own_rho), evidence, -np.inf)

    def reaches(self, n: Floats, ahead: Floats) -> np.ndarray:
        """(n,) whether `evidence` reaches the level. It is computed only where it may."""
        # Mixing has a price, so what does not reach the level without it is skipped.
        hope = (ahead > 0) & (0.5 * ahead * ahead * n * self.worth >= self.level * (n + self.worth))
        hope &= n * n * ahead >= self.steep * (n + self.own_rho)
        at = np.flatnonzero(hope)
        if at.size:
            some = self.part(at)
            hope[at] = pair_reaches(
                some.level, ahead[at], some.worth, n[at], some.rho, some.own_rho
            )
        return hope

    def need(self, ahead: Floats) -> Floats:
        """(n,) pulls that a difference of `ahead`, in units of σ, is likely to take."""
        return pulls_needed(ahead, self.worth, self.level)

    def part(self, rows: np.ndarray) -> Sides:
        """Those of `rows`."""
        values = (self.worth, self.rho, self.own_rho, self.level, self.steep)
        return Sides(*(array[rows] for array in values))


def pulls_needed(ahead: Floats, worth: Any, level: Any) -> Floats:
    """Pulls that a difference of `ahead`, in units of σ, is likely to take against a reference of `worth` pulls."""
    short = np.maximum(ahead, 1e-9) ** 2 / (2 * (level + SLACK)) - 1 / worth
    return 1 / np.maximum(short, 1e-12)
