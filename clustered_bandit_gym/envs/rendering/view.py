"""What a picture of a play shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.problem import Problem


@dataclass(frozen=True)
class View:
    """What a picture shows: what the centre has seen and, once the play is over, the truth.

    Attributes:
        pulls, means: (N, K) the observation.
        pulls_per_agent: (N,) all pulls, those the centre has not seen as well.
        cost: of the communication so far.
        verdict: one line on how the play ended; "" before.
        arms, right: (N,) recommended arms, and whether they are right; None before the end, and
            where nothing was recommended.
        best: (N,) the best arm of each agent; None before the end.
    """

    problem: Problem
    pulls: Ints
    means: Floats
    pulls_per_agent: Ints
    cost: float
    verdict: str = ""
    arms: Ints | None = None
    right: NDArray[np.bool_] | None = None
    best: Ints | None = None

    def ended(self, truth: Instance, arms: Ints | None) -> View:
        """This view at the end of the episode: `arms` (N,) were recommended, None for nothing."""
        best = truth.agent_best_arms
        if arms is None:
            return replace(self, best=best, verdict="Out of pulls: nothing recommended")
        right = truth.good_arms(self.problem.epsilon)[truth.clusters, arms]
        wrong = int((~right).sum())
        verdict = (
            f"{wrong} of {right.size} agents wrong" if wrong else f"All {right.size} agents right"
        )
        return replace(self, arms=arms, right=right, best=best, verdict=verdict)

    @cached_property
    def leaders(self) -> Ints:
        """(N,) the recommended arms, before the stop those that lead; −1 without a pull."""
        if self.arms is not None:
            return self.arms
        seen = np.where(self.pulls > 0, self.means, -np.inf)
        return np.where(self.pulls.any(axis=1), seen.argmax(axis=1), -1)
