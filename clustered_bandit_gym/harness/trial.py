"""The trials of a run: `Task` names one by three numbers, `Work` holds what all of them share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.harness.cell import Cell
from clustered_bandit_gym.harness.play import Row, TrialSpec, lost_row, play_trial, plays_directly


class ClusterLost(UserError):
    """The cluster does not answer any more. What has ended is kept; the rest was not played."""


class Task(NamedTuple):
    """Which trial of which policy on which cell: positions in `Work`."""

    cell: int
    player: int
    trial: int


@dataclass
class Work:
    """All that the tasks of a run share.

    Attributes:
        cells: settings of environments.
        players: policies as (label, object).
        seed, bound, stepwise, strict: as in `play`.
    """

    cells: list[Cell]
    players: list[tuple[str, Any]]
    seed: int
    bound: bool = True
    stepwise: bool = False
    strict: bool = True
    _envs: dict[int, gym.Env[Any, Any]] = field(default_factory=dict, repr=False)
    #: The instance drawn last, with its cell and trial: all policies of a trial play on it.
    _drawn: tuple[int, int, Instance] | None = field(default=None, repr=False)

    def ready(self, task: Task) -> tuple[TrialSpec, gym.Env[Any, Any], Instance | None]:
        """Everything that `play_trial` needs for a task."""
        label, policy = self.players[task.player]
        spec = TrialSpec(
            self.cells[task.cell],
            policy,
            label,
            self.seed,
            task.trial,
            stepwise=self.stepwise,
            strict=self.strict,
            bound=self.bound,
        )
        if not plays_directly(policy, self.stepwise):
            return spec, self.env(task.cell), None  # the environment draws it at its reset
        if self._drawn is None or self._drawn[:2] != (task.cell, task.trial):
            unwrapped: Any = self.env(task.cell).unwrapped
            instance = unwrapped.draw_instance(trial_seeds(self.seed, task.trial).instance)
            self._drawn = (task.cell, task.trial, instance)
        return spec, self.env(task.cell), self._drawn[2]

    def check(self, cell: int) -> None:
        """Draw the first instance of a cell: invalid settings raise here."""
        unwrapped: Any = self.env(cell).unwrapped
        seeds = trial_seeds(self.seed, 0)
        instance = unwrapped.draw_instance(seeds.instance)
        unwrapped.problem_of(instance)
        self._drawn = (cell, 0, instance)

    def do(self, task: Task) -> Row:
        """Play one task."""
        return play_trial(*self.ready(task))

    def lost(self, task: Task, outcome: str, message: str) -> Row:
        """The row of a task whose process was lost: "crash" or "timeout"."""
        return lost_row(*self.ready(task), outcome, message)

    def env(self, cell: int) -> gym.Env[Any, Any]:
        """The environment of a cell, made once per process."""
        if cell not in self._envs:
            self._envs[cell] = self.cells[cell].make()
        return self._envs[cell]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_envs": {}, "_drawn": None}
