"""What a replay compares: every trial that the checker counts was played."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from suite_toys import Exits, Fixed

from clustered_bandit_gym.suite import SUITE_V1
from clustered_bandit_gym.suite.cells import GIVE_UP
from clustered_bandit_gym.suite.checker import Mismatch, verify
from clustered_bandit_gym.suite.score import score
from clustered_bandit_gym.suite.submission import differences, play_cell

QUICK = Path(__file__).parents[2] / "submissions" / "quick"
COINS = next(cell for cell in SUITE_V1 if cell.name == "coins")


@pytest.fixture
def random(tmp_path: Path) -> Path:
    return Path(shutil.copytree(QUICK / "random", tmp_path / "random", ignore=shutil.ignore_patterns(".trials")))


def give_up(folder: Path, outcome: str) -> None:
    """Replaces the rows of every cell by three that end without an answer."""
    lines = (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    lost = {"outcome": outcome, "wrong_agents": None, "message": "the trial's process ended: SIGSEGV(-11)"}
    rows: list[dict[str, Any]] = [row | lost for row in map(json.loads, lines) if row["trial"] < GIVE_UP]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    full = [{"attempts": 1, "suspicious_communication": False} | row for row in rows]
    (folder / "scores.json").write_text(json.dumps(score(full, quick=True)), encoding="utf-8")


def test_a_wrong_trial_called_a_crash(random: Path) -> None:
    give_up(random, "crash")
    with pytest.raises(
        Mismatch, match=r"replay: 1 of 1 trials differ. coins, trial 1: outcome crash \(replayed: wrong\)"
    ):
        verify(random, trials=[("coins", 1)])


def test_the_suite_has_no_timeouts(random: Path) -> None:
    give_up(random, "timeout")
    with pytest.raises(Mismatch, match="expected an outcome of solved, wrong, budget, error, crash"):
        verify(random, replay=0)


def test_a_crash_is_replayed_alone() -> None:
    rows = play_cell(Exits(), COINS, 1)
    assert rows[0]["outcome"] == "crash"
    assert differences("exits", Exits(), rows) == []
    # Its end does not touch the replay of others, whatever their order.
    good = play_cell(Fixed(), COINS, 1)
    (line,) = differences("fixed", Fixed(), rows + good)
    assert line.startswith("coins, trial 0: outcome crash (replayed: solved)")
