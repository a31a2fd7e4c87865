"""Where rewards come from: the seam between a play and its randomness.

A `Federation` checks, counts and bills pulls; a source draws the rewards. The default simulates the
instance. Another source can draw from a tilted law, or pass every pull on to another simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance


class Source(Protocol):
    """Draws the rewards of one play. Indices are valid and counted by the caller."""

    def averages(self, agents: Ints, arms: Ints, times: Ints | int) -> Floats:
        """Averages of `times` fresh pulls of `arms` at `agents`: integer arrays that broadcast."""
        ...

    def counts(self, agents: Ints, arms: Ints, times: Ints | int) -> Ints:
        """How often each value of the reward model comes up in `times` fresh pulls: (..., S).
        `ValueError` where it has infinitely many."""
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

    def __init__(self, instance: Instance, rng: np.random.Generator) -> None:
        self._instance, self._rng = instance, rng

    def averages(self, agents: Ints, arms: Ints, times: Ints | int) -> Floats:
        instance = self._instance
        clusters = np.asarray(instance.clusters.take(agents))
        return np.asarray(
            instance.rewards.average(self._rng, instance.means, clusters, arms, times)
        )

    def counts(self, agents: Ints, arms: Ints, times: Ints | int) -> Ints:
        instance = self._instance
        clusters = np.asarray(instance.clusters.take(agents))
        return instance.rewards.counts(self._rng, instance.means, clusters, arms, times)

    def single(self, agent: int, arm: int) -> float:
        instance = self._instance
        rewards = instance.rewards
        # `item`: plain ints are the fastest index.
        return float(
            rewards.single(
                instance.means, instance.clusters.item(agent), arm, rewards.noise(self._rng)
            )
        )


class Steps:
    """Draws every pull by a call `step(agent, arm)` that returns the reward.

    Args:
        step: makes one pull.
        values: (S,) the values that rewards can take; None where they are not finitely many.
    """

    def __init__(self, step: Callable[[int, int], float], values: Floats | None) -> None:
        self._step, self._values = step, values

    def averages(self, agents: Ints, arms: Ints, times: Ints | int) -> Floats:
        return _by_cell(
            lambda i, k, n: sum(self._step(i, k) for _ in range(n)) / n, agents, arms, times
        )

    def counts(self, agents: Ints, arms: Ints, times: Ints | int) -> Ints:
        values = self._values
        assert values is not None

        def count(agent: int, arm: int, n: int) -> Ints:
            rewards = [self._step(agent, arm) for _ in range(n)]
            return np.bincount(np.searchsorted(values, rewards), minlength=values.size)

        return _by_cell(count, agents, arms, times)

    def single(self, agent: int, arm: int) -> float:
        return self._step(agent, arm)


def _by_cell(
    draw: Callable[[int, int, int], Any], agents: Ints, arms: Ints, times: Ints | int
) -> NDArray[Any]:
    """`draw(agent, arm, n)` for each cell of a request, in its shape."""
    agents, arms, counts = np.broadcast_arrays(agents, arms, times)
    cells = zip(
        agents.ravel().tolist(), arms.ravel().tolist(), counts.ravel().tolist(), strict=True
    )
    drawn = np.array([draw(*cell) for cell in cells])
    return drawn.reshape(*agents.shape, *drawn.shape[1:])


class OwnStreams:
    """A `Source` in which every arm of every agent has a stream of rewards of its own.

    The rewards of an agent then depend on its own pulls alone, not on which agents are pulled at
    the same time, so a play must be the same in blocks of any size. For checks on small games; it
    loops over the cells of every request.

    Args:
        instance: the truth.
        seed: of the streams.
    """

    def __init__(self, instance: Instance, seed: np.random.SeedSequence) -> None:
        self._instance, self._seed = instance, seed
        self._simulators: dict[tuple[int, int], Simulator] = {}

    def averages(self, agents: Ints, arms: Ints, times: Ints | int) -> Floats:
        return _by_cell(
            lambda i, k, n: self._of(i, k).averages(np.array(i), np.array(k), n),
            agents,
            arms,
            times,
        )

    def counts(self, agents: Ints, arms: Ints, times: Ints | int) -> Ints:
        return _by_cell(
            lambda i, k, n: self._of(i, k).counts(np.array(i), np.array(k), n), agents, arms, times
        )

    def single(self, agent: int, arm: int) -> float:
        return self._of(agent, arm).single(agent, arm)

    def _of(self, agent: int, arm: int) -> Simulator:
        if (agent, arm) not in self._simulators:
            seed = np.random.SeedSequence(
                self._seed.entropy, spawn_key=(*self._seed.spawn_key, agent, arm)
            )
            self._simulators[agent, arm] = Simulator(self._instance, np.random.default_rng(seed))
        return self._simulators[agent, arm]
