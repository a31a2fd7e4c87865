"""Faults: a trial that ends its process costs one trial; processes killed from outside cost
nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness_players import QUICK, TINY

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.play import Task, Work
from clustered_bandit_gym.harness.run import run
from clustered_bandit_gym.harness.settings import Cell

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs signals")


class Fatal(cbg.Policy):
    """Ends its process, or never ends, in every trial whose own random number is below 0.3."""

    def __init__(self, how: str) -> None:
        self.how = how

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        if federation.rng.random() < 0.3:
            if self.how == "exit":
                os._exit(3)
            if self.how == "hang":
                time.sleep(60)
            os.kill(os.getpid(), getattr(signal, self.how))
        return np.zeros(federation.problem.n_agents, dtype=int)


class Slow(cbg.Policy):
    """Leaves the id of its process in a folder, unless it is the parent's."""

    def __init__(self, folder: str, parent: int) -> None:
        self.folder, self.parent = folder, parent

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        if os.getpid() != self.parent:
            Path(self.folder, str(os.getpid())).touch()
            time.sleep(0.02)
        federation.pull(federation.agents, 0, 10)
        return federation.rng.integers(3, size=federation.problem.n_agents)


class Odd(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Raises(cbg.Policy):
    def __init__(self, what: str) -> None:
        self.what = what

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        raise {
            "base": BaseException("bare"),
            "generator": GeneratorExit(),
            "surrogate": ValueError("\ud800 alone"),
            "text": Odd(),
        }[self.what]


@POSIX
def test_a_trial_that_ends_its_process_costs_one_trial(tmp_path: Path) -> None:
    players = [Fatal("exit"), Fatal("SIGSEGV"), Fatal("SIGKILL"), "naive"]
    how: dict[str, Any] = {**QUICK, "trials": 4, "seed": 1, "n_jobs": 2, "out": tmp_path}
    board = cbg.evaluate(players, **how)
    trials = board.trials
    assert len(trials) == 16
    dead = trials[trials["outcome"] == "crash"]
    assert sorted(text.split()[-1] for text in dead["message"]) == [
        "EXIT(3)",
        "SIGKILL(-9)",
        "SIGSEGV(-11)",
    ]
    assert set(dead["trial"]) == {2}  # the same trial, whatever the way
    assert dead["correct"].isna().all()
    assert set(trials[trials["policy"] == "naive"]["outcome"]) == {"solved"}
    assert board.summary["unfinished"].tolist() == [1, 1, 1, 0]
    assert (dead[dead["message"].str.contains("SIGKILL")]["attempts"] == 2).all()
    assert "ended their process" in str(board)
    again = cbg.evaluate(players, **how).trials  # a poisoned trial does not prevent resuming
    assert again["outcome"].tolist() == trials["outcome"].tolist()


class Endless(cbg.Policy):
    def solve(self, federation: cbg.Federation) -> np.ndarray:
        time.sleep(60)
        raise AssertionError


def test_an_audit_of_an_endless_policy_ends() -> None:
    """Its checks beside the trials have no time limit, so they leave such a policy out."""
    start = time.monotonic()
    report = cbg.audit(Endless(), cells=["small game"], trials=1, max_seconds=0.5, progress=False)
    assert report.word == "INCONCLUSIVE"
    assert time.monotonic() - start < 60


def test_a_trial_beyond_its_time_is_unfinished() -> None:
    board = cbg.evaluate(Fatal("hang"), TINY, trials=4, seed=1, max_seconds=2, progress=False)
    outcomes = board.trials["outcome"]
    assert len(outcomes) == 4
    assert (outcomes == "timeout").tolist() == [False, False, True, False]
    assert set(board.trials[outcomes == "timeout"]["message"]) == {"no answer after 2 seconds"}
    assert set(board.trials[outcomes == "timeout"]["seconds"]) == {2.0}
    with pytest.raises(UserError, match="positive"):
        cbg.evaluate("naive", TINY, max_seconds=0)
    with pytest.raises(UserError, match="of this machine"):
        cbg.evaluate("naive", TINY, max_seconds=1, backend="dask")


@POSIX
def test_workers_killed_at_random_moments_change_no_row(tmp_path: Path) -> None:
    """Five kills; rows are those of the undisturbed run, but for the attempts."""
    cells = [Cell("ClusteredBAI-PaperSmall-v0", {"n_agents": 6})]
    tasks = [Task(0, 0, trial) for trial in range(100)]

    work = Work(cells, [("slow", Slow(str(tmp_path), os.getpid()))], seed=1, bound=False)
    whole = {task: work.play(task) for task in tasks}
    rng, disturbed, kills = np.random.default_rng(0), {}, 0
    for task, row in run(work, tasks, n_jobs=2):
        disturbed[task] = row
        workers = sorted(tmp_path.iterdir())
        if kills < 5 and len(disturbed) > 9 * kills and workers:
            worker = workers[rng.integers(len(workers))]
            worker.unlink()
            time.sleep(0.01)  # in the middle of its next trial
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(worker.name), signal.SIGKILL)
                kills += 1
    assert kills == 5
    again = [row for row in disturbed.values() if row["attempts"] > 1]
    assert again
    assert all(row.get("killed") == 1 for row in again if row["outcome"] != "crash")

    def content(rows: dict[Task, Any]) -> Any:
        left_out = ("seconds", "attempts", "killed")
        return {
            task: {key: row[key] for key in row if key not in left_out}
            for task, row in rows.items()
        }

    killed_twice = [task for task, row in disturbed.items() if row["outcome"] == "crash"]
    # A trial is given up after its second crash, so that five kills cost two trials at most.
    # Usually none.
    assert len(killed_twice) <= 2
    expected = {task: row for task, row in content(whole).items() if task not in killed_twice}
    assert {
        task: row for task, row in content(disturbed).items() if task not in killed_twice
    } == expected


