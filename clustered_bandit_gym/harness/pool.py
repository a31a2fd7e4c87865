"""Trials over processes of this machine, by `pebble.ProcessPool`, or over a Dask cluster.

Rows come back as trials end. Cells and policies are pickled once per run; a task is three numbers.
Policies of a user's own module travel with their code, so that a worker never plays an older
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
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import starmap
from types import ModuleType
from typing import Any

import cloudpickle

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.play import Row, play_trial
from clustered_bandit_gym.harness.settings import PACKAGE
from clustered_bandit_gym.harness.trial import Task, Work

BACKENDS = {"processes": "pebble", "dask": "distributed"}
#: Exit code of a worker that ends outside of any trial: it has lost its connection to the pool.
_LOST_CONNECTION = 75
#: Ends of a process that come from outside of the trial as a rule: SIGKILL, SIGTERM, and the above.
_FROM_OUTSIDE = (-9, -15, _LOST_CONNECTION)
#: Times that all workers may die without having ended a trial.
_FALSE_STARTS = 2


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

        return play_on_dask(work, pack(work), tasks, n_jobs, address)
    return _play_in_processes(pack(work), tasks, n_jobs, max_seconds)


def check_backend(
    backend: str | None, address: str | None, max_seconds: float | None = None
) -> None:
    """Raises `UserError` unless the backend is known, installed, and takes what else is given."""
    if max_seconds is not None and not max_seconds > 0:
        raise UserError(f"max_seconds must be positive, got {max_seconds}")
    if max_seconds is not None and backend == "dask":
        raise UserError("max_seconds needs processes of this machine; leave out backend='dask'")
    if backend is not None and backend not in BACKENDS:
        raise UserError(f"unknown backend {backend!r}; choose one of {', '.join(BACKENDS)}")
    if address is not None and backend != "dask":
        raise UserError("an address needs backend='dask'")
    if backend is not None and find_spec(BACKENDS[backend]) is None:
        raise UserError(
            f"backend {backend!r} is not installed: pip install 'clustered-bandit-gym[{backend}]'"
        )


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


@dataclass
class _Order:
    """A task with what became of earlier attempts.

    Attributes:
        deaths: how many processes ended in it.
        lost: once it is given up, the outcome and message of its row.
    """

    task: Task
    deaths: int = 0
    lost: tuple[str, str] | None = None


def _play_in_processes(
    packed: bytes, tasks: Sequence[Task], n_jobs: int, max_seconds: float | None
) -> Generator[tuple[Task, Row]]:
    """Play the tasks of a pickled `Work` in `n_jobs` processes; yields (task, row)."""
    orders = deque(_Order(task) for task in tasks)
    running: dict[Any, _Order] = {}
    starts = 0
    while orders:
        try:
            with _workers(packed, min(n_jobs, len(orders))) as pool:
                while orders or running:
                    while orders and len(running) < 4 * n_jobs:
                        limit = max_seconds if orders[0].lost is None else None
                        future = _schedule(pool, orders[0], limit)
                        running[future] = orders.popleft()
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        row = _row_of(future, running[future], max_seconds)
                        order = running.pop(future)
                        if row is None:
                            orders.appendleft(order)
                            continue
                        starts = 0
                        yield order.task, row
        except (BrokenProcessPool, OSError, EOFError) as error:
            # Workers died while they had no trial. Start new ones, unless they cannot start at all.
            starts += 1
            if starts == _FALSE_STARTS:
                raise UserError(
                    f"worker processes cannot start here ({str(error) or type(error).__name__}; "
                    "perhaps too little memory); --jobs 1 plays without them"
                ) from error
            orders.extendleft(running.values())
            running.clear()


def _schedule(pool: Any, order: _Order, limit: float | None) -> Any:
    try:
        return pool.schedule(_play, (order.task, order.lost), timeout=limit)
    except RuntimeError as error:  # pebble: "Unexpected error within the Pool"
        raise BrokenProcessPool("they end as soon as they start") from error


def _row_of(future: Any, order: _Order, max_seconds: float | None) -> Row | None:
    """The row of a trial that has ended, or None if it must be sent again."""
    from pebble import ProcessExpired

    try:
        row: Row = future.result()
    except TimeoutError:
        order.lost = ("timeout", f"no answer after {max_seconds:g} seconds")
        return None
    except ProcessExpired as error:
        order.deaths += 1
        cause = _cause(error.exitcode)
        if order.lost is not None:
            raise UserError(
                f"trial {order.task.trial} cannot be set up: its environment ends the process "
                f"({cause}); leave it out"
            ) from error
        if order.deaths > 1 or error.exitcode not in _FROM_OUTSIDE:
            order.lost = ("crash", f"the trial's process ended: {cause}")
        return None
    if order.lost is not None and order.lost[0] == "timeout":
        return row | {"seconds": float(max_seconds or 0)}
    if not order.deaths:
        return row
    if order.lost is None:
        return row | {"attempts": 1 + order.deaths, "killed": order.deaths}
    return row | {"attempts": order.deaths}


def _cause(code: int) -> str:
    """What ended a process: SIGSEGV(-11), EXIT(3)."""
    try:
        return f"{signal.Signals(-code).name}({code})" if code < 0 else f"EXIT({code})"
    except ValueError:
        return f"SIGNAL({code})"


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
    pool = ProcessPool(count, initializer=_start, initargs=(packed, environment), context=context)
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


def _play(task: Task, lost: tuple[str, str] | None) -> Row:
    """In a worker: the row of a task; of one that is given up with the outcome and message `lost`."""
    (work,) = _loaded
    if isinstance(work, Exception):
        raise work
    _playing.append(True)
    row: Row = work.do(task) if lost is None else work.lost(task, *lost)
    _playing.clear()
    return row
