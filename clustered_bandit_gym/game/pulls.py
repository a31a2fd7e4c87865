"""Pulls of a play: their arguments checked, the pulls counted, the budget kept."""

from __future__ import annotations

import math
import operator

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import BudgetExceeded, UserError

#: Largest number of pulls of one arm in one request: whole numbers up to here are exact in float64.
MAX_TIMES = 2**53
#: Largest number of pulls in one play: counts are int64.
MAX_PULLS = 2**62


def indices(values: ArrayLike, size: int, what: str) -> Ints:
    """`values` as int64, each checked to lie in 0..size−1; `what` names them in the error."""
    ids = np.asarray(values)
    if ids.dtype.kind not in "iu" and ids.size:
        raise UserError(f"{what} indices must be integers, got {ids.dtype}")
    if ids.size and (ids.min() < 0 or ids.max() >= size):
        bad = ids[(ids < 0) | (ids >= size)].flat[0]
        raise UserError(f"{what} {bad} is out of range: {what}s run from 0 to {size - 1}")
    return ids.astype(np.int64, copy=False)


def whole_times(times: ArrayLike) -> Ints | int:
    """`times` as a plain int or an int64 array, checked to lie in 1..`MAX_TIMES`."""
    if isinstance(times, int) and not isinstance(times, bool):
        times = operator.index(times)  # exact, whatever a subclass of int says of itself
    array = np.asarray(times)
    if array.dtype.kind not in "iu" and type(times) is not int:
        raise UserError(f"times must be whole numbers, got {array.dtype}")
    if array.size == 0:
        return array.astype(np.int64)
    least = int(array.min())
    most = int(array.max())
    if least < 1:
        raise UserError(f"an arm is pulled at least once: times must be >= 1, got {least}")
    if most > MAX_TIMES:
        raise BudgetExceeded(
            f"{most:,} pulls of one arm in one request; at most {MAX_TIMES:,} can be counted "
            "exactly"
        )
    return most if array.ndim == 0 else array.astype(np.int64, copy=False)


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
        shape = np.broadcast(agents, arms, times).shape
        rows = math.prod(shape)
        if isinstance(times, int):
            total = rows * times
        else:
            each = np.broadcast_to(times, shape)
            # The sum of floats cannot overflow, and tells whether that of integers would.
            total = int(each.sum(dtype=np.float64))
            if total < MAX_PULLS:
                total = int(each.sum())
        if self.total + total > self.limit:
            raise BudgetExceeded(
                f"{self.total:,} pulls made; {total:,} more would exceed max_pulls = {self.limit:,}"
            )
        if self.total + total > self.agent_limit:  # otherwise no agent can be beyond its limit
            more = np.zeros_like(self.per_agent)
            _add(more, agents, times, shape)
            beyond = np.flatnonzero(self.per_agent + more > self.agent_limit)
            if beyond.size:
                raise self.agent_exceeded(int(beyond[0]), int(more[beyond[0]]))
        return shape, total

    def count(
        self, phase: str, agents: Ints, times: Ints | int, shape: tuple[int, ...], total: int
    ) -> None:
        """Add pulls that `admit` has let through, with the shape and the total that it gave."""
        self.total += total
        self.by_phase[phase] = self.by_phase.get(phase, 0) + total
        _add(self.per_agent, agents, times, shape)

    def agent_exceeded(self, agent: int, more: int) -> BudgetExceeded:
        """The error for `more` pulls at `agent`, which would exceed its limit."""
        return BudgetExceeded(
            f"agent {agent} has made {self.per_agent[agent]:,} pulls; {more:,} more would exceed "
            f"max_pulls_per_agent = {self.agent_limit:,}"
        )


def _add(counts: Ints, agents: Ints, times: Ints | int, shape: tuple[int, ...]) -> None:
    """Add `times` pulls at `agents`, which broadcast to `shape`, to the counts (N,) of the agents."""
    if isinstance(times, int) and len(shape) == 2 and agents.shape == (shape[0], 1):
        # A grid of agents and arms: one addition per agent, not one per cell, which saves a fifth
        # of a large play.
        np.add.at(counts, agents[:, 0], times * shape[1])
    else:
        np.add.at(counts, np.broadcast_to(agents, shape), np.broadcast_to(times, shape))
