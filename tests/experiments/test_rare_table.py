"""The table and the figure of measured errors: made once, resumed after."""

from __future__ import annotations

from pathlib import Path

from clustered_bandit_gym.experiments.rare_table import (
    BASELINES,
    DELTA,
    DELTAS,
    NEAR_TIE,
    POLICIES,
    SMALL,
    rare_table,
    tasks,
)
from clustered_bandit_gym.harness.scoring.rare import kept


def test_the_table_is_made_once(tmp_path: Path) -> None:
    table, figure = rare_table(tmp_path, ["random"], progress=False)
    text = table.read_text(encoding="utf-8")
    assert text.count("| `random` |") == 2
    assert SMALL in text
    assert NEAR_TIE in text
    assert figure.read_bytes()[:4] == b"\x89PNG"
    rows = kept(tmp_path)
    assert [row["env"] for row in rows] == [SMALL, NEAR_TIE]
    assert all(row["error"] > 0.9 for row in rows)  # nine guesses among ten arms
    rare_table(tmp_path, ["random"], progress=False)
    assert kept(tmp_path) == rows


def test_every_policy_of_the_figure_is_measured_at_every_delta() -> None:
    listed = tasks()
    for policy in POLICIES:
        assert {task.delta for task in listed if task.policy == policy and task.env == SMALL} == set(DELTAS)
    assert {task.delta for task in listed if task.policy in BASELINES} == {DELTA}
