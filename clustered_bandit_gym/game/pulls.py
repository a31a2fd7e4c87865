"""Counting the pulls of a play, and keeping to its budget."""

from __future__ import annotations

import math

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import BudgetExceeded
from clustered_bandit_gym.game.rewards import broadcast_shape

#: Largest number of pulls in one play: counts are int64.
MAX_PULLS = 2**62


class Pulls:
    """Pulls made so far: in total, at each agent, in each phase.

    Args:
        n_agents: N.
        limit: pulls beyond this raise `BudgetExceeded`; None for no limit.
        agent_limit: the same for the pulls of any one agent.
    """

    def __init__(self, n_agents: int, limit: int | None, agent_limit: int | None = None) -> None:
        self.limit = MAX_PULLS if limit is None else min(int(limit), MAX_PULLS)
        self.agent_limit = MAX_PULLS if agent_limit is None else int(agent_limit)
        self.total = 0
        self.per_agent: Ints = np.zeros(n_agents, dtype=np.int64)
        self.by_phase: dict[str, int] = {}

    def admit(self, agents: Ints, arms: Ints, times: Ints | int) -> tuple[tuple[int, ...], int]:
        """Shape and number of the pulls asked for; raises where they would exceed a limit."""
        shape = broadcast_shape(agents, arms, times)
        rows = math.prod(shape)
        if rows == 0:
            return shape, 0
        if isinstance(times, int):
            total = rows * times
        else:
            # The sum of floats cannot overflow, and tells whether that of integers would.
            rough = float(times.sum(dtype=np.float64)) * (rows / times.size)
            total = int(times.sum()) * (rows // times.size) if rough < MAX_PULLS else int(rough)
        if self.total + total > self.limit:
            raise BudgetExceeded(
                f"{self.total:,} pulls made; {total:,} more would exceed max_pulls = {self.limit:,}"
            )
        if self.total + total > self.agent_limit:  # otherwise no agent can be beyond its limit
            self._check_agents(agents, times, shape)
        return shape, total

    def count(
        self, phase: str, agents: Ints, times: Ints | int, shape: tuple[int, ...], total: int
    ) -> None:
        """Add pulls that `admit` has let through, with the shape and the total that it gave."""
        self.total += total
        self.by_phase[phase] = self.by_phase.get(phase, 0) + total
        _add(self.per_agent, agents, times, shape)

    def _check_agents(self, agents: Ints, times: Ints | int, shape: tuple[int, ...]) -> None:
        """Raise where these pulls would exceed the limit of an agent."""
        more = np.zeros_like(self.per_agent)
        _add(more, agents, times, shape)
        beyond = np.flatnonzero(self.per_agent + more > self.agent_limit)
        if beyond.size:
            raise self.agent_exceeded(int(beyond[0]), int(more[beyond[0]]))

    def agent_exceeded(self, agent: int, more: int) -> BudgetExceeded:
        """The error for `more` pulls at `agent`, which would exceed its limit."""
        return BudgetExceeded(
            f"agent {agent} has made {self.per_agent[agent]:,} pulls; {more:,} more would exceed "
            f"max_pulls_per_agent = {self.agent_limit:,}"
        )


def _add(counts: Ints, agents: Ints, times: Ints | int, shape: tuple[int, ...]) -> None:
    """Add `times` pulls at `agents`, which broadcast to `shape`, to the counts (N,) of the agents."""
    if isinstance(times, int) and len(shape) == 2 and agents.shape == (shape[0], 1):
        # A grid of agents and arms: one addition per agent, not one per cell (a fifth of a large
        # play).
        np.add.at(counts, agents[:, 0], times * shape[1])
    else:
        np.add.at(counts, np.broadcast_to(agents, shape), np.broadcast_to(times, shape))