class DiesWithLock(cbg.Policy):
    """Is killed, once, while its process holds the lock that the pool's workers share."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        with contextlib.suppress(FileExistsError):
            Path(self.mark).touch(exist_ok=False)
            frame = sys._getframe()
            while "channel" not in frame.f_locals:
                assert frame.f_back is not None
                frame = frame.f_back
            frame.f_locals["channel"].mutex.acquire()
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(federation.problem.n_agents, dtype=int)


@POSIX
def test_a_worker_killed_while_it_holds_the_lock_of_the_pool(tmp_path: Path) -> None:
    """The others wait for it three seconds, end, and are replaced with a lock of their own."""
    policy = DiesWithLock(str(tmp_path / "mark"))
    start = time.monotonic()
    board = cbg.evaluate(policy, TINY, trials=6, n_jobs=2, bound=False, progress=False)
    assert "crash" not in set(board.trials["outcome"])
    assert len(board.trials) == 6
    assert time.monotonic() - start < 60


class EndsWorkers(cbg.Policy):
    """Ends every process that loads it."""

    def __deepcopy__(self, memo: Any) -> EndsWorkers:
        return self

    def __reduce__(self) -> Any:
        return os._exit, (3,)

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        raise AssertionError


def test_workers_that_cannot_start_end_the_run_with_one_line() -> None:
    with pytest.raises(UserError, match="worker processes cannot start here"):
        cbg.evaluate(EndsWorkers(), TINY, trials=3, n_jobs=2, progress=False)


class Leaves(cbg.Policy):
    """Ends its process as if all were well."""

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        os._exit(0)


def test_a_trial_that_ends_its_process_without_an_error_is_a_crash() -> None:
    board = cbg.evaluate(Leaves(), TINY, trials=2, n_jobs=2, bound=False, progress=False)
    assert board.trials["outcome"].tolist() == ["crash", "crash"]


def test_a_trial_without_end_is_not_silent(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("clustered_bandit_gym.harness.run.PROGRESS_SECONDS", 0.2)
    cbg.evaluate(Naps(), TINY, trials=1, bound=False)
    told = capfd.readouterr().err
    assert "0 of 1 trials after" in told
    assert told.count("--max-seconds") == 1


class Naps(cbg.Policy):
    def solve(self, federation: cbg.Federation) -> np.ndarray:
        time.sleep(1)
        return np.zeros(federation.problem.n_agents, dtype=int)


@POSIX
def test_workers_do_not_outlive_a_parent_killed_before_their_first_trial() -> None:
    code = (
        "import time; from clustered_bandit_gym.harness.pool import _workers; "
        "manager = _workers(b'', 2); pool = manager.__enter__(); pool.schedule(time.sleep, "
        "(600,)); "
        "print('started', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        parent.kill()
    for _ in range(300):
        try:
            os.killpg(parent.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.killpg(parent.pid, signal.SIGKILL)
    pytest.fail("a worker outlived the run")


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("base", "BaseException: bare"),
        ("generator", "GeneratorExit"),
        ("surrogate", "alone"),
        ("text", "str() failed"),
    ],
)
def test_whatever_a_policy_raises_becomes_a_row(what: str, text: str, tmp_path: Path) -> None:
    board = cbg.evaluate(Raises(what), TINY, trials=1, out=tmp_path, progress=False)
    assert board.trials["outcome"].tolist() == ["error"]
    assert text in board.trials["message"][0]
    str(board).encode()
