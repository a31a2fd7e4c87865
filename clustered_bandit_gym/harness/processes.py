"""Trials over processes of this machine. A process that dies costs the trial that it was playing, and is replaced.

Every process has an executor of its own (loky's, with one worker), because the death of a worker breaks its whole
executor. What ends a process becomes the outcome of the trial: "crash", or "timeout" after `max_seconds`. SIGKILL and
SIGTERM usually come from outside (a user, a kernel short of memory), so a trial that they end is played once more; its
row counts both attempts.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor
from joblib.externals.loky.process_executor import ShutdownExecutorError

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.play import Row

#: Short trials are sent several at a time, for about this many seconds: a round trip costs about a millisecond.
BATCH_SECONDS = 0.1
MOST_IN_A_BATCH = 32
#: Signals that come from outside of the trial as a rule.
_FROM_OUTSIDE = ("SIGKILL", "SIGTERM")
#: Processes that may die in a row before they have played anything; then the run ends.
_FALSE_STARTS = 4
_ONE_THREAD = {
    f"{name}_NUM_THREADS": "1"
    for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "VECLIB_MAXIMUM")
}


@dataclass
class _Order:
    """A task, how many processes died of it, and once it is given up the outcome and message of its row."""

    task: Any
    deaths: int = 0
    lost: tuple[str, str] | None = None


@dataclass
class _Slot:
    """One process, and what it is doing: `orders`, until the time `deadline`."""

    executor: Any = None
    prepared: set[tuple[str, int]] = field(default_factory=set)
    orders: list[_Order] = field(default_factory=list)
    deadline: float = math.inf
    overdue: bool = False

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        if self.executor is None:
            self.executor = ProcessPoolExecutor(
                1, initializer=_obey, initargs=(os.getpid(),), env=_ONE_THREAD
            )
        future: Future[Any] = self.executor.submit(function, *arguments)
        return future

    def kill(self) -> None:
        if self.executor is not None:
            self.executor.shutdown(wait=True, kill_workers=True)
        self.executor, self.prepared = None, set()


#: Processes that wait for the next run of this process (its id): starting one costs a second.
_waiting: dict[int, list[_Slot]] = {}


def dismiss() -> None:
    """End the processes that wait for the next run, so that it begins in new ones."""
    for slot in _waiting.pop(os.getpid(), []):
        slot.kill()


def supervise(
    packed: bytes, tasks: Sequence[Any], n_jobs: int, max_seconds: float | None
) -> Generator[tuple[Any, Row]]:
    """Play the tasks of a pickled `Work` in `n_jobs` processes; yields (task, row) as trials end."""
    if tasks:
        with tempfile.TemporaryDirectory(prefix="clustered-bandit-") as folder:
            yield from _Run(packed, tasks, n_jobs, max_seconds, Path(folder)).rows()


class _Run:
    def __init__(
        self,
        packed: bytes,
        tasks: Sequence[Any],
        n_jobs: int,
        max_seconds: float | None,
        folder: Path,
    ) -> None:
        self.path, self.token = folder / "work", hashlib.sha256(packed).hexdigest()
        self.path.write_bytes(packed)
        self.max_seconds = math.inf if max_seconds is None else float(max_seconds)
        self.pending = deque(_Order(task) for task in tasks)
        waiting = _waiting.setdefault(os.getpid(), [])
        count = min(n_jobs, len(tasks))
        self.idle = [waiting.pop() if waiting else _Slot() for _ in range(count)]
        self.busy: dict[Future[Any], _Slot] = {}
        self.seconds, self.false_starts = BATCH_SECONDS, 0  # of a trial, roughly

    def rows(self) -> Iterator[tuple[Any, Row]]:
        try:
            while self.pending or self.busy:
                while self.pending and self.idle:
                    self._give(self.idle.pop())
                first = min(slot.deadline for slot in self.busy.values())
                left = None if first == math.inf else max(0.0, first - time.monotonic())
                done, _ = wait(self.busy, timeout=left, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from self._collect(self.busy.pop(future), future)
                self._end_overdue()
        finally:
            for slot in self.busy.values():
                slot.kill()
            _waiting.setdefault(os.getpid(), []).extend(self.idle)

    def _give(self, slot: _Slot) -> None:
        """Send the next trials of one environment. It is made first, which is not part of a trial's time."""
        limited = self.max_seconds < math.inf
        cell = self.pending[0].task[0]
        try:
            if (self.token, cell) not in slot.prepared:
                slot.orders, slot.deadline = [], math.inf
                self.busy[
                    slot.submit(_prepare, self.token, str(self.path), self.pending[0].task, limited)
                ] = slot
                slot.prepared.add((self.token, cell))
                return
            # Alone where time is limited, so that the limit is the trial's own.
            share = (
                1
                if self.max_seconds < math.inf
                else math.ceil(len(self.pending) / (2 * (len(self.busy) + len(self.idle) + 1)))
            )
            size = min(MOST_IN_A_BATCH, share, max(1, int(BATCH_SECONDS / max(self.seconds, 1e-4))))
            slot.orders = [self.pending.popleft()]
            while len(slot.orders) < size and self.pending and self.pending[0].task[0] == cell:
                slot.orders.append(self.pending.popleft())
            work = [(order.task, order.lost) for order in slot.orders]
            log = self.path.with_name(f"rows-{id(slot)}")
            log.unlink(missing_ok=True)
            self.busy[slot.submit(_play, self.token, str(self.path), work, str(log))] = slot
            if limited and work[0][1] is None:
                slot.deadline = time.monotonic() + self.max_seconds
        except (BrokenProcessPool, ShutdownExecutorError):  # it died while it was waiting
            self.pending.extendleft(reversed(slot.orders))
            slot.kill()
            self._false_start("died while it was waiting")
            self.idle.append(slot)

    def _collect(self, slot: _Slot, future: Future[Any]) -> Iterator[tuple[Any, Row]]:
        orders, slot.orders, slot.deadline = slot.orders, [], math.inf
        self.idle.append(slot)
        try:
            rows = future.result()
        except (BrokenProcessPool, ShutdownExecutorError) as error:
            slot.kill()
            if not orders:
                self._false_start(_cause(error))
                return
            rows = self._rows_before_death(slot)
            guilty, later = orders[len(rows)], orders[len(rows) + 1 :]
            self.pending.extendleft(reversed(later))
            self._bury(guilty, _cause(error), slot.overdue)
        slot.overdue = False
        self.false_starts = 0
        for order, row in zip(orders, rows or (), strict=False):
            self.seconds += 0.2 * (row["seconds"] - self.seconds)
            if order.lost is not None and order.lost[0] == "timeout":
                row["seconds"] = self.max_seconds
            yield (
                order.task,
                row | {"attempts": order.deaths + (order.lost is None)} if order.deaths else row,
            )

    def _rows_before_death(self, slot: _Slot) -> list[Row]:
        log = self.path.with_name(f"rows-{id(slot)}")
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _bury(self, order: _Order, cause: str, overdue: bool) -> None:
        if order.lost is not None:
            raise UserError(
                f"trial {order.task[2]} cannot be set up: its environment ends the process ({cause}); leave it out"
            )
        order.deaths += 1
        if overdue:
            order.lost = ("timeout", f"no answer after {self.max_seconds:g} seconds")
        elif order.deaths > 1 or not any(name in cause for name in _FROM_OUTSIDE):
            order.lost = ("crash", f"the trial's process ended: {cause}")
        self.pending.appendleft(order)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for future, slot in self.busy.items():
            if slot.deadline <= now and not future.done():
                slot.overdue = True
                slot.deadline = math.inf
                slot.executor.shutdown(wait=False, kill_workers=True)

    def _false_start(self, cause: str) -> None:
        self.false_starts += 1
        if self.false_starts > _FALSE_STARTS:
            raise UserError(
                f"worker processes cannot start here ({cause}); what they say is above. --jobs 1 plays without them"
            )


