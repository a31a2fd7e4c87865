"""Damage, full disks and read-only places: told in one line; changed rows are found."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from harness_players import TINY
from typer.testing import CliRunner

import clustered_bandit_gym as cbg
from clustered_bandit_gym.cli import app
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.store import FILE, Key, Store
from clustered_bandit_gym.harness.verification import verify


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    cbg.evaluate(["naive"], TINY, trials=4, out=tmp_path / "kept", progress=False)
    return tmp_path / "kept"


def change(folder: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(folder / FILE) as db:
        assert db.execute(statement, values).rowcount == 1


def test_what_was_played_is_verified(kept: Path) -> None:
    found = verify(kept, replays=2)
    assert (found.rows, found.hashed, found.replayed, found.fine) == (4, 4, 2, True)
    done = CliRunner().invoke(app, ["verify", str(kept), "--replay", "1"])
    assert done.exit_code == 0
    assert "4 rows, 4 with a hash: 0 damaged.\n1 rows played once more: 0 different." in done.output


@pytest.mark.parametrize("how", ["content", "trial", "text"])
def test_changed_rows_are_found(kept: Path, how: str) -> None:
    if how == "content":
        change(
            kept,
            "UPDATE trials SET row = replace(row, '\"pulls\": ', '\"pulls\": 1') WHERE trial = 2",
        )
    elif how == "trial":  # a row in another's place
        change(kept, "UPDATE trials SET trial = 7 WHERE trial = 2")
    else:
        change(kept, "UPDATE trials SET row = '{' WHERE trial = 2")
    found = verify(kept)
    assert len(found.damaged) == 1
    assert not found.fine
    assert CliRunner().invoke(app, ["verify", str(kept)]).exit_code == 1


def test_a_row_with_a_matching_hash_that_was_never_played_is_found(kept: Path) -> None:
    """Whoever writes rows can write hashes; playing the trial tells."""
    with Store(kept, create=False) as store:
        key, text, _ = next(store.kept())
    forged = json.loads(text) | {"pulls": 1}
    change(kept, "DELETE FROM trials WHERE trial = 0")
    with Store(kept) as store:
        store.put(Key(*key), forged)
    found = verify(kept, replays=4)
    assert found.damaged == []
    assert len(found.different) == 1
    assert found.different[0].endswith("trial 0: pulls")


def test_rows_without_a_hash_are_counted(kept: Path) -> None:
    with sqlite3.connect(kept / FILE) as db:
        db.execute("ALTER TABLE trials DROP COLUMN hash")
        db.execute("PRAGMA user_version = 2")
    assert (verify(kept).rows, verify(kept).hashed) == (4, 0)
    cbg.evaluate(
        ["naive"], TINY, trials=5, out=kept, progress=False
    )  # the file is brought up to date
    assert (verify(kept).rows, verify(kept).hashed) == (5, 1)


def test_damage_is_told_in_one_line(kept: Path) -> None:
    change(kept, "UPDATE trials SET row = '{' WHERE trial = 2")
    with pytest.raises(UserError, match="damaged row"):
        cbg.Board.load(kept)
    content = bytearray((kept / FILE).read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    (kept / FILE).write_bytes(content)
    done = CliRunner().invoke(app, ["show", str(kept)])
    assert done.exit_code == 2
    assert len(done.output.strip().splitlines()) == 1
    assert "restore it from a copy" in done.output or "cannot be used" in done.output


def test_a_full_disk_is_told_in_one_line(kept: Path) -> None:
    with Store(kept) as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        row = {"outcome": "solved", "policy": "p", "text": "x" * 100_000}
        with pytest.raises(UserError, match=r"full; make room, then run the same command"):
            store.put(Key("e", "p", "v", "0", 0), row)
        assert len(store) == 4


READ = """
import os, sys
import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.output import board  # noqa
import pandas
if os.geteuid() == 0:
    os.setuid(65534)
assert not os.access(sys.argv[1], os.W_OK)
print(len(cbg.Board.load(sys.argv[1]).trials))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
def test_a_store_in_a_read_only_place_can_be_read(kept: Path) -> None:
    for folder in kept.parents:  # the reader is another user, who must be able to get there
        if (
            folder.name.startswith(("pytest", "popen", "test_"))
            and folder.stat().st_uid == os.getuid()
        ):
            folder.chmod(0o755)
    (kept / FILE).chmod(0o444)
    kept.chmod(0o555)
    try:
        assert sorted(path.name for path in kept.iterdir()) == [FILE]
        done = subprocess.run(
            [sys.executable, "-c", READ, str(kept)], capture_output=True, text=True
        )
    finally:
        kept.chmod(0o755)
    assert done.stdout == "4\n", done.stderr
