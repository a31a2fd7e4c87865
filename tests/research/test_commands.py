"""Every command of `research` in its smallest setting."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from clustered_bandit_gym.policies import BAICl
from clustered_bandit_gym.policies.structured import accept
from clustered_bandit_gym.policies.structured.tuning import TUNING
from clustered_bandit_gym.reproduce.figures import FIGURES
from research.beyond import __main__ as beyond
from research.constants import __main__ as constants
from research.counterexample import __main__ as counterexample
from research.paper import __main__ as paper
from research.prices import __main__ as prices
from research.rare import __main__ as rare
from research.rare import table as rare_table
from research.rare.kept import kept
from research.which_policy import __main__ as which_policy
from research.which_policy import differing


def test_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = FIGURES["fig1a"]
    monkeypatch.setitem(FIGURES, "fig1a", replace(figure, cells=figure.cells[:1]))
    paper.main(["fig1a", "--trials", "2", "--out", str(tmp_path), "--quiet"])
    text = (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert "python -m research.paper fig1a --trials 2" in text
    assert "The means give η = 0.5 and η1 = 0.47" in text
    assert "BAI-Cl, certified" in text


def test_rare_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "measure random ClusteredBAI-Tiny-v0 --n-agents 3 --delta 0.2 --trials 20"
    failed = rare.main(
        [*words.split(), "--searches", "1", "--search-plays", "5", "--out", str(tmp_path)]
    )
    assert failed
    assert "FAIL" in capsys.readouterr().out
    (row,) = kept(tmp_path)
    assert row["error"] > row["low"] > 0.2


def test_rare_table_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(rare_table.BASELINES, "random", rare_table.Effort(20, 5, 1, 2))
    words = ["table", "--policies", "random", "--out", str(tmp_path)]
    assert rare.main(words) == 0
    rows = kept(tmp_path)
    assert len(rows) == 2
    assert all(row["error"] > 0.9 for row in rows)  # nine guesses among ten arms
    assert (tmp_path / "rare.png").read_bytes()[:4] == b"\x89PNG"
    assert rare.main(words) == 0
    assert kept(tmp_path) == rows
    assert "| `random` |" in capsys.readouterr().out


def test_rare_brute_force(capsys: pytest.CaptureFixture[str]) -> None:
    rare.main(["brute-force", "--plays", "200"])
    assert "200 plays of one agent" in capsys.readouterr().out


def test_beyond(tmp_path: Path) -> None:
    words = ["--trials", "1", "--settings", "0", "--n-agents", "6", "--quiet", "--out"]
    beyond.main([*words, str(tmp_path)])
    text = (tmp_path / "beyond.md").read_text(encoding="utf-8")
    assert "| PaperSmall | 6 | frugal-bai |" in text
    assert (tmp_path / "beyond.png").stat().st_size > 1000


def test_counterexample(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        counterexample.main(["--trials", "1", "--n-agents", "10", "--quiet"])
    assert "bai-cl:confidence=certified,engine=mixture" in capsys.readouterr().out
    with pytest.warns(UserWarning, match=r"python -m research\.counterexample"):
        BAICl(engine="mixture")


def test_constants(capsys: pytest.CaptureFixture[str]) -> None:
    before = TUNING.urgent
    words = ["structured-bai", "tuning.TUNING.urgent", str(2 * before), "--scale", "0.1"]
    constants.main([*words, "--env", "ClusteredBAI-PaperSmall-v0", "n_agents=6"])
    assert f"tuning.TUNING.urgent = {2 * before:g}" in capsys.readouterr().out
    assert before == TUNING.urgent
    words = ["structured-bai", "accept.STEP", "0.3", "--scale", "0.1"]
    constants.main([*words, "--env", "ClusteredBAI-PaperSmall-v0", "n_agents=6"])
    assert "accept.STEP = 0.3" in capsys.readouterr().out
    assert accept.STEP == 0.15


def test_which_policy(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin grid -->\nprevious\n<!-- end grid -->\nafter\n")
    which_policy.main(["--quick", "--trials", "1", "--page", str(page)])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- begin grid -->\n| rewards |")
    assert text.endswith("|\n<!-- end grid -->\nafter\n")
    assert "| 0/1 | 0.2 to 0.4 | 2 | 3 | 10 | nothing |" in text
    assert "previous" not in text


def test_agents_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    differing.main(["--trials", "1", "--policies", "naive:engine=mixture"])
    head, _, line = capsys.readouterr().out.splitlines()
    assert head.startswith("| policy | s = 0 |")
    assert line.startswith("| naive:engine=mixture | 0%; ")


def test_prices(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The factors of a row multiply to its pulls over the bound."""
    monkeypatch.setattr(prices, "DELTAS", (0.05,))
    monkeypatch.setattr(prices, "GAMES", {"two arms": ([[0.5, 0.0], [0.0, 0.5]], 4)})
    prices.main(["--trials", "3"])
    row = capsys.readouterr().out.splitlines()[2]
    total, *factors = (float(cell) for cell in row.split("|")[3:-1])
    product = 1.0
    for factor in factors:
        product *= factor
    assert product == pytest.approx(total, rel=0.05)
