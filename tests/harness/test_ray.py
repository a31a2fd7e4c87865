"""A real Ray head with two processors: what dies costs a trial or ends in one line, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cluster_players import Paced, check_own_processes, content
from harness_players import TINY, Empirical

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.cell import Cell
from clustered_bandit_gym.harness.parallel import Task, Work, run

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="finds Ray's processes through /proc"
)


class Head:
    """Ray's processes on this machine, started by `ray start` in a session of their own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        script = Path(sys.executable).with_name("ray")
        self.process = subprocess.Popen(
            [
                *(
                    str(script),
                    "start",
                    "--head",
                    "--port",
                    str(port),
                    "--num-cpus",
                    "2",
                    "--block",
                ),
                *(
                    "--node-ip-address",
                    "127.0.0.1",
                    "--include-dashboard=false",
                    "--disable-usage-stats",
                ),
                *("--temp-dir", str(folder), "--min-worker-port", "0", "--max-worker-port", "0"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def pids(self, name: str = "") -> list[int]:
        """The processes of the session whose name begins with `name`."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command, _, rest = (entry / "stat").read_text().rpartition(")")
                except OSError:
                    continue
                if int(rest.split()[3]) == self.process.pid and command.partition("(")[
                    2
                ].startswith(name):
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        while pids := self.pids():
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.wait()


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[Head]:
    # A token of this cluster's own, whatever the machine is set up for.
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", uuid.uuid4().hex)
    folder = Path(
        "/tmp", f"ray-{uuid.uuid4().hex[:8]}"
    )  # not tmp_path: names of sockets must be short
    started = Head(folder)
    try:
        yield started
    finally:
        started.end()
        shutil.rmtree(folder, ignore_errors=True)


HOW: dict[str, Any] = {"trials": 24, "seed": 5, "progress": False}


def connected(head: Head) -> None:
    """Waits until the cluster plays."""
    for _ in range(60):
        try:
            cbg.evaluate(
                Empirical(3), TINY, trials=1, backend="ray", address=head.address, progress=False
            )
        except UserError:
            time.sleep(1)
        else:
            return
    pytest.fail("Ray did not start")


def test_a_killed_worker_costs_an_attempt(head: Head, tmp_path: Path) -> None:
    connected(head)
    work = Work([Cell(TINY)], [("paced", Paced(str(tmp_path)))], seed=5)
    tasks = [Task(0, 0, trial) for trial in range(24)]
    rows, killed = {}, 0
    for task, row in run(work, tasks, backend="ray", address=head.address):
        rows[task] = row
        if len(rows) >= 4 and not killed:
            killed = int(next(tmp_path.iterdir()).name)
            os.kill(killed, signal.SIGKILL)
    assert killed
    assert sorted(rows) == tasks
    assert sum(row["attempts"] > 1 for row in rows.values()) <= 1
    expected = {task: work.do(task) for task in tasks}
    for task, row in rows.items():
        assert {**row, "seconds": 0, "attempts": 1} == {**expected[task], "seconds": 0}


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_killed_cluster_ends_in_one_line_and_resumes(
    head: Head, tmp_path: Path, name: str
) -> None:
    connected(head)
    folder, out = tmp_path / "ids", tmp_path / "out"
    folder.mkdir()
    policy = Paced(str(folder))

    def kill(stop: Any) -> None:
        while not stop.is_set():
            time.sleep(0.05)
            if (out / "trials.sqlite").exists():
                with cbg.Store(out) as store:
                    if len(store) >= 5:
                        for pid in head.pids(name):
                            os.kill(pid, signal.SIGKILL)
                        return

    stop = threading.Event()
    killer = threading.Thread(target=kill, args=(stop,))
    killer.start()
    try:
        with pytest.raises(
            UserError, match=r"Ray cluster at .* is lost.* the same command plays the rest"
        ) as caught:
            cbg.evaluate(policy, TINY, out=out, backend="ray", address=head.address, **HOW)
    finally:
        stop.set()
        killer.join()
    assert "\n" not in str(caught.value)
    with cbg.Store(out) as store:
        assert 5 <= len(store) < 24
    resumed = cbg.evaluate(policy, TINY, out=out, **HOW).trials
    pd.testing.assert_frame_equal(
        content(resumed), content(cbg.evaluate(policy, TINY, **HOW).trials)
    )


def test_ray_s_own_processes_and_a_trial_that_ends_one() -> None:
    check_own_processes("ray")


def test_a_cluster_that_is_not_there() -> None:
    with pytest.raises(UserError, match=r"there is no Ray cluster at 127\.0\.0\.1:1"):
        cbg.evaluate("naive", TINY, trials=1, backend="ray", address="127.0.0.1:1", progress=False)
