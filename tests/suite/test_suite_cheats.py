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


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        # The slack of a union bound may keep the loose ones below δ: they are played on one cell.
        ("LooseStructured", ["nothing-tiny"]),
        ("LooseNaive", ["nothing-tiny"]),
        ("SometimesGuesses", ["nothing-tiny"]),
        ("FixedBudget", ["nothing-tiny", "easy-10"]),
    ],
)
def test_no_cheat_solves_a_cell_on_which_it_errs_above_delta(name: str, cells: list[str]) -> None:
    """The page states the power of the gate: at an error rate of δ or more a cell is solved with
    probability 4e-4 at most. So a cell whose errors show a rate above δ is never solved."""
    policy = getattr(suite_cheats, name)()
    above = []
    for cell in (cells_of("v2")[one] for one in cells):
        rows = play_cell(policy, cell, cell.quick)
        entry = next(e for e in score(rows, True, "delta-PC")["cells"] if e["cell"] == cell.name)
        if confidence_sequence(entry["errors"], len(rows), ALPHA, cell.delta)[0] > cell.delta:
            above.append(cell.name)
            assert not entry["solved"], cell.name
    assert above or name.startswith("Loose")


def test_no_cheat_is_ranked_among_the_proved(tmp_path: Path) -> None:
    """It may say "proved", name a proof and take the name of another policy; it is not the policy
    whose proof was read."""
    with small_suite():
        made_up(tmp_path / "naive", "naive")
        own = {"sources": {}, "link": "docs/structured-bai.md"}
        made_up(tmp_path / "loose", "suite_cheats:LooseStructured", name="structured-bai", **own)
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
        ("shadow", "empirical"),
    }
    small = [e for e in order if e["track"] == "small-delta"]
    assert {e["policy"]: e["rank"] for e in small} == {
        "naive": 1, "structured-bai": None, "shadow": None
    }  # fmt: skip
