"""The agents' side of a play: what a local program gets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, Floats, Ints
from clustered_bandit_gym.errors import PlayOver, UserError
from clustered_bandit_gym.game.checks import indices
from clustered_bandit_gym.game.payloads import read_only
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.pulls import Play, whole_times


class Block:
    """Agents that run a local program side by side; rows 0..n−1 are `agents`.

    A block is valid while the program runs: the centre cannot keep it to pull arms without sending
    anything.
    """

    def __init__(self, play: Play, agents: Ints, whole: Block | None = None) -> None:
        self._play = play
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
    def _open_play(self) -> Play:
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
        return Block(self._open_play, self._ids(rows), whole=self._whole)

    def _ids(self, rows: ArrayLike) -> Ints:
        return self._agents[indices(rows, len(self), "row")]

    def pull(self, rows: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Floats:
        """Average of `times` fresh pulls of `arms` at the agents of `rows` (integer arrays that
        broadcast).

        A grid `pull(rows[:, None], arms[None, :], n)` is the fastest form.
        """
        arm_ids = indices(arms, self.problem.n_arms, "arm")
        return self._open_play.draw(self._ids(rows), arm_ids, whole_times(times))

    def pull_grid(self, times: int) -> Floats:
        """Average of `times` fresh pulls of every arm at every agent of the block: (n, K)."""
        play = self._open_play
        return play.draw(self._agents[:, None], play.arms[None, :], whole_times(times))

    def pull_counts(self, rows: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Ints:
        """As `pull`, but returns how often each of `values` occurred instead of an average: (...,
        S).

        An agent sees its rewards one by one; the counts hold everything about them except their
        order.
        """
        arm_ids = indices(arms, self.problem.n_arms, "arm")
        return self._open_play.draw_counts(self._ids(rows), arm_ids, whole_times(times))

    def random(self, size: int) -> Floats:
        """(n, size) uniform random numbers in [0, 1), each row its agent's own: the same in
        whatever block it is."""
        return self._open_play.agent_streams.uniform(self._agents, size)

    def save(self, name: str, values: ArrayLike) -> None:
        """Keep `values` (n, ...) at the agents for a later program: what stays at an agent is not
        sent."""
        values = np.asarray(values)
        empty = np.zeros((self.problem.n_agents, *values.shape[1:]), dtype=values.dtype)
        kept = self._open_play.memory.get(name, empty)
        if values.shape != (len(self), *kept.shape[1:]) or values.dtype != kept.dtype:
            raise UserError(
                f"save {name!r}: expected {kept.dtype} of shape {(len(self), *kept.shape[1:])}, got "
                f"{values.dtype} of shape {values.shape}; each name keeps rows of one form"
            )
        kept[self.agents] = values
        self._open_play.memory[name] = kept

    def load(self, name: str) -> Array:
        """What these agents saved under `name`: (n, ...), zeros where an agent saved nothing."""
        memory = self._open_play.memory
        if name not in memory:
            raise KeyError(f"no agent has saved {name!r}")
        return memory[name][self.agents]
