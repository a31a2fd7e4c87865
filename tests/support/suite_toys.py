"""Toy policies for the tests of the suite."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from clustered_bandit_gym import ArmIndex, Block, Federation, Policy
from clustered_bandit_gym.policies import make
from clustered_bandit_gym.suite.checker import replayed


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


class GivesUp(Fixed):
    """Gives up half of its trials, by a coin that no seed reaches: with several attempts, all are answered."""

    name = "gives-up"

    def solve(self, federation: Federation) -> np.ndarray:
        if np.random.default_rng().random() < 0.5:
            raise ValueError("not this time")
        return super().solve(federation)


class Knows(Policy):
    """Has the right answers from elsewhere: nothing is pulled or sent."""

    name = "knows"

    def __init__(self, answers: tuple[int, ...] = ()) -> None:
        self.answers = answers

    def solve(self, federation: Federation) -> np.ndarray:
        return np.array(self.answers)


class Exits(Policy):
    """Ends its process."""

    name = "exits"

    def solve(self, federation: Federation) -> np.ndarray:
        os._exit(3)


def again(spec: str, rows: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
    """The rows' trials, replayed from this file alone."""
    trials = [(row["cell"], row["trial"]) for row in rows]
    metadata = {"suite": "v2", "policy": spec, "sources": {"suite_toys.py": ""}}
    metadata["guarantee_text"] = str(getattr(make(spec), "guarantee", "none"))
    return replayed(metadata, Path(__file__).parent, trials)
