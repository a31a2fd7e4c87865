"""The rounds of the paper's successive elimination, as they are played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from clustered_bandit_gym.game.federation import Block
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
    asked: tuple[Any, Any, int] | None = None
    play, size, pull = elimination.elimination, elimination.round_size, Block.pull

    def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        try:
            return play(*args, **kwargs)
        finally:
            asked = None

    def round_size(n_arms: Any, gamma: Any, r: int, sigma: float) -> Any:
        nonlocal asked
        asked = (n_arms, gamma, r)
        return size(n_arms, gamma, r, sigma)

    def record(block: Block, rows: Any, arms: Any, times: Any = 1) -> Any:
        if asked is not None:
            n_arms, gamma, r = asked
            of_cell, _, pulls = (x.ravel() for x in np.broadcast_arrays(rows, arms, times))
            _, first, count = np.unique(of_cell, return_index=True, return_counts=True)
            order = np.argsort(first)
            row, pulls = of_cell[first[order]], pulls[first[order]]
            sizes, budgets = (np.broadcast_to(x, len(block))[row] for x in (n_arms, gamma))
            rounds.append(Round(block.agents[row], sizes, budgets, r, pulls, count[order]))
        return pull(block, rows, arms, times)

    with (
        patch.multiple(elimination, elimination=watched, round_size=round_size),
        patch.object(Block, "pull", record),
    ):
        yield rounds
