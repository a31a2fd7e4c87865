"""Trials on a running Dask cluster.

Dask itself sends a task to another worker when its worker dies, and gives it up after a few deaths
(`distributed.scheduler.allowed-failures`); that trial's outcome is "crash". A scheduler cannot be
replaced: if the connection to it breaks, the run ends with an error. One that hangs and keeps its
connection is waited for until Ctrl-C: a busy scheduler looks the same.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from asyncio import CancelledError
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Any

import cloudpickle

from clustered_bandit_gym.errors import UserError, needs_extra
from clustered_bandit_gym.harness.play import Row, Task, Work
from clustered_bandit_gym.harness.pool import pack

#: How long a scheduler may take to answer for the first time.
CONNECT_SECONDS = 10.0


def play_on_dask(work: Work, tasks: Sequence[Task], address: str) -> Generator[tuple[Task, Row]]:
    """Play the tasks on the cluster of the scheduler at `address`; yields (task, row)."""
    with needs_extra("dask"):
        from distributed import Client, KilledWorker, as_completed

    with ExitStack() as stack:
        for name in ("distributed", "distributed.client"):
            logger = logging.getLogger(name)  # one line of ours replaces its tracebacks
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        try:
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            raise UserError(f"there is no Dask scheduler at {address}: {error}") from error
        stack.callback(client.close, 1)
        # A task, not scattered data: it is made again if the workers that hold it die.
        shared = client.submit(bytes, pack(work))
        paths = tuple(path or os.getcwd() for path in sys.path)
        submit = partial(client.submit, _play, shared, paths, retries=1, pure=False)
        sent = {submit(task): task for task in tasks}
        suspects = []
        try:
            for future in as_completed(sent, loop=client.loop):
                try:
                    yield sent[future], future.result()
                except KilledWorker:
                    suspects.append(sent[future])
                future.release()
            # Dask also blames trials that waited at a worker when it died: each is played alone.
            for task in suspects:
                try:
                    yield task, submit(task).result()
                except KilledWorker as error:
                    message = f"the trial ended its Dask worker, attempt after attempt: {error}"
                    yield task, work.lost(task, "crash", message)
        except (CancelledError, FutureCancelledError, OSError) as error:
            raise UserError(
                f"the Dask scheduler {address} is lost; trials that had ended are kept where there "
                "is an --out, and the same command plays the rest"
            ) from error


# --- in the worker -----------------------------------------------------------------------------

#: Threads of one worker take turns: environments and global random states are shared.
_turn = threading.Lock()


def _play(packed: bytes, paths: tuple[str, ...], task: Task) -> Row:
    """The row of a task of the pickled `Work`; `paths` say where the user's modules are."""
    with _turn:
        row: Row = _load(packed, paths).play(task)
        return row


@lru_cache(maxsize=1)
def _load(packed: bytes, paths: tuple[str, ...]) -> Any:
    sys.path.extend(path for path in paths if path not in sys.path)
    return cloudpickle.loads(packed)
