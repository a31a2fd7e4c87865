"""Trials on a Dask cluster: a running one, or worker processes of this machine.

Dask sends a task to another worker by itself when its worker dies, and gives it up after a few. Its scheduler knows how
often that happened to a task, which makes the row's attempts. The scheduler itself cannot be replaced: if it is gone,
or does not answer for `PATIENCE` seconds, the run ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import logging
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from typing import Any

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.clusters import (
    ALONE_SECONDS,
    LOOK_SECONDS,
    MOST_DEATHS,
    PATIENCE,
    ClusterLost,
    Ended,
    play_packed,
    search_path,
)

#: How long a scheduler may take to answer for the first time.
CONNECT_SECONDS = 10.0


class DaskCluster:
    """See `clusters.Cluster`.

    Args:
        packed: the pickled `Work`.
        n_jobs: processes to start where there is no address; otherwise the least number of tasks in flight, which
            makes an adaptive cluster grow.
        address: of a running scheduler.
    """

    def __init__(self, packed: bytes, n_jobs: int, address: str | None) -> None:
        self.packed, self.n_jobs, self.address = packed, n_jobs, address
        self.token = hashlib.sha256(packed).hexdigest()
        self.run, self.numbers, self.paths = uuid.uuid4().hex, itertools.count(), search_path()
        self.running: dict[Future[Any], Any] = {}
        self.workers, self.last_seen = 0, time.monotonic()
        self.look: Callable[..., Any] = _make_look()

    def __enter__(self) -> DaskCluster:
        import dask
        from distributed import Client, LocalCluster

        with contextlib.ExitStack() as stack:
            stack.enter_context(_quiet())
            place: Any = self.address
            if place is None:
                # This process is the only user of the scheduler, so it may say when a trial is given up.
                stack.enter_context(
                    dask.config.set({"distributed.scheduler.allowed-failures": MOST_DEATHS - 1})
                )
                cluster = LocalCluster(
                    n_workers=self.n_jobs, threads_per_worker=1, dashboard_address=None
                )
                place = stack.enter_context(cluster)
            try:
                self.client: Any = Client(place, timeout=CONNECT_SECONDS, set_as_default=False)
            except (OSError, ValueError, ImportError) as error:
                raise UserError(f"there is no Dask scheduler at {self.address}: {error}") from error
            stack.callback(self._close)
            # A task, not scattered data: the scheduler makes it again if the workers that hold it die.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                self.shared = self.client.submit(
                    bytes, self.packed, key=f"clustered-bai-work-{self.run}"
                )
            self._ask()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def room(self) -> int:
        return max(self.n_jobs, self.workers)

    def submit(self, task: Any) -> str:
        name = f"clustered-bai-{next(self.numbers)}-{self.run}"
        try:
            played = self.client.submit(
                play_packed, self.token, self.shared, self.paths, task, key=name, pure=False
            )
        except Exception as error:
            raise self._lost(error) from error

        async def result() -> Any:
            return await played

        self.running[asyncio.run_coroutine_threadsafe(result(), self.client.loop.asyncio_loop)] = (
            played
        )
        return name

    def wait(self) -> list[Ended]:
        from distributed import KilledWorker

        done, _ = wait(self.running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        if any(
            future.cancelled() for future in done
        ):  # by the client, which has lost its connection
            raise self._lost(ConnectionError())
        # Only while their futures are held does the scheduler know these tasks.
        deaths = self._ask([self.running[future].key for future in done])
        ended = []
        for future in done:
            name = self.running.pop(future).key
            try:
                ended.append(Ended(name, future.result(), deaths.get(name, 0)))
            except KilledWorker:
                ended.append(Ended(name, None, deaths.get(name, MOST_DEATHS)))
            except (CancelledError, asyncio.CancelledError) as error:
                raise self._lost(error) from error
            except Exception as error:
                raise UserError(
                    f"a Dask worker cannot play these trials: {type(error).__name__}: {error}; the workers need the "
                    "same packages as this process"
                ) from error
        return ended

    def _ask(self, keys: list[str] | None = None) -> dict[str, int]:
        """How many workers died of each task. The answer also says that the scheduler is there, with how many workers.

        Raises:
            ClusterLost: it is not there, or has had no workers for a while.
        """

        async def ask() -> Any:
            answer = asyncio.ensure_future(self.client.run_on_scheduler(self.look, keys or []))
            try:
                while (
                    not answer.done()
                ):  # without a connection it would try to get one for a long time
                    if self.client.status != "running":
                        raise ConnectionError
                    await asyncio.wait([answer], timeout=0.1)
                return answer.result()
            finally:
                answer.cancel()

        try:
            self.workers, deaths = self.client.sync(ask, callback_timeout=PATIENCE)
        except (Exception, asyncio.CancelledError) as error:
            raise self._lost(error) from error
        now = time.monotonic()
        if self.workers:
            self.last_seen = now
        elif now - self.last_seen > ALONE_SECONDS:
            raise ClusterLost(
                f"the Dask scheduler at {self.client.scheduler.address} has had no workers for {ALONE_SECONDS:g} s"
            )
        known: dict[str, int] = deaths
        return known

    def _lost(self, error: BaseException) -> ClusterLost:
        where = self.address or "of this machine"
        reason = (
            f"no answer for {PATIENCE:g} s"
            if isinstance(error, TimeoutError)
            else "the connection is closed"
        )
        return ClusterLost(f"the Dask scheduler {where} is lost: {reason}")

    def _close(self) -> None:
        with contextlib.suppress(Exception):
            self.client.close(timeout=1)


def _make_look() -> Callable[..., Any]:
    """A function for the scheduler's process. Not one of this module, which may be missing there."""

    def look(keys: list[str], dask_scheduler: Any) -> tuple[int, dict[str, int]]:
        known = dask_scheduler.tasks
        return len(dask_scheduler.workers), {
            key: known[key].suspicious for key in keys if key in known
        }

    return look


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask logs tracebacks when it loses a connection; here one line says it."""
    names = [
        name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"
    ]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
