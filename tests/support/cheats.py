"""Policies that the tests of the harness's rules play."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness_players import TINY

import clustered_bandit_gym as cbg

Cheat = Callable[[Any], Any]


class Plays(cbg.Policy):
    """Runs a function with the federation. Without an answer of its own it guesses arm 0, after one pull."""

    def __init__(self, cheat: Cheat) -> None:
        self._cheat = cheat

    def solve(self, federation: Any) -> np.ndarray:
        answer = self._cheat(federation)
        federation.pull(0, 0)
        return np.zeros(federation.problem.n_agents, dtype=int) if answer is None else answer


def row_of(cheat: Cheat, **kwargs: Any) -> dict[str, Any]:
    return cbg.play(Plays(cheat), TINY, **kwargs)


FOUND: list[Any] = []


def module_level_program(block: Any) -> None:
    FOUND.append(block.pull_grid(1000).argmax(axis=1))


class WritesHome(cbg.Policy):
    """Its programs leave their findings, unsent, wherever the centre might look."""

    def __init__(self, where: str = "closure") -> None:
        self.where = where

    def solve(self, federation: Any) -> np.ndarray:
        n, kept, self._kept = federation.problem.n_agents, [], []
        array = np.full(n, -1)
        FOUND.clear()

        def program(block: Any) -> Any:
            best = block.pull_grid(1000).argmax(axis=1)
            if self.where == "closure":
                kept.append(best)
            elif self.where == "array":
                array[:] = best
            elif self.where == "self":
                self._kept.append(best)
            elif self.where == "global":
                FOUND.append(best)
            elif self.where == "exception":
                raise ValueError(best)
            elif self.where == "pulls":
                block.pull(np.arange(n), 0, best + 1)
            return None

        if self.where == "module":
            federation.local(federation.agents, module_level_program)
        else:
            try:
                federation.local(federation.agents, program)
            except ValueError as error:
                kept.append(error.args[0])
        if self.where == "pulls":
            k = federation.problem.n_arms
            kept.append(federation.pulls_per_agent - 1000 * k - 1)
        found = [*kept, *self._kept, *FOUND, *([array] if array.min() >= 0 else [])]
        return found[0] if found else np.zeros(n, dtype=int)
