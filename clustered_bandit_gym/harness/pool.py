"""The trials of a run, over processes of this machine by `pebble.ProcessPool` or over a Dask
cluster. `Task` names a trial by three numbers, `Work` holds what all of them share.

Rows come back as trials end. Policies of a user's own module travel with their code, so that a worker never plays an older
version of an edited file.

A worker process that dies costs the trial that it was playing, and is replaced. The trial's outcome
is "crash", or "timeout" after `max_seconds`. SIGKILL and SIGTERM usually come from outside (a user,
a kernel short of memory), so a trial that they end is played once more; its row counts both
attempts and says in `killed` how many of them a signal ended.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import starmap
from types import ModuleType
from typing import Any, NamedTuple

import cloudpickle
import gymnasium as gym

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.harness.bound import LARGEST
from clustered_bandit_gym.harness.play import Row, TrialSpec, lost_row, play_trial, plays_directly
from clustered_bandit_gym.harness.settings import PACKAGE, Cell

#: Exit code of a worker that ends outside of any trial: it has lost its connection to the pool.
_LOST_CONNECTION = 75


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

    def spec(self, task: Task) -> TrialSpec:
        """Everything that decides a task's row."""
        label, policy = self.players[task.player]
        return TrialSpec(
            self.cells[task.cell],
            policy,
            label,
            self.seed,
            task.trial,
            stepwise=self.stepwise,
            strict=self.strict,
            bound=self.bound,
        )

    def ready(self, task: Task) -> tuple[TrialSpec, gym.Env[Any, Any], Instance | None]:
        """What `play_trial` needs; no instance if the environment draws it at its reset."""
        spec = self.spec(task)
        env = self.env(task.cell)
        if not plays_directly(spec.policy, self.stepwise):
            return spec, env, None
        if self._drawn is None or self._drawn[:2] != (task.cell, task.trial):
            unwrapped: Any = env.unwrapped
            instance = unwrapped.draw_instance(trial_seeds(self.seed, task.trial).instance)
            self._drawn = (task.cell, task.trial, instance)
        return spec, env, self._drawn[2]

    def check(self, cell: int) -> None:
        """Draw the first instance of a cell: invalid settings raise here, before any play."""
        unwrapped: Any = self.env(cell).unwrapped
        instance = unwrapped.draw_instance(trial_seeds(self.seed, 0).instance)
        unwrapped.problem_of(instance)
        self._drawn = (cell, 0, instance)
        if self.bound and instance.means.size > LARGEST:
            warnings.warn(
                f"bound skipped: {self.cells[cell].env_id} has {instance.means.size:,} means "
                f"(M·K), and lower bounds are computed up to {LARGEST:,}",
                stacklevel=3,
            )

    def do(self, task: Task) -> Row:
        """Play one task."""
        return play_trial(*self.ready(task))

    def lost(self, task: Task, outcome: str, message: str) -> Row:
        """The row of a task whose process was lost: "crash" or "timeout"."""
        return lost_row(self.spec(task), self.env(task.cell), outcome, message)

    def env(self, cell: int) -> gym.Env[Any, Any]:
        """The environment of a cell, made once per process."""
        if cell not in self._envs:
            self._envs[cell] = self.cells[cell].make()
        return self._envs[cell]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_envs": {}, "_drawn": None}


def run(
    work: Work,
    tasks: Sequence[Task],
    n_jobs: int = 1,
    backend: str | None = None,
    address: str | None = None,
    max_seconds: float | None = None,
) -> Iterator[tuple[Task, Row]]:
    """Play the tasks; yields (task, row) as trials end, in any order. Invalid arguments raise now.

    Args:
        n_jobs: processes; -1 for all cores. A running cluster plays on all of its workers. 1
            without a backend or `max_seconds` stays in this process; a trial that kills it ends the
            run.
        backend: "processes" (of this machine, the default) or "dask".
        address: of a running Dask scheduler; None starts a local one.
        max_seconds: a trial that takes longer is ended; its outcome is "timeout". Not with Dask.
    """
    check_backend(backend, address, max_seconds)
    n_jobs = count_jobs(n_jobs)
    if n_jobs == 1 and backend is None and max_seconds is None:
        return zip(tasks, starmap(play_trial, map(work.ready, tasks)), strict=True)
    if backend == "dask":
        from clustered_bandit_gym.harness.dask_backend import play_on_dask

        return play_on_dask(pack(work), tasks, work.lost, n_jobs, address)
    return _play_in_processes(work, tasks, n_jobs, max_seconds)


def check_backend(
    backend: str | None, address: str | None, max_seconds: float | None = None
) -> None:
    """Raises `UserError` unless the backend is known, installed, and takes what else is given."""
    if max_seconds is not None and not max_seconds > 0:
        raise UserError(f"max_seconds must be positive, got {max_seconds}")
    if max_seconds is not None and backend == "dask":
        raise UserError("max_seconds needs processes of this machine; leave out backend='dask'")
    if backend not in (None, "processes", "dask"):
        raise UserError(f"unknown backend {backend!r}; choose one of processes, dask")
    if address is not None and backend != "dask":
        raise UserError("an address needs backend='dask'")
    if backend == "dask" and find_spec("distributed") is None:
        raise UserError("Dask is not installed: pip install 'clustered-bandit-gym[dask]'")


def count_jobs(n_jobs: int) -> int:
    """`n_jobs` as a number of processes."""
    if n_jobs == 0 or int(n_jobs) != n_jobs:
        raise UserError(
            "n_jobs must be a whole number >= 1, or -1 for all cores, -2 for all but one; "
            f"got {n_jobs}"
        )
    if n_jobs > 0:
        return int(n_jobs)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) + 1 + int(n_jobs))


