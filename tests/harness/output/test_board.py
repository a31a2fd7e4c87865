"""The board as text, HTML, Markdown, LaTeX and CSV, its notes and its pictures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
from harness_players import QUICK, TINY, Empirical, Fails, Greedy, Telepath
from harness_rows import rows
from matplotlib.figure import Figure

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.output.plots import plot_sweep, plot_tradeoff
from clustered_bandit_gym.harness.output.tables import Table, escape_latex, to_html, to_latex, to_markdown
from clustered_bandit_gym.harness.scoring.numbers import number


@pytest.fixture(scope="module")
def small() -> cbg.Board:
    return cbg.evaluate(["naive", "bai-cl", Empirical(1)], **QUICK, trials=5)


@pytest.fixture(scope="module")
def swept() -> cbg.Board:
    return cbg.sweep(
        ["naive", "bai-cl", Greedy()],
        ["ClusteredBAI-PaperSmall-v0", TINY],
        n_agents=(4, 8),
        max_pulls=10**7,
        trials=2,
        progress=False,
    )


def test_printed_board_fits_and_says_what_matters(small: cbg.Board, swept: cbg.Board) -> None:
    for board in (small, swept):
        for width in (110, 120):
            text = board.to_text(width)
            assert max(map(len, text.splitlines())) <= width
            assert "…" not in text
    text = str(small)
    for part in (
        "naive",
        "bai-cl",
        "empirical:n=1",
        "INCONCLUSIVE",
        "0/5",
        "vs bound",
        "bits up",
        "PASS: the upper bound is ≤ δ",
    ):
        assert part in text, part
    assert "average over the generator" in text
    assert "env = ClusteredBAI-Tiny-v0, n_agents = 8" in str(swept)


def test_wide_figures_and_long_names_are_not_cut() -> None:
    name = "bai-cl++:confidence=certified,engine=mixture,verify=agent"
    naive = rows("naive", [3.3e11 * (1 + t % 7) for t in range(10_000)])
    own = rows(name, [1.2e9 * (1 + t % 5) for t in range(10_000)], ["wrong"] * 17 + ["solved"] * 9983)
    board = cbg.Board(naive + own)
    for width in (60, 80, 110, 120, 200):
        text = board.to_text(width)
        lines = text.splitlines()
        assert max(map(len, lines)) <= width
        assert "…" not in text
        shown = {cell for table in board.tables for cell in table.rows[0][1:]}  # of naive, which has a short name
        found = {word for line in lines if line.startswith(" naive") for word in line.split("  ")}
        assert {cell for cell in shown if cell} <= {word.strip() for word in found}, width


def test_unfinished_means_are_printed_as_lower_bounds(swept: cbg.Board) -> None:
    greedy = [line for line in str(swept).splitlines() if "Greedy" in line]
    assert greedy
    assert all("≥" in line for line in greedy)
    assert "out of budget" in str(swept)


def test_errors_show_their_message() -> None:
    text = str(cbg.evaluate(Fails(), TINY, trials=2, progress=False))
    assert "ZeroDivisionError: no such luck" in text.replace("\n", " ")


def test_note_on_tiny_delta_and_on_fixed_instances() -> None:
    board = cbg.evaluate("bai-cl", **QUICK, trials=2, delta=1e-10, instance_seed=1)
    text = " ".join(str(board).split())
    assert "At δ = 1e-10 no simulation can give a PASS" in text
    assert "average over the generator" not in text


def test_note_on_trials_for_a_pass() -> None:
    from clustered_bandit_gym.harness.scoring.verdict import verdict

    board = cbg.Board(rows("p", [1.0] * 10))
    assert f"p {verdict(0, 10, 0.1).more}" in " ".join(board.notes)


def test_a_board_on_which_no_finished_trial_is_right() -> None:
    """Few answers, all wrong, the rest unfinished: INCONCLUSIVE, and every way of showing the board works."""
    board = cbg.Board(rows("p", [1.0] * 200, ["wrong"] * 3 + ["budget"] * 197))
    assert list(board.summary["verdict"]) == ["INCONCLUSIVE"]
    text = " ".join(str(board).split())
    assert "Wrong or unfinished more often than δ (p): more trials cannot give a PASS" in text
    assert board.to_markdown()
    assert board.to_latex()
    assert board._repr_html_()


def test_note_on_quiet_policies_and_heavy_tails() -> None:
    board = cbg.evaluate(Telepath(), **QUICK, trials=2)
    assert any("Too quiet (Telepath)" in note for note in board.notes)
    heavy = cbg.Board(rows("p", [1.0, 1.0, 1.0, 1.0, 100.0]))
    assert any("Heavy tail (p): one trial holds up to 96%" in note for note in heavy.notes)
    even = cbg.Board(rows("p", [1.0, 1.0, 1.0, 1.0, 1.0]))
    assert not any("Heavy tail" in note for note in even.notes)


def test_note_on_clustering_and_arm_errors() -> None:
    board = cbg.Board(rows("p", [1.0], "wrong", wrong_agents=3, clustering_errors=2, arm_errors=1))
    assert any("2 agents were clustered wrongly, 1 were clustered rightly" in note for note in board.notes)


def test_html_for_notebooks(small: cbg.Board) -> None:
    page = small._repr_html_()
    tables = pd.read_html(io.StringIO(page)) if _has_lxml() else None
    assert "<script" not in page
    assert page.count("<table>") == 2
    if tables is not None:
        assert list(tables[0]["policy"]) == ["naive", "bai-cl", "empirical:n=1"]


def _has_lxml() -> bool:
    from importlib.util import find_spec

    return find_spec("lxml") is not None


def test_html_is_escaped() -> None:
    assert "<b>" not in to_html(Table("t", ["policy"], [["<b>x</b>"]]))


def test_markdown_is_a_table(small: cbg.Board) -> None:
    lines = [line for line in small.to_markdown().splitlines() if line.startswith("|")]
    assert len(lines) == 2 * (2 + 3)
    assert len({line.count("|") for line in lines[:5]}) == 1
    assert to_markdown(Table("t", ["policy"], [["a|b"]])).endswith("| a\\|b |")


def test_latex_is_booktabs_and_escaped(small: cbg.Board) -> None:
    text = small.to_latex()
    for part in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert text.count(part) == 2
    assert escape_latex("a_b & 50% #1 {x} ≥ ±") == r"a\_b \& 50\% \#1 \{x\} $\geq$ $\pm$"
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    heads = [line for line in text.splitlines() if line.startswith(r"\begin{tabular}")]
    columns = [len(head.split("{")[2].rstrip("}")) for head in heads]
    assert {line.count("&") + 1 for line in body[:4]} == {columns[0]}
    assert r"{}[0, 1]" in to_latex(Table("t", ["error rate"], [["[0, 1]"]]))  # no optional argument of \\


def test_csv_is_the_summary(small: cbg.Board, tmp_path: Path) -> None:
    text = small.to_csv()
    assert text is not None
    table = pd.read_csv(io.StringIO(text))
    assert list(table["policy"]) == list(small.summary["policy"])
    assert table["pulls_mean"].tolist() == pytest.approx(small.summary["pulls_mean"].tolist())
    small.to_csv(tmp_path / "board.csv")
    assert (tmp_path / "board.csv").read_text() == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12, "12"), (1234.0, "1,234"), (0.1, "0.100"), (27.449, "27.4"), (123456, "1.23e5"), (1.62e9, "1.62e9")]
    + [(4e-5, "4.00e-5"), (None, "–"), (float("nan"), "–"), (99_999.7, "1.00e5"), (999.9, "1,000"), (9.999, "10.0")],
)
def test_numbers(value: Any, text: str) -> None:
    assert number(value) == text


def test_board_from_a_store_equals_the_run(tmp_path: Path) -> None:
    """Same order, too, although two processes finish trials in any order."""
    players = [Empirical(3), "naive", Empirical(2)]
    board = cbg.sweep(players, TINY, n_agents=(5, 4), trials=4, out=tmp_path, n_jobs=2, progress=False)
    loaded = cbg.Board.load(tmp_path)
    pd.testing.assert_frame_equal(board.summary, loaded.summary)
    assert str(board) == str(loaded)


def test_an_empty_board() -> None:
    assert "no trials" in str(cbg.Board([]))
    with pytest.raises(ValueError, match="no trials"):
        cbg.Board([]).plot()


# --- pictures --------------------------------------------------------------------------------------------------------


def texts(figure: Figure) -> str:
    labels = [item.get_text() for item in figure.findobj(mpl.text.Text)]
    return "\n".join(labels)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_picture_of_a_board(small: cbg.Board, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "new folder" / f"board.{suffix}"
    figure = small.plot(path)
    assert path.stat().st_size > 5000
    for name in ("naive", "bai-cl", "pulls", "communication cost (mean)"):
        assert name in texts(figure)


def test_picture_of_a_sweep_shows_means_and_intervals() -> None:
    board = cbg.sweep(["naive", "bai-cl"], "ClusteredBAI-PaperSmall-v0", n_agents=(4, 8, 16), trials=3, progress=False)
    figure = board.plot()
    left = figure.axes[0]
    assert (left.get_xscale(), left.get_yscale()) == ("log", "log")
    drawn = [line for line in left.lines if list(line.get_xdata()) == [4, 8, 16]]
    means = board.summary.groupby("policy", sort=False)["pulls_mean"].apply(list).to_dict()
    assert any(list(line.get_ydata()) == pytest.approx(means["bai-cl"]) for line in drawn)
    assert len(left.containers) == 2  # error bars of two policies
    assert "agents N" in texts(figure)


def test_picture_with_a_panel_for_each_environment(swept: cbg.Board) -> None:
    figure = swept.plot()
    assert [ax.get_title() for ax in figure.axes] == ["env = ClusteredBAI-PaperSmall-v0", "env = ClusteredBAI-Tiny-v0"]
    assert "hollow: at least" in texts(figure)
    assert plot_tradeoff(swept).axes


def test_pictures_touch_no_global_state(small: cbg.Board) -> None:
    import matplotlib.pyplot as plt

    small.plot()
    assert not plt.get_fignums()


def test_mistakes_in_pictures(small: cbg.Board, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to plot against"):
        plot_sweep(small, "n_agents")
    with pytest.raises(ValueError, match="use one of"):
        small.plot(tmp_path / "board.xyz")
