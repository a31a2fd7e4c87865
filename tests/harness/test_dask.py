"""A real Dask scheduler with two workers: what dies costs a trial or ends in one line, and nothing
is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster_players
import pandas as pd
import pytest
from cluster_players import NO_DASK, Exits, Paced, content
from harness_players import TINY, Empirical

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness import dask_backend
from clustered_bandit_gym.harness.play import Task, Work
from clustered_bandit_gym.harness.run import run
from clustered_bandit_gym.harness.settings import Cell

dask = pytest.importorskip("dask")
LocalCluster = pytest.importorskip("distributed").LocalCluster
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs signals"),
    pytest.mark.skipif(bool(NO_DASK), reason=NO_DASK),
]


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-m", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as started:
        try:
            yield started
        finally:
            started.kill()


class Cluster:
    """A scheduler and two workers, as three processes."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        quiet = ("--scheduler-file", str(self.file), "--no-dashboard", "--host", "127.0.0.1")
        self.scheduler = stack.enter_context(
            process("distributed.cli.dask_scheduler", "--port", "0", *quiet)
        )
        start = time.monotonic()
        while not self.file.exists() and time.monotonic() - start < 60:
            time.sleep(0.05)
        worker = (
            "distributed.cli.dask_worker",
            *quiet,
            "--nthreads",
            "1",
            "--no-nanny",
            "--death-timeout",
            "30",
        )
        self.workers = [stack.enter_context(process(*worker)) for _ in range(2)]
        self.address = json.loads(self.file.read_text())["address"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        yield Cluster(stack, tmp_path)


def test_a_killed_worker_and_a_killed_scheduler(cluster: Cluster, tmp_path: Path) -> None:
    folder, out = tmp_path / "ids", tmp_path / "out"
    folder.mkdir()
    policy = Paced(str(folder))
    tasks = [Task(0, 0, trial) for trial in range(16)]
    work = Work([Cell(TINY)], [("paced", policy)], seed=5)

    # One of two workers dies: the run goes on, and only the trial that it played is marked.
    rows = {}
    for task, row in run(work, tasks, backend="dask", address=cluster.address):
        rows[task] = row
        if len(list(folder.iterdir())) == 2 and cluster.workers[0].poll() is None:
            cluster.workers[0].kill()
            cluster.workers[0].wait()
    assert sorted(rows) == tasks
    assert cluster.workers[0].poll() is not None
    assert sum(row["attempts"] > 1 for row in rows.values()) <= 1

    # The scheduler dies: one line, and what has ended is kept.
    code = "import sys; from clustered_bandit_gym.cli import main; sys.path.insert(0, sys.argv.pop(1)); main()"
    command = [
        *(sys.executable, "-c", code, str(Path(cluster_players.__file__).parent), "compare", TINY),
        *("--policies", f"cluster_players:Paced:folder={folder}", "--trials", "24", "--seed", "5"),
        *("--out", str(out), "--quiet", "--backend", "dask", "--address", cluster.address),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as playing:
        kept, start = 0, time.monotonic()
        while kept < 5 and time.monotonic() - start < 60:
            time.sleep(0.05)
            if (out / "trials.sqlite").exists():
                with cbg.Store(out) as store:
                    kept = len(store)
        assert 5 <= kept < 24
        cluster.scheduler.kill()
        start = time.monotonic()
        _, errors = playing.communicate(timeout=60)
        noticed = time.monotonic() - start
    assert playing.returncode == 2, errors
    assert noticed < 15
    (line,) = errors.strip().splitlines()
    assert f"the Dask scheduler {cluster.address} is lost" in line
    assert "the same command plays the rest" in line

    # Without a cluster the rest is played. The rows are those of a run that was never disturbed.
    how: dict[str, Any] = {"trials": 24, "seed": 5, "progress": False}
    with cbg.Store(out) as store:
        assert kept <= len(store) < 24
    resumed = cbg.evaluate(policy, TINY, out=out, **how).trials
    whole = cbg.evaluate(policy, TINY, n_jobs=1, **how).trials
    pd.testing.assert_frame_equal(content(resumed), content(whole))
    assert set(resumed["attempts"]) == {1}


def test_a_trial_that_ends_its_worker_costs_no_other_trial() -> None:
    how: dict[str, Any] = {"trials": 4, "seed": 1, "progress": False}
    local = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(**local) as running,
    ):
        place = {"backend": "dask", "address": running.scheduler_address}
        trials = cbg.evaluate([Exits(), Empirical(3)], TINY, **place, **how).trials
    assert (trials["outcome"] == "crash").tolist() == [False, False, True, False] + 4 * [False]
    alone = cbg.evaluate(Empirical(3), TINY, **how).trials
    pd.testing.assert_frame_equal(content(trials[4:].reset_index(drop=True)), content(alone))


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_backend, "CONNECT_SECONDS", 0.5)
    with pytest.raises(UserError, match="there is no Dask scheduler at"):
        cbg.evaluate(
            "naive", TINY, trials=1, backend="dask", address="tcp://127.0.0.1:1", progress=False
        )
