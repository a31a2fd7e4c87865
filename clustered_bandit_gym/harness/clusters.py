"""Trials on a cluster (`dask_cluster`, `ray_cluster`). The death of a worker costs at most the trial it was playing.

A trial whose worker dies is played once more; its row counts both attempts. If that worker dies too, the trial's
outcome is "crash". Tasks are sent one by one, so that it is known which trial a worker was playing. If the cluster
itself is lost, the run ends with `ClusterLost`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import cloudpickle

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.play import Row

#: How often a cluster is asked whether it is still there while no trial ends, and how long its answer may take.
LOOK_SECONDS = 2.0
PATIENCE = 20.0
#: How long a cluster may have no workers at all before the run ends.
ALONE_SECONDS = 60.0
#: Workers that may die of a trial before it is given up.
MOST_DEATHS = 2


class ClusterLost(UserError):
    """The cluster does not answer any more. What has ended is kept; the rest was not played."""


class Ended(NamedTuple):
    """What became of a task: its row, None if it is given up; and how many workers died of it."""

    name: str
    row: Row | None
    deaths: int


class Cluster(AbstractContextManager[Any], Protocol):
    """A cluster that plays tasks. Every method raises `ClusterLost` if the cluster is gone."""

    def room(self) -> int:
        """How many tasks it plays at a time."""
        ...

    def submit(self, task: Any) -> str:
        """Send a task; returns the name under which it ends."""
        ...

    def wait(self) -> list[Ended]:
        """The tasks that have ended, possibly none: it returns after a few seconds at most."""
        ...


def play_on(cluster: Cluster, work: Any, tasks: Sequence[Any]) -> Generator[tuple[Any, Row]]:
    """Play the tasks of a `Work`; yields (task, row) as trials end."""
    if not tasks:
        return
    pending, busy = deque(tasks), dict[str, Any]()
    with cluster:
        while pending or busy:
            while pending and len(busy) < cluster.room():
                task = pending.popleft()
                busy[cluster.submit(task)] = task
            for name, row, deaths in cluster.wait():
                task = busy.pop(name)
                if row is None:
                    row = work.lost(
                        task, "crash", f"{deaths} workers of the cluster ended in this trial"
                    )
                    deaths -= 1
                yield task, row | {"attempts": 1 + deaths}


def search_path() -> list[str]:
    """Where this process looks for modules: a worker on the same file system finds the user's modules there."""
    return [path or os.getcwd() for path in sys.path]


# --- in the worker ---------------------------------------------------------------------------------------------------

_loaded: dict[str, Any] = {}
#: Threads of one worker (dask may have several) take turns: environments and global random states are not shared.
_turn = threading.Lock()


def play_packed(token: str, packed: bytes, paths: list[str], task: Any) -> Row:
    """The row of a task; `packed` is the pickled `Work`, `token` its name."""
    with _turn:
        if token not in _loaded:
            sys.path.extend(path for path in paths if path not in sys.path)
            _loaded.clear()
            _loaded[token] = cloudpickle.loads(packed)
        try:
            row: Row = _loaded[token].do(task)
        except KeyboardInterrupt:  # the policy's own: nobody sits at a worker's keyboard
            row = _loaded[token].lost(task, "error", "KeyboardInterrupt")
        return row
