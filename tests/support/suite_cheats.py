"""Policies that ignore δ: what a hostile statistician would submit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from clustered_bandit_gym import ArmIndex, Block, Policy
from clustered_bandit_gym.policies import NaiveSE, StructuredBAI


class _Told:
    """A federation whose problem is told otherwise."""

    def __init__(self, federation: Any, problem: Any) -> None:
        self._federation = federation
        self.problem = problem

    def __getattr__(self, name: str) -> Any:
        return getattr(self._federation, name)


class LooseStructured(StructuredBAI):
    """StructuredBAI at δ' = 0.9 (0.05 where δ < 0.01)."""

    def solve(self, federation: Any) -> np.ndarray:
        problem = federation.problem
        loose = 0.05 if problem.delta < 0.01 else 0.9
        return super().solve(_Told(federation, replace(problem, delta=loose)))


class Hasty(StructuredBAI):
    """StructuredBAI that takes σ for a tenth of what it is told: wrong in most plays."""

    def solve(self, federation: Any) -> np.ndarray:
        problem = federation.problem
        return super().solve(_Told(federation, replace(problem, sigma=problem.sigma / 10)))


class LooseNaive(NaiveSE):
    """Naive with the mixture engine at δ' = 0.99 N: no union bound over agents."""

    def __init__(self) -> None:
        super().__init__(engine="mixture")

    def solve(self, federation: Any) -> np.ndarray:
        problem = federation.problem
        return super().solve(_Told(federation, replace(problem, delta=0.99)))


class SometimesGuesses(NaiveSE):
    """Pulls once and guesses with probability 4δ, else an honest naive: few pulls now and then."""

    def __init__(self) -> None:
        super().__init__(engine="mixture")

    def solve(self, federation: Any) -> np.ndarray:
        problem = federation.problem
        if federation.rng.random() < 4 * problem.delta:
            federation.pull(0, 0, 1)
            return np.zeros(problem.n_agents, dtype=int)
        return super().solve(federation)


class FixedBudget(Policy):
    """Pulls every arm 10 times and takes the best: right on easy games only."""

    name = "fixed-budget"
    guarantee = "delta-PC"

    def solve(self, federation: Any) -> np.ndarray:
        def best(block: Block) -> ArmIndex:
            return ArmIndex(block.pull_grid(10).argmax(axis=1), among=block.problem.n_arms)

        return federation.local(federation.agents, best)
