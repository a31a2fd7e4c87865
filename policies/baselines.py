"""Baselines without a guarantee, for comparison."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.game.checks import whole
from clustered_bandit_gym.game.federation import Block, FederationView
from clustered_bandit_gym.game.payloads import ArmIndex
from clustered_bandit_gym.policy import Policy


class UniformPolicy(Policy):
    """Each agent pulls each arm `pulls_per_arm` times and sends the best average, ties broken at random."""

    name = "uniform"
    guarantee = "none"

    def __init__(self, pulls_per_arm: int = 100) -> None:
        self.pulls_per_arm = whole(pulls_per_arm, "pulls_per_arm")

    def solve(self, federation: FederationView) -> Ints:
        def best_average(block: Block) -> ArmIndex:
            averages = block.pull_grid(self.pulls_per_arm)
            tied = averages == averages.max(axis=1, keepdims=True)
            return ArmIndex(
                np.where(tied, block.random(tied.shape[1]), -1.0).argmax(axis=1),
                among=tied.shape[1],
            )

        with federation.phase("identify"):
            return federation.local(federation.agents, best_average)


class RandomPolicy(Policy):
    """A random arm for every agent, without any pull: the weakest baseline."""

    name = "random"
    guarantee = "none"

    def solve(self, federation: FederationView) -> Ints:
        return federation.rng.integers(federation.problem.n_arms, size=federation.problem.n_agents)
