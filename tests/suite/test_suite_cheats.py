"""Policies that ignore δ stand where they belong."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import suite_cheats
from suite_small import made_up, small_suite

from clustered_bandit_gym.harness.scoring.verdict import confidence_sequence
from clustered_bandit_gym.suite.cells import cells_of
from clustered_bandit_gym.suite.leaderboard import load_all, standings
from clustered_bandit_gym.suite.score import ALPHA, score
from clustered_bandit_gym.suite.submission import play_cell


@pytest.mark.parametrize("name", ["Hasty", "SometimesGuesses", "FixedBudget"])
def test_no_cheat_solves_a_cell_on_which_it_errs_above_delta(name: str) -> None:
    """The page states the power of the gate: at an error rate of δ or more a cell is solved with
    probability 4e-4 at most. So a cell whose errors show a rate above δ is never solved. The loose
    ones below stay under δ by the slack of union bounds: no cell can tell them from right ones."""
    cell = cells_of("v2")["nothing-tiny"]
    rows = play_cell(getattr(suite_cheats, name)(), cell, cell.quick)
    entry = next(e for e in score(rows, True, "delta-PC")["cells"] if e["cell"] == cell.name)
    assert confidence_sequence(entry["errors"], len(rows), ALPHA, cell.delta)[0] > cell.delta
    assert not entry["solved"]


def test_no_cheat_is_ranked_among_the_proved(tmp_path: Path) -> None:
    """It may say "proved", name a proof and take the name of another policy; it is not the policy
    whose proof was read."""
    with small_suite():
        made_up(tmp_path / "naive", "naive")
        own = {"sources": {}, "link": "docs/structured-bai.md"}
        made_up(tmp_path / "loose", "suite_cheats:LooseStructured", name="structured-bai", **own)
        made_up(tmp_path / "bold", "suite_cheats:LooseNaive", name="naive:engine=mixture", **own)
        source = tmp_path / "shadow" / "source" / "naive.py"
        source.parent.mkdir(parents=True)
        source.write_text("")
        listed = {"naive.py": hashlib.sha256(b"").hexdigest()}
        made_up(tmp_path / "shadow", "naive", name="shadow", sources=listed)
        order = standings(load_all(sorted(tmp_path.iterdir())))
    classes = {(entry["policy"], entry["class"]) for entry in order}
    assert classes == {
        ("naive", "proved"),
        ("structured-bai", "empirical"),
        ("naive:engine=mixture", "empirical"),
        ("shadow", "empirical"),
    }
    small = [e for e in order if e["track"] == "small-delta"]
    assert {e["policy"]: e["rank"] for e in small} == {
        "naive": 1, "structured-bai": None, "naive:engine=mixture": None, "shadow": None
    }  # fmt: skip
