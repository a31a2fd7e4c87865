"""The machinery of `make bench`; the figures themselves are measured there, not here."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from benchmarks import Figure, families, panel, ratio, stress, walk
from benchmarks.__main__ import main
from benchmarks.page import keep, render

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "benchmarks").glob("bench_*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_yields_figures(path: Path) -> None:
    names = [
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    ]
    assert "figures" in names


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "core" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["nonsense"])
    assert "no benchmark nonsense; there are:" in capsys.readouterr().err


def test_targets() -> None:
    assert Figure("a", 3.0, 4.0).ok
    assert not Figure("a", 5.0, 4.0).ok
    assert Figure("a", 5.0, 4.0, sense="at least").ok
    assert not Figure("a", 3.0, 4.0, sense="at least").ok
    assert Figure("only shown", 3.0).ok
    assert ratio(lambda: sum(range(200_000)), lambda: sum(range(2_000)), repeats=5) > 10


def test_figures_are_kept_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    keep(path, "env", [Figure("steps", 12.345, 10.0, "at least"), Figure("frames", 3.0, unit="/s")])
    keep(path, "core", [Figure("memory", 5.0, 4.0)])
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert "| steps | 12.35 x | at least 10 x | yes |" in page
    assert "| frames | 3 /s |  |  |" in page
    assert "| memory | 5 x | at most 4 x | **no** |" in page
    kept = ROOT / "docs" / "results" / "bench.json"
    assert kept.with_suffix(".md").read_text(encoding="utf-8") == render(
        json.loads(kept.read_text(encoding="utf-8"))
    )


def test_games_of_the_panel() -> None:
    tuning, held_out = panel.numbers("tuning"), panel.numbers("held-out")
    assert sorted([*tuning, *held_out]) == list(range(panel.GAMES))
    for number in (0, 7, 32, 65):
        one, again = panel.game(number), panel.game(number)
        assert (one.means == again.means).all()
        assert 5 <= one.n_agents <= 100
        assert 2 <= one.n_clusters <= 6
        assert one.n_clusters <= one.n_arms <= 20
        assert one.eta >= panel.REWARDS[number % 3][1]


def test_studies(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(panel, "GAMES", 1)
    monkeypatch.setattr(families, "FAMILIES", {"PaperSmall": 9})
    monkeypatch.setattr(stress, "CASES", {"tight coins": stress.CASES["tight coins"]})
    assert panel.main(["--policies", "frugal-bai"]) == 0
    assert families.main(["--trials", "1", "--families", "PaperSmall"]) == 0
    assert stress.main(["--trials", "1"]) == 0
    printed = capsys.readouterr().out
    for words in ("worst first", "PaperSmall frugal-bai", "structured-bai   delta 0.1 all: 0/1"):
        assert words in printed


def test_it_is_not_far_from_a_command_to_the_first_reward() -> None:
    frames, files = walk.walk()
    assert frames[-1].endswith("rewards.py: Gaussian.average")
    assert len(frames) <= 16, frames
    assert len(files) <= 25, files
