"""Trials in processes of this machine, by `pebble.ProcessPool`.

Rows come back as trials end. Policies of a user's own module travel with their code, so that a
worker never plays an older version of an edited file.

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
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import Any

import cloudpickle

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.isolation import is_foreign
from clustered_bandit_gym.harness.identity import user_modules
from clustered_bandit_gym.harness.play import Row, Task, Work

#: Exit code of a worker that ends outside of any trial: it has lost its connection to the pool.
_LOST_CONNECTION = 75


def pack(work: Work) -> bytes:
    """The work as bytes; what it refers to in users' own modules by value, as it is here."""
    names = {type(policy).__module__ for _, policy in work.players} | user_modules().keys()
    modules = [sys.modules[name] for name in names - cloudpickle.list_registry_pickle_by_value()]
    with ExitStack() as stack:
        for module in filter(is_foreign, modules):
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        try:
            return bytes(cloudpickle.dumps(work))
        except Exception as error:
            raise UserError(
                "a policy or environment cannot be sent to another process "
                f"({type(error).__name__}: {error}); use n_jobs=1"
            ) from error


def play_in_processes(
    work: Work, tasks: Sequence[Task], n_jobs: int, max_seconds: float | None = None
) -> Generator[tuple[Task, Row]]:
    """Play the tasks in `n_jobs` new processes; yields (task, row). One process keeps their order."""
    packed = pack(work)
    left = dict.fromkeys(tasks)
    killed: set[Task] = set()
    idle = False
    while left:
        try:
            with _sigterm(), _workers(packed, min(n_jobs, len(left))) as pool:
                sent = {pool.schedule(_play, (one,), timeout=max_seconds): one for one in left}
                for future in as_completed(sent):
                    task = sent.pop(future)
                    row = _row_of(future, work, task, killed, max_seconds)
                    if row is not None:
                        del left[task]
                        idle = False
                        yield task, row
        except (RuntimeError, OSError, EOFError) as error:
            # All workers died while they had no trial. Start new ones; if these die as well, they
            # cannot start at all.
            if idle:
                raise UserError(
                    f"worker processes cannot start here ({str(error) or type(error).__name__}; "
                    "perhaps too little memory); --jobs 1 plays without them"
                ) from error
            idle = True


def _row_of(
    future: Any, work: Work, task: Task, killed: set[Task], max_seconds: float | None
) -> Row | None:
    """The row of a trial that has ended, or None if it must be played again, since a signal from
    outside ended it; it is then in `killed`."""
    from pebble import ProcessExpired

    try:
        row: Row = future.result()
    except TimeoutError:
        message = f"no answer after {max_seconds:g} seconds"
        return work.lost(task, "timeout", message) | {"seconds": float(max_seconds or 0)}
    except ProcessExpired as error:
        code = error.exitcode
        from_outside = code in (-signal.SIGTERM, -9, _LOST_CONNECTION)  # as a rule
        if from_outside and task not in killed:
            killed.add(task)
            return None
        cause = "EXIT"
        with suppress(ValueError):  # not a signal, or one without a name
            cause = signal.Signals(-code).name
        message = f"the trial's process ended: {cause}({code})"
        return work.lost(task, "crash", message) | {"attempts": 1 + (task in killed)}
    if task in killed:
        row |= {"attempts": 2, "killed": 1}
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
def _sigterm() -> Iterator[None]:
    """Lets SIGTERM end the workers first, then this process with exit code 143. By default it ends
    this process alone, which leaves semaphores behind and a warning of them."""
    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _workers(packed: bytes, count: int) -> Iterator[Any]:
    """A pool of `count` processes that have loaded the pickled work. Ended at once on leaving."""
    from pebble import ProcessPool

    context = _Context()
    context.set_forkserver_preload([__name__, "clustered_bandit_gym.theory"])
    environment = dict(os.environ)
    arguments = (packed, environment)
    pool: Any = ProcessPool(count, initializer=_start, initargs=arguments, context=context)
    try:
        # Read where NumPy is loaded: processes share the cores, so that each gets one thread.
        os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")})
        try:
            pool.active  # noqa: B018 (starts the workers)
        finally:
            _set_environment(environment)
        yield pool
    finally:
        pool.stop()
        pool.join()


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


#: In a worker: the work, or the error that loading it raised; and whether a trial is being played.
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
    _set_environment(environment)
    try:
        _loaded.append(cloudpickle.loads(packed))
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
    row: Row = work.play(task)
    _playing.clear()
    return row
