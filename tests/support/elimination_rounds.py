"""The rounds of the paper's successive elimination, as they are played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from clustered_bandit_gym.policies.engines import elimination


@dataclass(frozen=True)
class Round:
    """One round of agents that draw together.

    Attributes:
        agents: (n,) ids of the agents that took part.
        sizes: (n,) |A|, the size of each agent's initial set.
        gamma: (n,) each agent's error budget for the call.
        r: the round, from 1.
        times: (n,) n_r, the fresh pulls of each arm still active.
        arms: (n,) how many arms each agent pulled.
    """

    agents: np.ndarray
    sizes: np.ndarray
    gamma: np.ndarray
    r: int
    times: np.ndarray
    arms: np.ndarray


@contextmanager
def watch() -> Iterator[list[Round]]:
    """A list to which every round of every elimination run inside is appended."""
    rounds: list[Round] = []
    asked: tuple[Any, Any, int] = (0, 0.0, 0)
    size, draw = elimination.round_size, elimination._draw

    def round_size(n_arms: Any, gamma: Any, r: int, sigma: float) -> Any:
        nonlocal asked
        asked = (n_arms, gamma, r)
        return size(n_arms, gamma, r, sigma)

    def record(block: Any, rows: Any, arms: Any, times: Any, active: Any) -> Any:
        sizes, gamma, r = asked
        rounds.append(
            Round(block.agents[rows], sizes[rows], gamma[rows], r, times, active.sum(axis=1))
        )
        return draw(block, rows, arms, times, active)

    with patch.multiple(elimination, round_size=round_size, _draw=record):
        yield rounds
