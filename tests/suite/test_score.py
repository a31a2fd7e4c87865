"""What it takes to solve a cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from suite_small import TRIALS, made_up_rows, small_suite
from suite_toys import GivesUp, Knows

from clustered_bandit_gym.policies import make
from clustered_bandit_gym.suite.cells import GIVE_UP, cells_of
from clustered_bandit_gym.suite.score import score
from clustered_bandit_gym.suite.submission import play_cell

EASY = cells_of("v2")["easy-10"]


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_suite():
        yield


def entries(rows: list[dict[str, Any]], guarantee: str = "delta-PC") -> dict[str, dict[str, Any]]:
    return {entry["cell"]: entry for entry in score(rows, True, guarantee)["cells"]}


def test_solved_means_pass() -> None:
    found = entries(made_up_rows({"one-ladder": 8.0}, wrong={"easy-10": 2}))
    assert found["one-ladder"]["verdict"] == "PASS"
    # Half of the trials at 8, half at 24 times the bound.
    assert found["one-ladder"]["vs_bound"] == pytest.approx(16, rel=1e-3)
    assert found["one-ladder"]["busiest"] == 7
    assert found["one-ladder"]["solved"]
    assert found["easy-10"]["verdict"] == "INCONCLUSIVE"
    assert not found["easy-10"]["solved"]
    assert "do not show that the error rate is at most δ" in found["easy-10"]["reason"]
    # At a small δ no trials can show a PASS.
    assert found["small-30-sure"]["verdict"] == "INCONCLUSIVE"
    assert found["small-30-sure"]["solved"]


def test_a_trial_has_one_attempt() -> None:
    rows = made_up_rows()
    next(row for row in rows if (row["cell"], row["trial"]) == ("easy-10", 5))["attempts"] = 2
    found = entries(rows)
    assert [name for name, entry in found.items() if not entry["solved"]] == ["easy-10"]
    assert "trial 5 was solved only at attempt 2" in found["easy-10"]["reason"]


def test_attempts_of_earlier_runs_are_counted(tmp_path: Any) -> None:
    """A trial fails and is solved in the second run with probability 1/4: false alarm 0.75^60 < 4e-8."""
    play_cell(GivesUp(), EASY, TRIALS, out=tmp_path)
    rows = play_cell(GivesUp(), EASY, TRIALS, out=tmp_path)
    again = [row for row in rows if row["outcome"] == "solved" and row["attempts"] == 2]
    assert again
    failed = [row for row in rows if row["outcome"] == "error"]
    assert entries(rows)["easy-10"]["unfinished"] == len(again) + len(failed)


def test_right_answers_must_come_through_the_channel() -> None:
    env: Any = EASY.setting().make().unwrapped
    (row,) = play_cell(make("naive"), EASY, 1)
    assert row["suspicious_communication"] is False
    instance = EASY.instances[EASY.bounds.index(EASY.bounds_of([0])[0])]
    (row,) = play_cell(Knows(tuple(instance.agent_best_arms.tolist())), EASY, 1)
    assert (row["outcome"], row["suspicious_communication"]) == ("solved", True)
    assert env.n_agents == 10
    rows = made_up_rows()
    for one in rows:
        one["suspicious_communication"] = one["cell"] == "easy-10"
    found = entries(rows)
    assert [name for name, entry in found.items() if not entry["solved"]] == ["easy-10"]


def test_less_than_the_lower_bound_is_not_solved() -> None:
    found = entries(made_up_rows({"one-ladder": 0.1}))
    assert not found["one-ladder"]["solved"]
    assert "lower bound" in found["one-ladder"]["reason"]


def test_the_lower_bound_is_not_that_of_good_enough_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cells_of("v2")["one-ladder"].kwargs, "epsilon", 0.1)
    assert entries(made_up_rows({"one-ladder": 0.1}))["one-ladder"]["solved"]


def test_a_policy_that_needs_more_than_is_told_is_not_applicable() -> None:
    cell = cells_of("v2")["nothing-tiny"]
    rows = play_cell(make("cl-bai"), cell, GIVE_UP)
    entry = entries(rows)["nothing-tiny"]
    assert not entry["applicable"]
    assert entry["reason"].startswith("cl-bai requires")
    # Others that raise are applicable, and do not solve it.
    for row in rows:
        row["message"] = "ValueError: no"
    assert entries(rows)["nothing-tiny"]["applicable"]


def test_beyond_assumption_1() -> None:
    rows = made_up_rows()
    assert entries(rows)["shared-best"]["solved"]
    found = entries(rows, "delta-PC under Assumption 1")["shared-best"]
    assert not found["applicable"]
    assert "rests on an assumption" in found["reason"]