def _cause(error: BaseException) -> str:
    """What ended a process: SIGSEGV(-11), EXIT(3)."""
    found = re.search(r"\{([^{}]*)\}", str(error))
    return found[1] if found else type(error).__name__


# --- in the worker ---------------------------------------------------------------------------------------------------

_loaded: dict[str, Any] = {}


def _work(token: str, path: str) -> Any:
    if token not in _loaded:
        _loaded.clear()
        _loaded[token] = cloudpickle.loads(Path(path).read_bytes())
    return _loaded[token]


def _prepare(token: str, path: str, task: Any, limited: bool) -> None:
    """Make the environment. Where time is limited, import what a trial needs too, so that all have the same."""
    work = _work(token, path)
    work.env(task[0])
    if limited:
        work.lost(task, "error", "")


def _play(
    token: str, path: str, orders: list[tuple[Any, tuple[str, str] | None]], log: str
) -> list[Row]:
    """Rows of the orders. All but the last are logged, so that the parent knows them if a later trial ends us."""
    work = _work(token, path)
    rows: list[Row] = []
    for task, lost in orders:
        try:
            rows.append(work.do(task) if lost is None else work.lost(task, *lost))
        except KeyboardInterrupt:  # not the user's, which is ignored here: the policy's own
            rows.append(work.lost(task, "error", "KeyboardInterrupt"))
        if len(rows) < len(orders):
            with Path(log).open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    return rows


def _obey(parent: int) -> None:
    """Leave Ctrl-C, which reaches every process of a terminal, to the parent; do not outlive it if it is killed."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
