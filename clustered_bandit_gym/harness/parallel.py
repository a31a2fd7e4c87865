"""Trials over processes: of this machine (`processes`), or of a Dask or Ray cluster (`clusters`).

Rows come back as they end. Environments and players are packed once; a task is three numbers. Policies
of a user's own module travel with their code, so that a worker never plays an older version of an edited file.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

import cloudpickle
import gymnasium as gym
import joblib

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.cell import Cell
from clustered_bandit_gym.harness.clusters import play_on
from clustered_bandit_gym.harness.imports import PACKAGE
from clustered_bandit_gym.harness.play import Row, lost_row, play
from clustered_bandit_gym.harness.processes import supervise

BACKENDS = ("loky", "dask", "ray")
_NEEDS = {"loky": "joblib", "dask": "distributed", "ray": "ray"}


class Task(NamedTuple):
    """Which trial of which player on which environment: positions in `Work`."""

    cell: int
    player: int
    trial: int


@dataclass
class Work:
    """All that the tasks of a run share.

    Attributes:
        cells: environments.
        players: policies as (label, object).
        seed, bound, stepwise, strict: as in `play`.
    """

    cells: list[Cell]
    players: list[tuple[str, Any]]
    seed: int
    bound: bool = True
    stepwise: bool = False
    strict: bool = False
    _envs: dict[int, gym.Env[Any, Any]] = field(default_factory=dict, repr=False)

    def do(self, task: Task) -> Row:
        """Play one task."""
        label, policy = self.players[task.player]
        return play(
            policy,
            self.env(task.cell),
            self.seed,
            self.stepwise,
            strict=self.strict,
            trial=task.trial,
            bound=self.bound,
            label=label,
            env_kwargs=self.cells[task.cell].plain_kwargs,
        )

    def lost(self, task: Task, outcome: str, message: str) -> Row:
        """The row of a task whose process was lost: "crash" or "timeout"."""
        label, policy = self.players[task.player]
        return lost_row(
            policy,
            self.env(task.cell),
            self.seed,
            self.stepwise,
            outcome=outcome,
            message=message,
            strict=self.strict,
            trial=task.trial,
            bound=self.bound,
            label=label,
            env_kwargs=self.cells[task.cell].plain_kwargs,
        )

    def env(self, cell: int) -> gym.Env[Any, Any]:
        """The environment of a cell, made once per process."""
        if cell not in self._envs:
            self._envs[cell] = self.cells[cell].make()
        return self._envs[cell]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_envs": {}}


def run(
    work: Work,
    tasks: Sequence[Task],
    n_jobs: int = 1,
    backend: str | None = None,
    address: str | None = None,
    max_seconds: float | None = None,
) -> Generator[tuple[Task, Row]]:
    """Play the tasks; yields (task, row) as trials end, in any order. Invalid arguments raise immediately.

    Args:
        n_jobs: processes; -1 for all cores. A running cluster plays on all of its workers. 1 without a backend or
            `max_seconds` stays in this process; a trial that kills it ends the run.
        backend: "loky" (default: processes of this machine), "dask" or "ray".
        address: of a running dask scheduler or ray cluster; None starts a local one.
        max_seconds: a trial that takes longer is ended; its outcome is "timeout". Local processes only.
    """
    check_backend(backend, address, max_seconds)
    n_jobs = count_jobs(n_jobs)
    if n_jobs == 1 and backend is None and max_seconds is None:
        return ((task, work.do(task)) for task in tasks)
    if backend in (None, "loky"):
        return supervise(pack(work), tasks, n_jobs, max_seconds)
    if backend == "dask":
        from clustered_bandit_gym.harness.dask_cluster import DaskCluster

        return play_on(DaskCluster(pack(work), n_jobs, address), work, tasks)
    from clustered_bandit_gym.harness.ray_cluster import play_on_ray

    return play_on_ray(pack(work), tasks, n_jobs, address)


def check_backend(
    backend: str | None, address: str | None, max_seconds: float | None = None
) -> None:
    """Raises `UserError` unless the backend is known and installed, and takes an address or a limit if one is given."""
    if max_seconds is not None and not max_seconds > 0:
        raise UserError(f"max_seconds must be positive, got {max_seconds}")
    if max_seconds is not None and backend in ("dask", "ray"):
        raise UserError(
            f"max_seconds needs processes of this machine; leave out backend={backend!r}"
        )
    if backend is not None and backend not in BACKENDS:
        raise UserError(f"unknown backend {backend!r}; choose one of {', '.join(BACKENDS)}")
    if address is not None and backend not in ("dask", "ray"):
        raise UserError("an address needs backend='dask' or 'ray'")
    if backend is not None and find_spec(_NEEDS[backend]) is None:
        raise UserError(
            f"backend {backend!r} is not installed: pip install 'clustered-bandit-gym[{backend}]'"
        )


def count_jobs(n_jobs: int) -> int:
    """`n_jobs` as a number of processes."""
    if n_jobs == 0 or int(n_jobs) != n_jobs:
        raise UserError(
            f"n_jobs must be a whole number >= 1, or -1 for all cores, -2 for all but one; got {n_jobs}"
        )
    return int(n_jobs) if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + int(n_jobs))


def pack(work: Work) -> bytes:
    """The work as bytes; classes of users' own modules by value."""
    mine = []
    for _, policy in work.players:
        name = type(policy).__module__
        if name != "__main__" and name.split(".")[0] != PACKAGE and name in sys.modules:
            module = sys.modules[name]
            if name not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                mine.append(module)
    try:
        return bytes(cloudpickle.dumps(work))
    except Exception as error:
        raise UserError(
            f"a policy or environment cannot be sent to another process ({type(error).__name__}: {error}); use n_jobs=1"
        ) from error
    finally:
        for module in mine:
            cloudpickle.unregister_pickle_by_value(module)
