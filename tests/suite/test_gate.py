"""What keeps a cell from counting as solved although its answers are right: further attempts, silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suite_toys import GivesUp, Knows

from clustered_bandit_gym.suite import SUITE_V1
from clustered_bandit_gym.suite.files import load_submission
from clustered_bandit_gym.suite.score import played_cells, score, yardsticks
from clustered_bandit_gym.suite.submission import play_cell

COINS = next(cell for cell in SUITE_V1 if cell.name == "coins")
QUICK = Path(__file__).parents[2] / "submissions" / "quick"


def right_rows() -> list[dict[str, Any]]:
    """Rows of a quick run without an error, at twice the lower bound."""
    return [
        {
            "cell": cell.name,
            "trial": trial,
            "outcome": "solved",
            "pulls": 2 * yardsticks()[cell.name]["bound"],
            "cost": yardsticks()[cell.name]["cost"],
            "rounds": 1,
            "attempts": 1,
            "suspicious_communication": False,
            "message": "",
        }
        for cell in played_cells(quick=True)
        for trial in range(cell.quick)
    ]


def entries(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["cell"]: entry for entry in score(rows, quick=True)["cells"]}


def test_a_trial_has_one_attempt() -> None:
    rows = right_rows()
    assert all(entry["solved"] for entry in entries(rows).values())
    next(row for row in rows if (row["cell"], row["trial"]) == ("coins", 5))["attempts"] = 2
    found = entries(rows)
    assert [name for name, entry in found.items() if not entry["solved"]] == ["coins"]
    assert (
        found["coins"]["reason"]
        == "1 of 70 trials without an answer: trial 5 was solved only at attempt 2"
    )
    assert found["coins"]["unfinished"] == 1


def test_attempts_of_earlier_runs_are_counted(tmp_path: Path) -> None:
    """A trial fails and is solved in the second run with probability 1/4: false alarm 0.75^70 < 2e-9."""
    play_cell(GivesUp(), COINS, 70, out=tmp_path)
    rows = play_cell(GivesUp(), COINS, 70, out=tmp_path)
    again = [row for row in rows if row["outcome"] == "solved" and row["attempts"] == 2]
    assert again
    failed = [row for row in rows if row["outcome"] == "error"]
    assert entries(rows)["coins"]["unfinished"] == len(again) + len(failed)


def test_right_answers_must_come_through_the_channel() -> None:
    instance = COINS.instance
    (row,) = play_cell(Knows(tuple(instance.agent_best_arms.tolist())), COINS, 1)
    assert row["outcome"] == "solved"
    assert row["suspicious_communication"] is True
    rows = right_rows()
    for row in rows:
        row["suspicious_communication"] = row["cell"] == "coins"
    found = entries(rows)
    assert [name for name, entry in found.items() if not entry["solved"]] == ["coins"]
    assert "less than half of the bits" in found["coins"]["reason"]
    for row in rows:  # cells of 20 trials, too, where the whole run is like that
        row["suspicious_communication"] = row["cell"] != "coins"
    assert [name for name, entry in entries(rows).items() if entry["solved"]] == ["coins"]


def test_files_without_these_fields_have_defaults() -> None:
    rows = load_submission(QUICK / "random").rows
    assert {(row["attempts"], row["suspicious_communication"]) for row in rows} == {(1, False)}
