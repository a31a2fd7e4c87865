"""What a replay compares: every trial that the checker counts was played."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from suite_toys import Exits, Fixed, again

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.suite.cells import GIVE_UP, cells_of
from clustered_bandit_gym.suite.checker import different, replayed, this_platform, verify
from clustered_bandit_gym.suite.submission import play_cell

V1 = Path(__file__).parent / "data" / "v1-random"
EASY = cells_of("v2")["easy-10"]


@pytest.fixture
def random(tmp_path: Path) -> Path:
    return Path(shutil.copytree(V1, tmp_path / "random"))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in gzip.open(folder / "rows.jsonl.gz", "rt", encoding="utf-8")
    ]


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(text.encode()))


def give_up(folder: Path, outcome: str) -> None:
    """Replaces the rows of every cell by three that end without an answer."""
    message = "the trial's process ended: SIGSEGV(-11)"
    lost = {"outcome": outcome, "wrong_agents": None, "message": message}
    write_rows(folder, [row | lost for row in rows_of(folder) if row["trial"] < GIVE_UP])


def test_submissions_of_v1_are_still_verified(random: Path) -> None:
    checked = verify(random, trials=[("coins", 0), ("flat-200", 3)])
    assert len(checked.replayed) == 2
    assert any("v1 is closed" in note for note in checked.notes)


def test_a_wrong_trial_called_a_crash(random: Path) -> None:
    give_up(random, "crash")
    with pytest.raises(
        UserError,
        match=r"replay: 1 of 1 trials differ. coins, trial 1: outcome crash \(replayed: wrong\)",
    ):
        verify(random, trials=[("coins", 1)])


def test_the_suite_has_no_timeouts(random: Path) -> None:
    give_up(random, "timeout")
    with pytest.raises(match="expected an outcome of solved, wrong, budget, error, crash"):
        verify(random, replay=0)


def test_a_crash_is_replayed_alone() -> None:
    rows = play_cell(Exits(), EASY, 1)
    assert rows[0]["outcome"] == "crash"
    assert different(rows, again("suite_toys:Exits", rows)) == []
    # Its end does not touch the replay of others, whatever their order.
    good = play_cell(Fixed(), EASY, 1)
    (line,) = different(rows + good, again("suite_toys:Fixed", rows + good))
    assert line.startswith("easy-10, trial 0: outcome crash (replayed: solved)")


def change_metadata(folder: Path, **values: Any) -> None:
    path = folder / "metadata.json"
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8"
    )


@pytest.mark.parametrize(
    "values",
    [
        {"guarantee": "proved by authority"},
        {"guarantee": None},
        {"guarantee": "proved", "link": ""},
        {"suite": "v0"},
    ],
)
def test_a_guarantee_is_one_of_three(random: Path, values: dict[str, Any]) -> None:
    change_metadata(random, **values)
    with pytest.raises(
        UserError,
        match=r"guarantee must be|given where guarantee is proved|expected one of v1, v2",
    ):
        verify(random, replay=0)


def test_another_platform_is_a_statement(random: Path) -> None:
    change_metadata(random, platform=this_platform() | {"machine": "another"})
    rows = rows_of(random)
    next(row for row in rows if (row["cell"], row["trial"]) == ("coins", 3))["rounds"] += 1
    write_rows(random, rows)
    checked = verify(random, trials=[("coins", trial) for trial in range(10)])
    assert (checked.exact, checked.different, len(checked.replayed)) == (False, 1, 10)
    assert any("own statement, which cannot be checked here" in note for note in checked.notes)


def test_code_that_fails_on_import(random: Path) -> None:
    (random / "source").mkdir()
    text = "raise RuntimeError('not here')\n"
    (random / "source" / "bad_module_of_a_test.py").write_text(text, encoding="utf-8")
    sources = {"bad_module_of_a_test.py": hashlib.sha256(text.encode()).hexdigest()}
    change_metadata(random, sources=sources, policy="bad_module_of_a_test:Bad")
    with pytest.raises(match=r"the policy cannot be played: .*not here"):
        verify(random, trials=[("coins", 0)])


def test_the_stated_guarantee_is_the_policys_own() -> None:
    metadata = {"suite": "v2", "policy": "naive", "sources": {}}
    forged = metadata | {"guarantee_text": "delta-PC under Assumption 2"}
    with pytest.raises(UserError, match="its guarantee is 'delta-PC', not 'delta-PC under"):
        replayed(forged, Path(), [("easy-10", 0)])
