"""The agents' side of a play: what a local program gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import PlayOver, UserError
from clustered_bandit_gym.game.payloads import read_only
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.pulls import indices, whole_times

if TYPE_CHECKING:
    from clustered_bandit_gym.game.federation import Federation


class Block:
    """Agents that run a local program side by side; rows 0..n−1 are `agents`.

    A block is valid while the program runs: the centre cannot keep it to pull arms without sending
    anything.
    """

    def __init__(self, federation: Federation, agents: Ints, whole: Block | None = None) -> None:
        self._play = federation
        self._whole = whole or self
        self._over = False
        self._agents: Ints = read_only(agents)

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
    def _federation(self) -> Federation:
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
        return Block(self._federation, self._ids(rows), whole=self._whole)

    def _ids(self, rows: ArrayLike) -> Ints:
        return self._agents[indices(rows, len(self), "row")]

    def pull(self, rows: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Floats:
        """Average of `times` fresh pulls of `arms` at the agents of `rows` (integer arrays that
        broadcast).

        A grid `pull(rows[:, None], arms[None, :], n)` is the fastest form.
        """
        arm_ids = indices(arms, self.problem.n_arms, "arm")
        return self._federation.draw(self._ids(rows), arm_ids, whole_times(times))

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
        arm_ids = indices(arms, self.problem.n_arms, "arm")
        return self._federation.draw_counts(self._ids(rows), arm_ids, whole_times(times))

    def random(self, size: int) -> Floats:
        """(n, size) uniform random numbers in [0, 1), each row its agent's own: the same in
        whatever block it is."""
        return self._federation.agent_streams.uniform(self._agents, size)

    def save(self, name: str, values: ArrayLike) -> None:
        """Keep `values` (n, ...) at the agents for a later program: what stays at an agent is not
        sent."""
        memory = self._federation.memory
        values = np.asarray(values)
        if values.ndim == 0 or values.shape[0] != len(self):
            raise UserError(
                f"save {name!r}: one row for each of {len(self)} agents, got shape {values.shape}"
            )
        if name not in memory:
            memory[name] = np.zeros((self.problem.n_agents, *values.shape[1:]), dtype=values.dtype)
        kept = memory[name]
        if kept.shape[1:] != values.shape[1:] or kept.dtype != values.dtype:
            raise UserError(
                f"save {name!r}: agents already keep {kept.dtype} rows of shape {kept.shape[1:]} "
                f"under that name, not {values.dtype} {values.shape[1:]}; take another name"
            )
        kept[self.agents] = values

    def load(self, name: str) -> NDArray[Any]:
        """What these agents saved under `name`: (n, ...), zeros where an agent saved nothing."""
        memory = self._federation.memory
        if name not in memory:
            raise KeyError(f"no agent has saved {name!r}")
        return memory[name][self.agents]
