"""Stores that are damaged, full or read-only, and rows of others: errors of one line, and no code
is run."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from harness_players import TINY, Empirical
from typer.testing import CliRunner

import clustered_bandit_gym as cbg
from clustered_bandit_gym.cli import app
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.store import FILE, Place, Store


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    cbg.evaluate(["naive"], TINY, trials=4, out=tmp_path / "kept", progress=False)
    return tmp_path / "kept"


def change(folder: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(folder / FILE) as db:
        assert db.execute(statement, values).rowcount == 1


HOSTILE: list[dict[str, object]] = [
    {"policy_class": "subprocess:call", "settings": {"args": ["touch", "ran"]}},
    {"policy_class": "clustered_bandit_gym.imports:load_object", "settings": {"spec": "ran:x"}},
    {"policy_class": "ran:Policy", "settings": {}},
    {"env_kwargs": {"generator": {"object": "subprocess:call", "settings": {"args": ["touch", "ran"]}}}},
    {"env_kwargs": {"generator": "ran:draw"}},
    {"env": "ran:ClusteredBAI-Tiny-v0"},
]  # fmt: skip


@pytest.mark.parametrize("change_of_row", HOSTILE)
def test_a_row_runs_no_code(
    kept: Path, monkeypatch: pytest.MonkeyPatch, change_of_row: dict[str, object]
) -> None:
    monkeypatch.chdir(kept)
    Path("ran.py").write_text("open('ran', 'w').close()\n")
    with cbg.Store(kept, create=False) as store:
        row = next(store.stream()) | change_of_row
    with pytest.raises(
        UserError, match=r'allow=\["(subprocess|ran)"\] if you trust it|neither a policy'
    ):
        cbg.replay(row)
    assert not Path("ran").exists()


def test_modules_that_the_caller_names_may_be_used() -> None:
    board = cbg.evaluate(Empirical(2), TINY, trials=1, progress=False)
    row = board.trials.to_dict("records")[0]
    with pytest.raises(UserError, match=r'allow=\["harness_players"\] if you trust it'):
        cbg.replay(row)
    assert cbg.replay(row, allow=["harness_players"])["pulls"] == row["pulls"]


def test_damage_is_told_in_one_line(kept: Path) -> None:
    change(kept, "UPDATE trials SET row = '{' WHERE trial = 2")
    with pytest.raises(UserError, match="cannot be read"):
        cbg.Board.load(kept)
    content = bytearray((kept / FILE).read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    (kept / FILE).write_bytes(content)
    done = CliRunner().invoke(app, ["show", str(kept)])
    assert done.exit_code == 2
    assert len(done.output.strip().splitlines()) == 1
    assert "restore it" in done.output or "cannot be used" in done.output


def test_a_full_disk_is_told_in_one_line(kept: Path) -> None:
    with Store(kept) as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        row = {"outcome": "solved", "policy": "p", "text": "x" * 100_000}
        with pytest.raises(UserError, match="full; finished trials are kept: make room"):
            store.put(Place("e", "p", "v", "0"), 0, row)
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
    # A place of its own: the reader is another user, who cannot get into pytest's folders.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        store = Path(shutil.copytree(kept, Path(place, "store")))
        (store / FILE).chmod(0o444)
        store.chmod(0o555)
        try:
            assert sorted(path.name for path in store.iterdir()) == [FILE]
            command = [sys.executable, "-c", READ, str(store)]
            done = subprocess.run(command, capture_output=True, text=True)
        finally:
            store.chmod(0o755)
    assert done.stdout == "4\n", done.stderr
