"""The table and the figure of measured errors: made once, resumed after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clustered_bandit_gym.experiments import rare_table as rare_table_module
from research.rare.page import page_of
from research.rare.table import (
    BASELINES,
    DELTA,
    DELTAS,
    NEAR_TIE,
    POLICIES,
    REFITS,
    SMALL,
    rare_table,
    tasks,
)
from research.rare import kept
from research.rare.kept import FILE


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
    assert json.loads((tmp_path / "rare.json").read_text(encoding="utf-8")) == rows


def test_rows_of_other_versions_are_measured_again_unless_asked_to_keep_them(
    tmp_path: Path,
) -> None:
    rare_table(tmp_path, ["random"], progress=False)
    old = [row | {"version": "clustered_bandit_gym 0 (0123456789abcdef)"} for row in kept(tmp_path)]
    (tmp_path / FILE).write_text("".join(json.dumps(row) + "\n" for row in old), encoding="utf-8")
    table, _ = rare_table(tmp_path, ["random"], keep_old=True, progress=False)
    assert kept(tmp_path) == old
    assert (
        table.read_text(encoding="utf-8").count("01234567") == 2
    )  # each row says which code it is of
    table, _ = rare_table(tmp_path, ["random"], progress=False)
    assert len(kept(tmp_path)) == 2 * len(old)
    assert "01234567" not in table.read_text(encoding="utf-8")


def test_an_interrupted_run_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = rare_table_module.rare, []

    def second_call_is_interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(rare_table_module, "rare", second_call_is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        rare_table(tmp_path, ["random"], progress=False)
    text = (tmp_path / "rare.md").read_text(encoding="utf-8")
    assert text.count("| `random` |") == 1
    assert f"## Not measured yet\n\n- on {NEAR_TIE} at δ = 1e-10: `random`" in text
    rare_table(tmp_path, ["random"], progress=False)
    assert "Not measured" not in (tmp_path / "rare.md").read_text(encoding="utf-8")


def row_of(**changes: Any) -> dict[str, Any]:
    """A row with 40 effective plays, two searches."""
    row = {
        "policy": "naive",
        "env": SMALL,
        "n_agents": 9,
        "delta": DELTA,
        "seed": 0,
        "alpha": 0.05,
        "error": 3.2e-28,
    }
    row |= {
        "stderr": 4e-29,
        "low": 1.1e-28,
        "high": 0.11,
        "ess": 40.0,
        "seconds": 12.3,
        "made": "2026-01-02",
    }
    return (
        row
        | {
            "version": "x (abcdef0123456789), y",
            "searches": [[3e-28, 1e-29, 20.0], [4e-28, 1e-29, 20.0]],
        }
        | changes
    )


def test_an_estimate_of_few_plays_is_not_printed_as_a_measurement() -> None:
    good = page_of([row_of()], 0, DELTA, 9)
    assert (
        "| `naive` | 3.2e-28 | 4.0e-29 | 1.1e-28 | 0.11 | 40 | 3.0e-28, 4.0e-28 | 12 | 2026-01-02 abcdef01 |"
        in good
    )
    few = page_of([row_of(ess=3.0)], 0, DELTA, 9)
    assert "| `naive` | order of 3e-28 | – | 1.1e-28 | 0.11 | 3 |" in few
    none = page_of([row_of(error=0.0, low=0.0, searches=[[0.0, 0.0, 0.0]])], 0, DELTA, 9)
    assert "| `naive` | no error found | – | 0 | 0.11 | 40 | none found |" in none


def test_between_the_ends_searches_start_from_what_was_found_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(rare_table_module, "rare", lambda *args, **kwargs: calls.append(kwargs))
    task = next(t for t in tasks(["uniform-glr"]) if t.delta not in (DELTAS[0], DELTAS[-1]))
    rows = [
        row_of(
            policy="uniform-glr",
            delta=delta,
            families=[[{"name": f"{delta:g}, {s}"}] for s in range(2)],
        )
        for delta in (DELTAS[0], DELTAS[-1])
    ]
    rare_table_module.measure(task, 0, rows, None)
    assert calls[0]["start_from"] == [
        [{"name": "0.3, 0"}, {"name": "1e-10, 0"}],
        [{"name": "0.3, 1"}, {"name": "1e-10, 1"}],
    ]
    assert calls[0]["rounds"] == REFITS
    rare_table_module.measure(task, 0, [], None)
    assert (calls[1]["start_from"], calls[1]["rounds"]) == ([[], []], task.effort.rounds)


def test_every_policy_of_the_figure_is_measured_at_every_delta() -> None:
    listed = tasks()
    for policy in POLICIES:
        assert {
            task.delta for task in listed if task.policy == policy and task.env == SMALL
        } == set(DELTAS)
    assert {task.delta for task in listed if task.policy in BASELINES} == {DELTA}
