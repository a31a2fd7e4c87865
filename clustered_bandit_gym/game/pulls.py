"""Counting the pulls of a play, and keeping to its budget."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import BudgetExceeded
from clustered_bandit_gym.game.rewards import broadcast_shape

#: Largest number of pulls in one play: counts are int64.
MAX_PULLS = 2**62


#: By default glibc returns freed arrays with more numbers than this to the system.
MANY_ROWS = 2**14


@cache
def keep_freed_memory() -> None:
    """Make glibc keep freed arrays of up to 31 MB instead of returning them to the system.

    The arrays of a full block take a megabyte or two. By default every page of the next one is faulted in again, which
    is a third of the time of a large play. glibc raises its threshold once a larger allocation has been freed. Nothing
    is written to it, so it costs no memory. Other allocators ignore it.
    """
    del (_ := [np.empty(31 * 2**20, dtype=np.uint8)])[:]


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
        """Shape and number of the pulls asked for; raises where they would exceed the limit."""
        shape = broadcast_shape(agents, arms, times)
        rows = math.prod(shape)
        if rows == 0:
            return shape, 0
        if rows > MANY_ROWS:
            keep_freed_memory()
        if isinstance(times, int):
            total = rows * times
        else:
            # The float sum cannot overflow and is far more precise than the limit it is compared with.
            rough = float(times.sum(dtype=np.float64)) * (rows / times.size)
            total = int(times.sum()) * (rows // times.size) if rough < MAX_PULLS else int(rough)
        if self.total + total > self.limit:
            raise BudgetExceeded(
                f"{self.total:,} pulls made; {total:,} more would exceed max_pulls = {self.limit:,}"
            )
        if self.total + total > self.agent_limit:  # otherwise no agent can be beyond its limit
            self._check_agents(agents, times, shape)
        return shape, total

    def _check_agents(self, agents: Ints, times: Ints | int, shape: tuple[int, ...]) -> None:
        """Raise where these pulls would exceed the limit of an agent."""
        more = np.zeros_like(self.per_agent)
        np.add.at(more, np.broadcast_to(agents, shape), np.broadcast_to(times, shape))
        beyond = np.flatnonzero(self.per_agent + more > self.agent_limit)
        if beyond.size:
            raise self.agent_exceeded(int(beyond[0]), int(more[beyond[0]]))

    def agent_exceeded(self, agent: int, more: int) -> BudgetExceeded:
        """The error for `more` pulls at `agent`, which would exceed its limit."""
        return BudgetExceeded(
            f"agent {agent} has made {self.per_agent[agent]:,} pulls; {more:,} more would exceed "
            f"max_pulls_per_agent = {self.agent_limit:,}"
        )

    def count(
        self, phase: str, agents: Ints, times: Ints | int, shape: tuple[int, ...], total: int
    ) -> None:
        """Add pulls that `admit` has let through, with the shape and the total that it gave."""
        self.total += total
        self.by_phase[phase] = self.by_phase.get(phase, 0) + total
        per_agent = self.per_agent
        if agents.size == 1:
            per_agent[agents.item()] += total
        elif isinstance(times, int) and len(shape) == 2 and agents.shape == (shape[0], 1):
            np.add.at(per_agent, agents[:, 0], times * shape[1])
        elif isinstance(times, int):
            flat = (
                agents.ravel() if agents.shape == shape else np.broadcast_to(agents, shape).ravel()
            )
            if flat.size * 4 < per_agent.size:
                np.add.at(per_agent, flat, times)
            else:
                per_agent += np.bincount(flat, minlength=per_agent.size) * times
        elif agents.shape == times.shape == shape:
            np.add.at(per_agent, agents.ravel(), times.ravel())
        else:
            np.add.at(
                per_agent,
                np.broadcast_to(agents, shape).ravel(),
                np.broadcast_to(times, shape).ravel(),
            )
