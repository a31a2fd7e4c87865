"""Toy policies for the tests of the suite."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clustered_bandit_gym import ArmIndex, Block, Federation, Policy


class Fixed(Policy):
    """Pulls every arm often, once: cheap, right on easy cells, wrong on near ties."""

    name = "fixed"
    guarantee = "none"

    def __init__(self, times: int = 2000) -> None:
        self.times = times

    def solve(self, federation: Federation) -> np.ndarray:
        def best(block: Block) -> ArmIndex:
            return ArmIndex(block.pull_grid(self.times).argmax(axis=1), among=block.problem.n_arms)

        return federation.local(federation.agents, best)


class Remembers(Policy):
    """Makes one pull more in every trial: it counts them in its class, which outlives a trial."""

    name = "remembers"
    seen: ClassVar[list[int]] = []

    def solve(self, federation: Federation) -> np.ndarray:
        self.seen.append(1)
        federation.pull(0, 0, len(self.seen))
        return np.zeros(federation.problem.n_agents, dtype=int)
