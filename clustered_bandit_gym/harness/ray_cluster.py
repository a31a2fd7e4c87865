"""Trials on a Ray cluster: a running one, or worker processes of this machine.

Ray ends the process that uses it when its head node or the local node is lost. So that process is a child of this one:
it gets the work through a pipe, and sends rows and signs of life back. The child ends with its parent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from typing import IO, Any

import cloudpickle

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.clusters import (
    ALONE_SECONDS,
    LOOK_SECONDS,
    MOST_DEATHS,
    PATIENCE,
    ClusterLost,
    Ended,
    play_on,
    play_packed,
    search_path,
)
from clustered_bandit_gym.harness.play import Row

#: Starting Ray's processes, or connecting to them, may take this long.
START_SECONDS = 90.0


def play_on_ray(
    packed: bytes, tasks: Sequence[Any], n_jobs: int, address: str | None
) -> Generator[tuple[Any, Row]]:
    """Play the tasks of a pickled `Work`; yields (task, row) as trials end.

    Args:
        n_jobs: processes to start where there is no address; a running cluster plays on all of its processors.
        address: of a running cluster, "auto" for that of this machine.
    """
    if not tasks:
        return
    where = f"at {address}" if address else "of this machine"
    _check_address(address)
    code = f"import sys; sys.path[:] = {search_path()!r}; from {__name__} import _drive; _drive()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            cloudpickle.dump((packed, list(tasks), n_jobs, address), child.stdin)
            child.stdin.flush()
            lines: queue.Queue[bytes] = queue.Queue()
            threading.Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
            patience, left = START_SECONDS, {tuple(task): task for task in tasks}
            while left:
                try:
                    line = lines.get(timeout=patience)
                except queue.Empty:
                    raise ClusterLost(
                        f"the Ray cluster {where} is lost: no answer for {patience:g} s"
                    ) from None
                patience = PATIENCE
                if not line:
                    raise ClusterLost(f"the Ray cluster {where} is lost: its connection is closed")
                said = json.loads(line)
                if "row" in said:
                    yield left.pop(tuple(said["task"])), said["row"]
                elif "lost" in said:
                    raise ClusterLost(f"the Ray cluster {where} is lost: {said['lost']}")
                elif "wrong" in said:
                    raise UserError(said["wrong"])
        except ClusterLost:
            if address is not None:  # nothing to clean up, and nothing to wait for
                child.kill()
            raise
        finally:
            # At the end of its input it shuts Ray down, which takes processes of this machine along.
            with contextlib.suppress(OSError):
                child.stdin.close()
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()


def _check_address(address: str | None) -> None:
    """Ray itself takes minutes to find out that nobody is there."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise UserError(
                f"there is no Ray cluster at {address}: {error.strerror or error}"
            ) from error


def _read(source: IO[bytes], lines: queue.Queue[bytes]) -> None:
    """Lines of the child, and an empty one when it has ended."""
    with contextlib.suppress(ValueError):  # closed by the parent
        for line in source:
            lines.put(line)
    lines.put(b"")


# --- in the child ----------------------------------------------------------------------------------------------------


def _drive() -> None:
    """What the child does. Ray writes to stdout at times: rows go to a copy of it, and the rest nowhere."""
    import signal

    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the parent, which ends this process
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    packed, tasks, n_jobs, address = cloudpickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def say(**what: Any) -> None:
        print(json.dumps(what), file=out, flush=True)

    work = cloudpickle.loads(packed)
    try:
        for task, row in play_on(_RayCluster(packed, n_jobs, address, say), work, tasks):
            say(task=task, row=row)
    except ClusterLost as error:
        say(lost=str(error))
    except UserError as error:
        say(wrong=str(error))
    sys.stdin.close()


def _end_with_parent() -> None:
    while sys.stdin.buffer.read(1):
        pass
    import ray

    ray.shutdown()
    os._exit(0)


class _RayCluster:
    """See `clusters.Cluster`. `say` is called with signs of life."""

    def __init__(self, packed: bytes, n_jobs: int, address: str | None, say: Any) -> None:
        self.packed, self.n_jobs, self.address, self.say = packed, n_jobs, address, say
        self.token, self.paths = hashlib.sha256(packed).hexdigest(), search_path()
        self.running: dict[Any, tuple[str, Any]] = {}
        self.deaths: dict[str, int] = {}
        self.processors, self.looked, self.last_seen = n_jobs, 0.0, time.monotonic()

    def __enter__(self) -> _RayCluster:
        import ray

        local: dict[str, Any] = (
            {} if self.address else {"num_cpus": self.n_jobs, "include_dashboard": False}
        )
        try:
            ray.init(
                address=self.address or "local",
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **local,
            )
        except Exception as error:
            text = (
                str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            )
            raise UserError(
                f"there is no Ray cluster at {self.address or 'this machine'}: {text}"
            ) from error
        self.shared = ray.put(self.packed)
        # A worker that dies is ours to count, hence no retries of Ray's own.
        self.play = ray.remote(max_retries=0, num_cpus=1)(play_packed)
        self._look()
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        ray.shutdown()

    def room(self) -> int:
        return max(1, self.processors)

    def submit(self, task: Any) -> str:
        name = str(tuple(task))
        self.deaths[name] = 0
        self._send(name, task)
        return name

    def _send(self, name: str, task: Any) -> None:
        self.running[self.play.remote(self.token, self.shared, self.paths, task)] = (name, task)

    def wait(self) -> list[Ended]:
        import ray
        from ray.exceptions import LocalRayletDiedError, RayError, RayTaskError

        done, _ = ray.wait(list(self.running), num_returns=1, timeout=LOOK_SECONDS)
        ended = []
        for reference in done:
            name, task = self.running.pop(reference)
            try:
                ended.append(Ended(name, ray.get(reference), self.deaths.pop(name)))
            except RayTaskError as error:
                raise UserError(
                    f"a Ray worker cannot play these trials: {type(error.cause).__name__}: {error.cause}; the workers "
                    "need the same packages as this process"
                ) from error
            except LocalRayletDiedError as error:
                raise ClusterLost("the node of this machine died") from error
            except RayError:  # the worker or its node died
                self.deaths[name] += 1
                if self.deaths[name] < MOST_DEATHS:
                    self._send(name, task)
                else:
                    ended.append(Ended(name, None, self.deaths.pop(name)))
        if time.monotonic() > self.looked + LOOK_SECONDS:
            self._look()
        return ended

    def _look(self) -> None:
        import ray

        self.processors = int(ray.cluster_resources().get("CPU", 0))
        self.looked = now = time.monotonic()
        if self.processors:
            self.last_seen = now
        elif now - self.last_seen > ALONE_SECONDS:
            raise ClusterLost(f"it has had no processors for {ALONE_SECONDS:g} s")
        self.say(processors=self.processors)
