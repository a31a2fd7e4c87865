"""Trials over processes, through joblib: loky here, dask or ray on a cluster. Rows come back as they end.

Environments and players are packed once and shipped as one array, which joblib maps into memory (loky) or scatters
(dask); a task is three numbers. Policies of a user's own module travel with their code, so that a worker never plays
an older version of an edited file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cloudpickle
import gymnasium as gym
import joblib
import numpy as np

from clustered_bandit_gym.harness.play import Row, play
from clustered_bandit_gym.harness.specs import PACKAGE

BACKENDS = ("loky", "dask", "ray")


class Task(NamedTuple):
    """Which trial of which player on which environment: positions in `Work`."""

    cell: int
    player: int
    trial: int


@dataclass
class Work:
    """All that the tasks of a run share.

    Attributes:
        cells: environments as (id, keywords).
        players: policies as (label, object).
        seed, bound, stepwise: as in `play`.
    """

    cells: list[tuple[str, dict[str, Any]]]
    players: list[tuple[str, Any]]
    seed: int
    bound: bool = True
    stepwise: bool = False
    _envs: dict[int, gym.Env[Any, Any]] = field(default_factory=dict, repr=False)

    def do(self, task: Task) -> Row:
        """Play one task."""
        label, policy = self.players[task.player]
        return play(
            policy,
            self.env(task.cell),
            self.seed,
            self.stepwise,
            trial=task.trial,
            bound=self.bound,
            label=label,
            env_kwargs=self.cells[task.cell][1],
        )

    def env(self, cell: int) -> gym.Env[Any, Any]:
        """The environment of a cell, made once per process."""
        if cell not in self._envs:
            env_id, kwargs = self.cells[cell]
            self._envs[cell] = gym.make(env_id, disable_env_checker=True, **kwargs)
        return self._envs[cell]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_envs": {}}


def run(
    work: Work, tasks: Sequence[Task], n_jobs: int = 1, backend: str | None = None, address: str | None = None
) -> Generator[tuple[Task, Row]]:
    """Play the tasks; yields (task, row) as rows are ready, in any order.

    Args:
        n_jobs: processes; -1 for all cores. 1 without a backend stays in this process.
        backend: "loky" (default), "dask" or "ray".
        address: of a running dask scheduler or ray cluster; None starts a local one.
    """
    if backend is not None and backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; there are {', '.join(BACKENDS)}")
    if address is not None and backend not in ("dask", "ray"):
        raise ValueError("an address needs backend='dask' or 'ray'")
    n_jobs = count_jobs(n_jobs)
    if not tasks:
        return
    if n_jobs == 1 and backend is None:
        for task in tasks:
            yield task, work.do(task)
        return
    packed = np.frombuffer(_pack(work), dtype=np.uint8)
    token = hashlib.sha256(packed.tobytes()).hexdigest()
    paths = [path or os.getcwd() for path in sys.path]
    calls = (joblib.delayed(_do)(token, packed, paths, os.getpid(), task) for task in tasks)
    with _backend(backend or "loky", n_jobs, address):
        if backend == "ray":  # ray's pool hands back lists only: in waves, so that rows are kept as a wave ends
            yield from _in_waves(calls, 8 * n_jobs)
            return
        results = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size="auto")(calls)
        try:
            yield from results
        finally:
            results.close()


def count_jobs(n_jobs: int) -> int:
    """`n_jobs` as a number of processes."""
    if n_jobs == 0 or int(n_jobs) != n_jobs:
        raise ValueError(f"n_jobs must be a whole number >= 1, or -1 for all cores; got {n_jobs}")
    return int(n_jobs) if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + int(n_jobs))


def _in_waves(calls: Iterator[Any], size: int) -> Iterator[tuple[Task, Row]]:
    parallel = joblib.Parallel()
    while wave := [call for _, call in zip(range(size), calls, strict=False)]:
        yield from parallel(wave)


@contextlib.contextmanager
def _backend(name: str, n_jobs: int, address: str | None) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if name == "dask":
            try:
                from distributed import Client, LocalCluster
            except ImportError as error:
                raise ValueError("backend 'dask' is not installed: pip install 'clustered-bandit-gym[dask]'") from error
            if address is None:
                cluster = LocalCluster(n_workers=n_jobs, threads_per_worker=1, dashboard_address=None)
                address = stack.enter_context(cluster)
            stack.enter_context(Client(address))
        elif name == "ray":
            try:
                import ray
                from ray.util.joblib import register_ray
            except ImportError as error:
                raise ValueError("backend 'ray' is not installed: pip install 'clustered-bandit-gym[ray]'") from error
            register_ray()
            ray.init(address=address, ignore_reinit_error=True)
        threads = {"inner_max_num_threads": 1} if name == "loky" else {}
        stack.enter_context(joblib.parallel_config(backend=name, n_jobs=n_jobs, **threads))
        yield


def _pack(work: Work) -> bytes:
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
        raise ValueError(
            f"a policy or environment cannot be sent to another process ({type(error).__name__}: {error}); use n_jobs=1"
        ) from error
    finally:
        for module in mine:
            cloudpickle.unregister_pickle_by_value(module)


# --- in the worker ---------------------------------------------------------------------------------------------------

_loaded: dict[str, Work] = {}
#: Threads of one worker (dask may have several) take turns: environments and global random states are not shared.
_turn = threading.Lock()


def _do(token: str, packed: np.ndarray, paths: list[str], parent: int, task: Task) -> tuple[Task, Row]:
    with _turn:
        if token not in _loaded:
            if os.getpid() != parent and threading.current_thread() is threading.main_thread():
                # Ctrl-C reaches every process of a terminal; the parent ends the run, in order.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            sys.path.extend(path for path in paths if path not in sys.path)
            _loaded.clear()
            _loaded[token] = cloudpickle.loads(packed.tobytes())
        return task, _loaded[token].do(task)
