"""Trials on disk: kept once, failed ones replaced, old code left out, damage told."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from harness_players import QUICK, TINY, Empirical, Fails

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.store import FILE, Place, Store

PLACE = Place("env", "policy", "versions", "0")


def row(outcome: str = "solved", **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "policy": "p", "trial": 0, **more}


def test_finished_rows_stay_and_failed_rows_are_replaced(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.put(PLACE, 0, row("error"))
        store.put(PLACE, 0, row("wrong", pulls=1))
        store.put(PLACE, 0, row("solved", pulls=2))
        assert store.get(PLACE) == {0: row("wrong", pulls=1)}
        assert len(store) == 1


def test_rows_of_changed_code_are_left_out(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for policy in ("old", "new", "old again"):
            place = Place("env", policy, "v", "0")
            store.announce("p", place)
            store.put(place, 0, row(mark=policy))
        assert [kept["mark"] for kept in store.stream()] == ["old again"]
        assert len(store) == 3
        store.announce(
            "p", Place("env", "new", "v", "0")
        )  # back to earlier code: its rows count again
        assert [kept["mark"] for kept in store.stream()] == ["new"]


def test_environments_that_differ_in_their_code_alone_are_not_mixed(tmp_path: Path) -> None:
    """A board shows them as one: by id and settings."""
    with Store(tmp_path) as store:
        for n, code in ((10, "old"), (20, "old"), (10, "new")):
            place = Place(f"env {n} {code}", "p", "v", "0")
            store.announce("p", place)
            store.put(place, 0, row(env="E", env_kwargs={"n": n, "eta": float("inf")}, mark=code))
        found = [(kept["env_kwargs"]["n"], kept["mark"]) for kept in store.stream()]
        assert found == [(20, "old"), (10, "new")]


def test_a_reader_leaves_no_files_behind(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.put(PLACE, 0, row())
    with Store(tmp_path, create=False) as store:
        assert len(store) == 1
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_two_stores_may_write_at_once(tmp_path: Path) -> None:
    with Store(tmp_path) as one, Store(tmp_path) as two:
        for trial in range(50):
            (one if trial % 2 else two).put(Place("e", "p", "v", "0"), trial, row(trial=trial))
            (two if trial % 2 else one).put(
                Place("e", "p", "v", "0"), trial, row("wrong", trial=trial)
            )
        assert len(one) == 50
        assert {kept["outcome"] for kept in one.get(Place("e", "p", "v", "0")).values()} == {
            "solved"
        }


def test_it_is_a_plain_database_in_wal_mode(tmp_path: Path) -> None:
    cbg.evaluate(Empirical(1), TINY, trials=2, out=tmp_path, progress=False)
    with sqlite3.connect(tmp_path / FILE) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        texts = db.execute("SELECT row FROM trials").fetchall()
    assert [json.loads(text)["trial"] for (text,) in texts] == [0, 1]


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no trials"):
        Store(tmp_path, create=False)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="cannot be used"):
        Store(tmp_path / "file")
    (tmp_path / FILE).write_bytes(b"this is no database, but long enough to be looked at" * 100)
    with pytest.raises(ValueError, match="cannot be used"):
        Store(tmp_path)
    assert (tmp_path / FILE).read_bytes().startswith(b"this is no database")


def test_newer_stores_are_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="has format 99"):
        Store(tmp_path)


def test_rows_are_streamed(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.announce("p", Place("e", "p", "v", "0"))
        for trial in range(500):
            store.put(Place("e", "p", "v", "0"), trial, row(trial=trial, text="x" * 10_000))
        tracemalloc.start()
        try:
            assert [one["trial"] for one in store.stream()] == list(range(500))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 500_000, "5 MB of rows"


def test_a_malformed_file_is_found_when_it_is_opened(tmp_path: Path) -> None:
    """A row and its index contradict each other, though both can be read."""
    with Store(tmp_path) as store:
        for trial in range(3):
            store.put(Place("one-environment", "p", "v", "0"), trial, row(trial=trial))
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes().replace(b"one-environment", b"two-environment", 1))
    with pytest.raises(UserError, match=r"is damaged \(.*; restore it from a copy"):
        Store(tmp_path, create=False)


def test_export(tmp_path: Path) -> None:
    board = cbg.evaluate([Empirical(3), Fails(0.5)], **QUICK, trials=3, max_pulls=10**6)
    table = pd.read_csv(board.export(tmp_path / "trials.csv"))
    assert len(table) == 6
    assert table["pulls"].tolist() == board.trials["pulls"].tolist()


def test_stores_of_an_older_format_are_refused(tmp_path: Path) -> None:
    """Their keys did not hold all that makes a row: rows of other code could be served."""
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("PRAGMA user_version = 1")
    with pytest.raises(UserError, match=r"has format 1, .*; use another folder"):
        Store(tmp_path)


def test_reading_many_rows_holds_what_repeats_once(tmp_path: Path) -> None:
    """10^5 rows must fit in memory: without sharing they take 2.5 kB each, with it 1.1 kB."""
    row = cbg.play("naive", "ClusteredBAI-PaperSmall-v0", env_kwargs={"n_agents": 9})
    row = json.loads(json.dumps(row))
    count = 2000
    with Store(tmp_path) as store:
        store.announce("naive", PLACE)
        for trial in range(count):
            store.put(PLACE, trial, row | {"trial": trial})
    cbg.Board.load(tmp_path)  # imports what it needs
    tracemalloc.start()
    try:
        board = cbg.Board.load(tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(board.trials) == count
    assert board.trials.iloc[7].to_dict() == row | {"trial": 7}
    assert peak / count < 1800
