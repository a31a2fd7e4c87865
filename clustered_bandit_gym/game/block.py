"""The agents' side of a play: what a local program gets."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import PlayOver, UserError
from clustered_bandit_gym.game.checks import indices, read_only, whole_times
from clustered_bandit_gym.game.problem import Problem


class Play(Protocol):
    """What a block needs of the federation that made it."""

    told: Problem
    arms: Ints
    #: What agents have saved: name -> array with one row per agent.
    memory: dict[str, np.ndarray]

    @property
    def coins(self) -> Any: ...

    @property
    def reward_values(self) -> Floats | None: ...

    def draw(self, agents: Ints, arms: Ints, times: Ints | int) -> Floats: ...

    def draw_counts(self, agents: Ints, arms: Ints, times: Ints | int) -> Ints: ...


class Block:
    """Agents that run a local program side by side; rows 0..n−1 are `agents`.

    A block is valid while the program runs: the centre cannot keep it to pull arms without sending
    anything.
    """

    def __init__(self, federation: Play, agents: Ints, whole: Block | None = None) -> None:
        self._play = federation
        self._whole = whole or self
        self._over = False
        self._agents = read_only(agents)

    def __len__(self) -> int:
        return int(self._agents.size)

    @property
    def agents(self) -> Ints:
        """(n,) the ids of the agents, read-only."""
        return self._agents

    @property
    def problem(self) -> Problem:
        """What the learner is told."""
        return self._play.told

    @property
    def values(self) -> Floats | None:
        """(S,) the values that rewards can take, increasing; None where they are not finitely many."""
        return self._play.reward_values

    @property
    def _federation(self) -> Play:
        if self._whole._over:
            raise PlayOver(
                "this block's program has returned; start another one with federation.local(...)"
            )
        return self._play

    def close(self) -> None:
        """End the block: the program has returned, and any later use raises `PlayOver`."""
        self._over = True

    def part(self, rows: ArrayLike) -> Block:
        """The agents of `rows` as a block of their own."""
        return Block(
            self._federation, self._agents[indices(rows, len(self), "row")], whole=self._whole
        )

    def pull(self, rows: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Floats:
        """Average of `times` fresh pulls of `arms` at the agents of `rows` (integer arrays that
        broadcast).

        A grid `pull(rows[:, None], arms[None, :], n)` is the fastest form.
        """
        fed = self._federation
        ids = self._agents[indices(rows, len(self), "row")]
        return fed.draw(ids, indices(arms, self.problem.n_arms, "arm"), whole_times(times))

    def pull_grid(self, times: int) -> Floats:
        """Average of `times` fresh pulls of every arm at every agent of the block: (n, K)."""
        federation = self._federation
        return federation.draw(self._agents[:, None], federation.arms[None, :], whole_times(times))

    def pull_counts(self, rows: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Ints:
        """As `pull`, but returns how often each of `values` occurred instead of an average: (...,
        S).

        An agent sees its rewards one by one; the counts hold everything about them except their
        order.
        """
        fed = self._federation
        ids = self._agents[indices(rows, len(self), "row")]
        return fed.draw_counts(ids, indices(arms, self.problem.n_arms, "arm"), whole_times(times))

    def random(self, size: int) -> Floats:
        """(n, size) uniform random numbers in [0, 1), each row its agent's own: the same in
        whatever block it is."""
        return self._federation.coins.uniform(self._agents, size)

    def save(self, name: str, values: np.ndarray) -> None:
        """Keep `values` (n, ...) at the agents for a later program: what stays at an agent is not
        sent."""
        memory, values = self._federation.memory, np.asarray(values)
        if values.ndim == 0 or values.shape[0] != len(self):
            raise UserError(
                f"save {name!r}: one row for each of {len(self)} agents, got shape {values.shape}"
            )
        if name not in memory:
            memory[name] = np.zeros((self.problem.n_agents, *values.shape[1:]), dtype=values.dtype)
        kept = memory[name]
        if kept.shape[1:] != values.shape[1:] or kept.dtype != values.dtype:
            raise UserError(
                f"save {name!r}: agents already keep {kept.dtype} rows of shape {kept.shape[1:]} under that name, "
                f"not {values.dtype} {values.shape[1:]}; take another name"
            )
        kept[self.agents] = values

    def load(self, name: str) -> np.ndarray:
        """What these agents saved under `name`: (n, ...), zeros where an agent saved nothing."""
        memory = self._federation.memory
        if name not in memory:
            raise KeyError(f"no agent has saved {name!r}")
        return memory[name][self.agents]
