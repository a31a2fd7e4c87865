"""The table of StructuredBAI beside BAI-Cl++."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clustered_bandit_gym.experiments import beyond
from clustered_bandit_gym.experiments.beyond import SETTINGS, Setting, beyond_table
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.run import evaluate

QUICK = (Setting("ClusteredBAI-PaperSmall-v0", 30, 2), Setting("ClusteredBAI-PaperSmall-v0", 30, 1e9, median=True))


def test_the_settings_are_those_that_the_readme_states() -> None:
    stated = {(s.env.split("-")[1], s.n_agents, s.target, s.median) for s in SETTINGS}
    assert stated == {
        ("PaperSmall", 300, 40, False),
        ("PaperRandom", 200, 50, True),
        ("PaperFlat", 1000, 12, False),
        ("MovieLensLike", 120, 8, False),
    }


def test_table_holds_what_the_trials_say(tmp_path: Path) -> None:
    table = beyond_table(trials=3, seed=5, out=tmp_path, progress=False, settings=QUICK)
    assert len(table.trials) == 6 * 6
    frugal = table.costs[table.costs["policy"] == "frugal-bai"].iloc[0]
    played = table.trials[table.trials["policy"] == "frugal-bai"]
    assert frugal["pulls"] == pytest.approx(played["pulls"].to_numpy()[:3].mean())
    assert frugal["communication"] == pytest.approx(played["cost"].to_numpy()[:3].mean())
    assert (tmp_path / "beyond.png").stat().st_size > 1000
    old, new = (
        table.trials[table.trials["policy"] == name]["pulls"].to_numpy()[:3] for name in ("bai-cl++", "structured-bai")
    )
    mean, median = table.cells.to_dict("records")
    assert mean["ratio"] == pytest.approx(old.mean() / new.mean())
    assert median["ratio"] == pytest.approx(np.median(old / new))
    assert (mean["met"], median["met"], table.met) == (True, False, False)
    assert mean["errors_new"] == 0
    assert sum(mean["phases"].values()) == pytest.approx(1)
    text = (tmp_path / "beyond.md").read_text(encoding="utf-8")
    assert text.count("| PaperSmall | 30 | 3 |") == 2
    assert "NOT all reached" in str(table)
    # A second call plays nothing anew.
    again = beyond_table(trials=3, seed=5, out=tmp_path, progress=False, settings=QUICK)
    assert again.trials["seconds"].tolist() == table.trials["seconds"].tolist()


def test_no_trials_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        beyond_table(trials=0)


def test_interrupted_runs_write_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(policies: list[str], env_id: str, **how: Any) -> Board:
        board = evaluate(policies, env_id, **how | {"trials": 1})
        return Board(board.trials, missing=2)

    monkeypatch.setattr(beyond, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        beyond_table(2, out=tmp_path, progress=False, settings=(Setting("ClusteredBAI-PaperSmall-v0", 6, 1),))
    assert not (tmp_path / "beyond.md").exists()
