"""The file of a study: other files, other versions, killed processes, two processes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg

PROBLEM = cbg.Problem(6, 2, 2, 0.05, eta=0.5, sigma=0.5, support=(0, 1))
MEANS = np.array([[0.95, 0.05], [0.1, 0.9]])

#: Drives a study with rewards that depend on the pull alone, slowly, and is killed somewhere.
SCRIPT = """
import sys, time, clustered_bandit_gym as cbg
sys.path.insert(0, {folder!r})
from test_file import PROBLEM, pull
def slowly(*order):
    print("order", flush=True)
    time.sleep(0.02)
    return pull(*order)
cbg.drive("naive:engine=mixture", slowly, PROBLEM, sys.argv[1], values=(0, 1))
"""


def pull(agents: np.ndarray, arms: np.ndarray, times: np.ndarray) -> list[np.ndarray]:
    """Rewards that are a function of the order: a repeated pull gives the same."""
    seed = [int(part) for part in (*agents, *arms, *times)]
    rng = np.random.default_rng(seed)
    cells = zip(agents, arms, times, strict=True)
    return [rng.binomial(1, MEANS[agent % 2, arm], n) for agent, arm, n in cells]


def test_a_killed_study_resumes(tmp_path: Path) -> None:
    whole = cbg.drive("naive:engine=mixture", pull, PROBLEM, values=(0, 1))
    script = SCRIPT.format(folder=str(Path(__file__).parent))
    path = tmp_path / "study.db"
    for wait in (0.0, 0.01):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["order\n"] * 3
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    calls = []

    def counted(*order: np.ndarray) -> list[np.ndarray]:
        calls.append(order)
        return pull(*order)

    study = cbg.drive("naive:engine=mixture", counted, PROBLEM, path, values=(0, 1))
    assert len(calls) <= whole.status.orders - 4, "two orders at least were told by each process"
    assert np.array_equal(study.arms, whole.arms)
    assert np.array_equal(study.status.pulls_per_arm, whole.status.pulls_per_arm)
    assert study.ledger.summary() == whole.ledger.summary()


def test_a_tell_is_recorded_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.db"
    study = cbg.Study("naive", PROBLEM, path)
    order = study.ask()
    assert order is not None
    before = path.read_bytes()

    def interrupted(array: np.ndarray) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("clustered_bandit_gym.study.file._pack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            study.tell(order, pull(order.agents, order.arms, order.times))
    assert path.read_bytes() == before
    assert study.tell(order, pull(order.agents, order.arms, order.times))


def test_a_second_process_waits(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    study = cbg.Study("naive", PROBLEM, path)
    order = study.ask()
    assert order is not None
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
    start = time.perf_counter()
    release.start()
    assert study.tell(order, pull(order.agents, order.arms, order.times))
    assert time.perf_counter() - start > 0.25
    assert cbg.Study.open(path).status.orders == 1


def test_two_studies_on_one_file_see_each_other(tmp_path: Path) -> None:
    first, second = (
        cbg.Study("naive:engine=mixture", PROBLEM, tmp_path / "study.db") for _ in range(2)
    )
    turn = 0
    while (order := (first, second)[turn % 2].ask()) is not None:
        (second, first)[turn % 2].tell(order, pull(order.agents, order.arms, order.times))
        turn += 1
    assert turn > 1
    assert np.array_equal(first.arms, second.arms)


def test_two_processes_store_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (cbg.Study("naive", PROBLEM, tmp_path / "study.db") for _ in range(2))
    add = second._file.add

    def late(order: cbg.study.Order) -> None:
        first.ask()
        add(order)

    monkeypatch.setattr(second._file, "add", late)
    assert second.ask().id == first.ask().id == 1  # type: ignore[union-attr]


def test_another_study_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    cbg.Study("naive", PROBLEM, path).close()
    before = path.read_bytes()
    for message, make in (
        ("policy is 'naive', not 'bai-cl'", lambda: cbg.Study("bai-cl", PROBLEM, path)),
        ("policy is 'naive'", lambda: cbg.Study("naive:engine=lucb", PROBLEM, path)),
        (
            "delta is 0.05, not 0.01",
            lambda: cbg.Study("naive", replace(PROBLEM, delta=0.01), path),
        ),
        ("seed is 0, not 1", lambda: cbg.Study("naive", PROBLEM, path, seed=1)),
        ("values is None", lambda: cbg.Study("naive", PROBLEM, path, values=(0, 1))),
        ("policy is 'naive'", lambda: cbg.Study.open(path, policy="bai-cl")),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    assert path.read_bytes() == before


def test_files_that_are_no_studies(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="there is no file"):
        cbg.Study.open(path)
    assert not path.exists()
    path.touch()
    with pytest.raises(ValueError, match="is not a study"):
        cbg.Study.open(path)
    path.write_text("agent,arm\n" * 200)
    for make in (lambda: cbg.Study.open(path), lambda: cbg.Study("naive", PROBLEM, path)):
        with pytest.raises(ValueError, match="is not a study"):
            make()
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    with pytest.raises(ValueError, match="is not a study: no such table"):
        cbg.Study("naive", PROBLEM, path)
    with pytest.raises(ValueError, match="there is no folder"):
        cbg.Study("naive", PROBLEM, tmp_path / "no" / "folder.db")


def test_another_version_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    cbg.Study("naive", PROBLEM, path).close()
    with sqlite3.connect(path) as file:
        file.execute("""UPDATE study SET value = '"0.0.1"' WHERE name = 'version'""")
    with pytest.raises(ValueError, match=r"made by version 0\.0\.1"):
        cbg.Study.open(path)


class Drifting(cbg.Policy):
    """A policy whose code changes during the study."""

    times = 5

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        federation.pull(federation.agents, 0, self.times)
        federation.pull(federation.agents, 1, 3)
        return np.zeros(6, dtype=int)


def test_changed_code_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.db"
    study = cbg.Study(Drifting(), PROBLEM, path)
    order = study.ask()
    monkeypatch.setattr(Drifting, "times", 6)
    with pytest.raises(ValueError, match=r"order 1 of the file .* code or a library has changed"):
        cbg.Study.open(path, policy=Drifting()).ask()
    study.tell(order, sums=np.ones(6))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"order 1 of the file .* code or a library has changed"):
        cbg.Study.open(path, policy=Drifting()).ask()


class Fixed(cbg.Policy):
    arms = (0, 1, 0, 1, 0, 1)

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        federation.pull(federation.agents, 0, 3)
        return np.array(self.arms)


def test_the_arms_of_a_finished_study_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.db"
    done = cbg.drive(Fixed(), pull, PROBLEM, path)
    assert done.arms is not None
    monkeypatch.setattr(Fixed, "arms", (1,) * 6)
    with pytest.raises(ValueError, match="names other arms than those in the file"):
        _ = cbg.Study.open(path, Fixed()).arms
    monkeypatch.undo()
    assert np.array_equal(cbg.Study.open(path, Fixed()).arms, Fixed.arms)


def test_a_file_that_cannot_be_written_is_told_before_pulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.db"
    cbg.Study("naive", PROBLEM, path).ask()
    connect = sqlite3.connect

    def read_only(*given: Any, **more: Any) -> sqlite3.Connection:
        found = connect(*given, **more)
        found.execute("PRAGMA query_only = ON")  # root may write to any file
        return found

    monkeypatch.setattr(sqlite3, "connect", read_only)
    calls: list[int] = []
    with pytest.raises(ValueError, match="cannot be written: attempt to write a readonly database"):
        cbg.drive("naive", lambda *_: calls.append(1), PROBLEM, path)
    assert not calls


def test_no_pickle_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    cbg.drive("naive", pull, PROBLEM, path)
    with sqlite3.connect(path) as file:
        blobs = file.execute("SELECT asked, done, told FROM orders").fetchall()
    assert all(blob[:1] == b"\x78" for row in blobs for blob in row)  # zlib streams of numbers
