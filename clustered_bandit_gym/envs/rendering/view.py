"""What a picture of a play shows."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
        last: agent and arm of the latest pull, if any.
        over: the episode has ended.
        arms, right, best: (N,) recommended arms, whether they are right, the best arms; None before the end, the
            first two also where it ended without a stop.
        clusters: (N,) the true cluster of each agent; None before the end.
    """

    problem: Problem
    pulls: Ints
    means: Floats
    pulls_per_agent: Ints
    cost: float
    last: tuple[int, int] | None = None
    over: bool = False
    arms: Ints | None = None
    right: NDArray[np.bool_] | None = None
    best: Ints | None = None
    clusters: Ints | None = None

    def ended(self, truth: Instance, arms: Ints | None) -> View:
        """This view at the end of the episode: recommended `arms` (N,), None if there was no stop, and the truth."""
        good = truth.good_arms(self.problem.epsilon)
        right = None if arms is None else good[truth.clusters, arms]
        best, clusters = truth.agent_best_arms, truth.clusters
        return replace(self, over=True, arms=arms, right=right, best=best, clusters=clusters)

    @property
    def order(self) -> Ints:
        """(N,) agents from the top row to the bottom one: by number, and after the end by cluster."""
        if self.clusters is None:
            return np.arange(self.pulls.shape[0])
        return np.argsort(self.clusters, kind="stable")

    @property
    def brackets(self) -> list[tuple[int, int, int]]:
        """Of each cluster that has agents: its number, and its first and last row in `order`. [] before the end."""
        if self.clusters is None:
            return []
        rows = self.clusters[self.order].tolist()
        numbers = sorted(set(rows))
        return [(m, rows.index(m), rows.index(m) + rows.count(m) - 1) for m in numbers]

    @property
    def leaders(self) -> Ints:
        """(N,) the recommended arms, before the stop those that lead; −1 without a pull."""
        if self.arms is not None:
            return self.arms
        seen = np.where(self.pulls > 0, self.means, -np.inf)
        return np.where(self.pulls.any(axis=1), seen.argmax(axis=1), -1)

    @property
    def shares(self) -> Floats:
        """(N, K) pulls of an arm in proportion to the agent's most pulled one."""
        most: Ints = self.pulls.max(axis=1, keepdims=True)
        return self.pulls / np.maximum(most, 1)

    @property
    def verdict(self) -> str:
        """One line on how the play ended; empty before."""
        if not self.over:
            return ""
        if self.right is None:
            return "Out of pulls: nothing recommended"
        wrong = int((~self.right).sum())
        if wrong == 0:
            return f"All {self.right.size} agents right"
        return f"{wrong} of {self.right.size} agents wrong"
