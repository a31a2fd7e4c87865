"""What representatives test, and at which levels: known to everybody before the first pull."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.frugal.budget import Budget
from clustered_bandit_gym.policies.frugal.spending import FRUGAL, Spending
from clustered_bandit_gym.policies.sequential.scales import Scales

#: The least effort, in pulls: about what tells a gap of σ. 32 and 128 give the same pulls beyond noise.
FIRST_EFFORT = 64.0
#: The gap, in units of η, that tests are tuned to: gaps below η are what takes most pulls. With 0.25 and with 1 the
#: small family takes 7% more pulls.
TUNED = 0.5
#: From this many arms on, pulls after the exploration are also a stream of their own, with this share of the error
#: probability. The share is spread over the live arms only, half of it evenly and half by their chances so far. With
#: about 8 live arms (`facts.FEW`) that gains ln(K/8) nats over a share for each of K arms, and halving costs ln 2.
LATE_ARMS, LATE = 32, 0.5
#: After a search: weight of the arm that was found, as the winner of a test, and of the scale of η. Both are right
#: nearly always, and 0.9 costs them ln(1/0.9) = 0.1 nats. Others share the rest.
EXPECTED = 0.9


@dataclass(frozen=True)
class Tests:
    """What representatives test, at which levels: functions of what everybody knows.

    Attributes:
        expected: every representative has searched for its best arm before (saved as "found"): an arm that beats
            others is likely to be that one, and gets most of the error probability.
        spending: how fast efforts grow.
    """

    problem: Problem
    budget: Budget
    expected: bool
    spending: Spending = FRUGAL

    def effort(self, code: Any) -> Any:
        """Pulls of each arm of a test that is worth working on at the code-th exchange."""
        return FIRST_EFFORT * self.spending.step**code

    def code(self, pulls: Floats) -> Ints:
        """The least code whose effort is at least `pulls`, among those that can be counted."""
        steps = np.log(np.maximum(pulls, FIRST_EFFORT) / FIRST_EFFORT) / np.log(self.spending.step)
        return np.ceil(np.minimum(steps, self.spending.efforts - 1)).astype(np.int64)

    @property
    def eta(self) -> float:
        assert self.problem.eta is not None
        return self.problem.eta

    @cached_property
    def scales(self) -> Scales:
        """Tuned to the gaps that take most of the pulls: η after a search, else less than that."""
        alpha = np.exp(-self.budget.beaten(0.5))
        gap = self.eta * (1.0 if self.expected else TUNED)
        scales = Scales.around(
            -2 * float(np.log(alpha)) * (self.problem.sigma / gap) ** 2, float(alpha)
        )
        if not self.expected:
            return scales
        centre = scales.weight == scales.weight.max()
        others = (1 - EXPECTED) / (1 - scales.weight.max())
        return Scales(scales.rho, np.where(centre, EXPECTED, others * scales.weight))

    @property
    def balance(self) -> float:
        """How many times the pulls of another arm the best one is going to have: `Work._pull` keeps to it."""
        return float(np.sqrt(max(1, self.problem.n_arms - 1))) if self.expected else 1.0

    @cached_property
    def last_effort(self) -> int:
        """Code of the effort that shows a gap of η."""
        pulls = 4 * (self.budget.beaten(0.5) + 3) * (self.problem.sigma / self.eta) ** 2
        return int(self.code(np.array(pulls)))

    @property
    def late(self) -> bool:
        """Whether pulls after the exploration are tested as a stream of their own, too: worth it with many arms."""
        return not self.expected and self.problem.n_arms >= LATE_ARMS

    def late_levels(self, prior: Floats) -> Floats:
        """(R, K) nats needed in the late stream if the arm wins. `prior`: (R, K) rows sum to at most one."""
        return self.budget.beaten(LATE) - np.log(np.maximum(prior, 1e-300))

    def beaten_levels(self, found: Ints) -> Floats:
        """(R, K) nats needed if the arm wins against another one."""
        k = self.problem.n_arms
        if not self.expected or k < 3:
            return np.full(
                (found.size, k), self.budget.beaten((1 - LATE if self.late else 1) / max(1, k - 1))
            )
        levels = np.full((found.size, k), self.budget.beaten((1 - EXPECTED) / (k - 2)))
        levels[np.arange(found.size), found] = self.budget.beaten(EXPECTED)
        return levels
