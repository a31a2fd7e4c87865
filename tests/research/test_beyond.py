"""The table of StructuredBAI and FrugalBAI beside the paper's schemes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clustered_bandit_gym.experiments import beyond
from research.beyond.table import SETTINGS, Setting, beyond_table
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.run import evaluate

QUICK = (
    Setting("ClusteredBAI-PaperSmall-v0", 30),
    Setting("ClusteredBAI-PaperSmall-v0", 30, median=True),
)


def test_the_settings_are_those_that_the_readme_states() -> None:
    stated = {(s.env.split("-")[1], s.n_agents, s.median) for s in SETTINGS}
    assert stated == {
        ("PaperSmall", 300, False),
        ("PaperRandom", 200, True),
        ("PaperFlat", 1000, False),
        ("MovieLensLike", 120, False),
    }


def test_table_holds_what_the_trials_say(tmp_path: Path) -> None:
    table = beyond_table(trials=3, seed=5, out=tmp_path, progress=False, settings=QUICK)
    assert len(table.trials) == 6 * 6
    mean, median = table.rows[table.rows["policy"] == "frugal-bai"].to_dict("records")
    played = table.trials[table.trials["policy"] == "frugal-bai"].iloc[:3]
    assert mean["pulls"] == pytest.approx(played["pulls"].mean())
    assert median["pulls"] == pytest.approx(np.median(played["pulls"]))
    assert mean["communication"] == pytest.approx(played["cost"].mean())
    assert mean["vs_bound"] ** 3 == pytest.approx(
        np.prod((played["pulls"] / played["bound"]).astype(float))
    )
    assert (table.rows["errors"] == 0).all()
    assert (tmp_path / "beyond.png").stat().st_size > 1000
    text = (tmp_path / "beyond.md").read_text(encoding="utf-8")
    assert text.count("| PaperSmall | 30 | frugal-bai |") == 2
    assert text.startswith(str(table))
    assert "(beyond.png)" in text
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
        beyond_table(
            2, out=tmp_path, progress=False, settings=(Setting("ClusteredBAI-PaperSmall-v0", 6),)
        )
    assert not (tmp_path / "beyond.md").exists()
