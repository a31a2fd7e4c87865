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
    return cbg.play(Plays(cheat), TINY, **{"strict": False, **kwargs})
