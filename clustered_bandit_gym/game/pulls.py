"""Where rewards come from, and how many pulls can be asked for."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Protocol

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, Floats, Ints, Rng, Times
from clustered_bandit_gym.errors import BudgetExceeded, UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import child_seed

#: What is wanted of the rewards of a request: their averages, or how often each value occurred.
Kind = Literal["averages", "counts"]
#: Largest number of pulls of one arm in one request: whole numbers up to here are exact in float64.
MAX_TIMES = 2**53
#: Largest number of pulls in one play: counts are int64.
MAX_PULLS = 2**62


def whole_times(times: ArrayLike) -> Ints:
    """`times` as an int64 array, checked to lie in 1..`MAX_TIMES`."""
    if isinstance(times, int | np.integer) and not isinstance(times, bool):
        # Exact, whatever a subclass of int says of itself.
        times = min(operator.index(times), MAX_TIMES + 1)
    array = np.asarray(times)
    if array.size and (array.dtype.kind not in "iu" or array.min() < 1):
        raise UserError(f"times must be whole numbers >= 1, got {times}")
    if array.max(initial=1) > MAX_TIMES:
        raise BudgetExceeded(f"more than {MAX_TIMES:,} pulls of one arm in one request")
    return array.astype(int, copy=False)


class Source(Protocol):
    """Draws the rewards of one play, e.g. from a tilted law; indices are valid."""

    def draw(self, agents: Ints, arms: Ints, times: Times, kind: Kind) -> Array:
        """`times` fresh pulls of `arms` at `agents`, integer arrays that broadcast: "averages", or
        "counts" (..., S) of the values that rewards can take."""
        ...

    def single(self, agent: int, arm: int) -> float:
        """One pull."""
        ...


class Simulator:
    """Draws from the laws of an instance, in O(1) for any number of pulls.

    Args:
        instance: the truth.
        rng: the play's stream of rewards.
    """

    def __init__(self, instance: Instance, rng: Rng) -> None:
        self._clusters = instance.clusters
        self._means = instance.means
        self._rewards = instance.rewards
        self._rng = rng

    def draw(self, agents: Ints, arms: Ints, times: Times, kind: Kind = "averages") -> Array:
        law = self._rewards.average if kind == "averages" else self._rewards.counts
        clusters = self._clusters.take(agents)
        return law(self._rng, self._means, clusters, arms, times)

    def single(self, agent: int, arm: int) -> float:
        cluster = self._clusters.item(agent)  # plain ints are the fastest index
        return self._rewards.single(self._rng, self._means, cluster, arm)


class CellByCell(ABC):
    """Draws the cells of a request one after the other."""

    def draw(self, agents: Ints, arms: Ints, times: Times, kind: Kind) -> Array:
        cells = np.broadcast(agents, arms, times)
        drawn = np.array(
            [self.draw_cell(int(agent), int(arm), int(n), kind) for agent, arm, n in cells]
        )
        return drawn.reshape((*cells.shape, *drawn.shape[1:]))

    @abstractmethod
    def draw_cell(self, agent: int, arm: int, n: int, kind: Kind) -> Any:
        """`n` pulls of an arm at an agent."""

    def single(self, agent: int, arm: int) -> float:
        """One pull."""
        return float(self.draw_cell(agent, arm, 1, "averages"))


class Steps(CellByCell):
    """Draws every pull by a call `step(agent, arm)` that returns the reward.

    Args:
        step: makes one pull.
        values: (S,) the values that rewards can take; None where they are not finitely many.
    """

    def __init__(self, step: Callable[[int, int], float], values: Floats | None) -> None:
        self._step = step
        self._values = values

    def draw_cell(self, agent: int, arm: int, n: int, kind: Kind) -> Any:
        rewards = [self._step(agent, arm) for _ in range(n)]
        if kind == "averages":
            return sum(rewards) / n
        assert self._values is not None
        return np.bincount(np.searchsorted(self._values, rewards), minlength=self._values.size)


class OwnStreams(CellByCell):
    """A `Source` in which every arm of every agent has a stream of rewards of its own.

    The rewards of an agent then depend on its own pulls alone, not on which agents are pulled at
    the same time, so a play must be the same in blocks of any size. For checks on small games; it
    loops over the cells of every request.

    Args:
        instance: the truth.
        seed: of the streams.
    """

    def __init__(self, instance: Instance, seed: SeedSequence) -> None:
        def simulator(agent: int, arm: int) -> Simulator:
            return Simulator(instance, np.random.default_rng(child_seed(seed, agent, arm)))

        self._of = cache(simulator)

    def draw_cell(self, agent: int, arm: int, n: int, kind: Kind) -> Any:
        return self._of(agent, arm).draw(np.array(agent), np.array(arm), n, kind)