def pack(work: Work) -> bytes:
    """The work as bytes; classes of users' own modules by value."""
    names = {type(policy).__module__ for _, policy in work.players}
    by_value = [
        sys.modules[name]
        for name in names
        if name != "__main__"
        and name.partition(".")[0] != PACKAGE
        and name in sys.modules
        and name not in cloudpickle.list_registry_pickle_by_value()
    ]
    for module in by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(work))
    except Exception as error:
        raise UserError(
            "a policy or environment cannot be sent to another process "
            f"({type(error).__name__}: {error}); use n_jobs=1"
        ) from error
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)


def _play_in_processes(
    work: Work, tasks: Sequence[Task], n_jobs: int, max_seconds: float | None
) -> Generator[tuple[Task, Row]]:
    """Play the tasks in `n_jobs` processes; yields (task, row)."""
    packed = pack(work)
    waiting = deque(tasks)
    running: dict[Any, Task] = {}
    deaths: Counter[Task] = Counter()
    starts = 0
    while waiting:
        try:
            with _workers(packed, min(n_jobs, len(waiting))) as pool:
                while waiting or running:
                    while waiting and len(running) < 4 * n_jobs:
                        future = _schedule(pool, waiting[0], max_seconds)
                        running[future] = waiting.popleft()
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        task = running[future]
                        row = _row_of(future, work, task, deaths, max_seconds)
                        del running[future]
                        if row is None:
                            waiting.appendleft(task)
                        else:
                            starts = 0
                            yield task, row
        except (BrokenProcessPool, OSError, EOFError) as error:
            # All workers died while they had no trial. Start new ones; if these die as well, they
            # cannot start at all.
            starts += 1
            if starts > 1:
                raise UserError(
                    f"worker processes cannot start here ({str(error) or type(error).__name__}; "
                    "perhaps too little memory); --jobs 1 plays without them"
                ) from error
            waiting.extendleft(running.values())
            running.clear()


def _schedule(pool: Any, task: Task, limit: float | None) -> Any:
    try:
        return pool.schedule(_play, (task,), timeout=limit)
    except RuntimeError as error:  # pebble: "Unexpected error within the Pool"
        raise BrokenProcessPool("they end as soon as they start") from error


def _row_of(
    future: Any, work: Work, task: Task, deaths: Counter[Task], max_seconds: float | None
) -> Row | None:
    """The row of a trial that has ended, or None if it must be played again."""
    from pebble import ProcessExpired

    try:
        row: Row = future.result()
    except TimeoutError:
        message = f"no answer after {max_seconds:g} seconds"
        return work.lost(task, "timeout", message) | {"seconds": float(max_seconds or 0)}
    except ProcessExpired as error:
        deaths[task] += 1
        code = error.exitcode
        from_outside = code in (-signal.SIGTERM, -9, _LOST_CONNECTION)  # as a rule
        if from_outside and deaths[task] == 1:
            return None
        cause = f"EXIT({code})"
        if code < 0:
            names = {one.value: one.name for one in signal.Signals}
            cause = f"{names.get(-code, 'SIGNAL')}({code})"
        message = f"the trial's process ended: {cause}"
        return work.lost(task, "crash", message) | {"attempts": deaths[task]}
    if deaths[task]:
        row |= {"attempts": 1 + deaths[task], "killed": deaths[task]}
    return row


# --- worker processes --------------------------------------------------------------------------


#: Workers are forked from a server process that has the package loaded. That takes milliseconds,
#: where a new Python takes a second; Windows starts a new Python.
_context: Any = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")


class _Process(_context.Process):  # type: ignore[misc]
    """A process that does not run the user's script again: what is played travels by value."""

    @staticmethod
    def _Popen(process: Any) -> Any:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return _context.Process._Popen(process)
        finally:
            sys.modules["__main__"] = main


class _Context(type(_context)):  # type: ignore[misc]
    Process = _Process


@contextmanager
def _workers(packed: bytes, count: int) -> Iterator[Any]:
    """A pool of `count` processes that have loaded the pickled work. Ended at once on leaving."""
    from pebble import ProcessPool

    environment = dict(os.environ)
    context = _Context()
    context.set_forkserver_preload([__name__, "clustered_bandit_gym.theory"])
    pool: Any = ProcessPool(
        count, initializer=_start, initargs=(packed, environment), context=context
    )
    try:
        # Read where NumPy is loaded: processes share the cores, so that each gets one thread.
        os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")})
        try:
            pool.active  # noqa: B018 (starts the workers)
        finally:
            os.environ.clear()
            os.environ.update(environment)
        yield pool
    finally:
        pool.stop()
        pool.join()


_loaded: list[Any] = []
_playing: list[bool] = []


def _start(packed: bytes, environment: dict[str, str]) -> None:
    """Make a new worker ready: load the work and make its environments, outside any time limit."""
    from pebble import CONSTS

    # Ctrl-C reaches every process of a terminal; it is the parent's. SIGTERM ends us at once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A worker that is killed while it holds the pool's lock blocks the others that long.
    CONSTS.channel_lock_timeout = 3
    # The pool takes exit code 0 for a worker that has done its work, and would wait for ever.
    leave = os._exit
    os._exit = lambda status: leave((status or 1) if _playing else _LOST_CONNECTION)
    os.environ.clear()
    os.environ.update(environment)
    try:
        work: Work = cloudpickle.loads(packed)
        for position in range(len(work.cells)):
            work.env(position)
        _loaded.append(work)
    except Exception as error:  # told by the first trial, with its traceback
        _loaded.append(error)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _play(task: Task) -> Row:
    """In a worker: the row of a task."""
    (work,) = _loaded
    if isinstance(work, Exception):
        raise work
    _playing.append(True)
    row: Row = work.do(task)
    _playing.clear()
    return row
