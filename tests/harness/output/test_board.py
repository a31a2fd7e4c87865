"""The board as text, HTML, Markdown, LaTeX and CSV, its notes and its pictures."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from harness_players import QUICK, TINY, Empirical, Fails, Greedy, Telepath
from harness_rows import rows

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.output.escape import csv_text, latex, markdown, plain
from clustered_bandit_gym.harness.output.tables import Document, Table
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
        for width in (80, 120):
            text = board.to_text(width=width)
            assert max(map(len, text.splitlines())) <= width
            assert "…" not in text
            assert "\\" not in text
            assert "INCONCLUSIVE" in text
    text = str(small)
    for part in (
        "naive",
        "bai-cl",
        "empirical:n=1",
        "INCONCLUSIVE",
        "0/5",
        "vs bound",
        "busiest agent",
        "bits up",
        "PASS: the upper bound is ≤ δ",
    ):
        assert part in text, part
    assert "average over the generator" in text
    assert re.search(r"ClusteredBAI-Tiny-v0 +4 +naive", str(swept))
    assert "vs naive" not in cbg.Board(rows("bai-cl", [1.0, 2.0])).to_text().partition("•")[0]


def test_every_figure_of_the_summary_is_in_the_tables() -> None:
    found = rows("naive", [100.0, 110.0, 90.0], bound=10.0)
    found += rows(
        "quick", [20.0, 22.0, 30.0], ["solved", "wrong", "solved"], bound=10.0, pulls_max_agent=8,
        cost=6.0, bits_up=11, bits_down=12, reals_up=13, reals_down=14, rounds=15, seconds=1.5,
        suspicious_communication=True,
    )  # fmt: skip
    found += rows("late", [1e3, 1e3, 4e3], ["solved", "solved", "budget"], bound=10.0)
    lines = [" ".join(line.split()) for line in str(cbg.Board(found)).splitlines()]
    for line in (
        "quick 1/3 0 [0.0030, 0.94] INCONCLUSIVE 24 ±55% 22 0.237 [0.114, 0.493] 2.36",
        "quick 8 6 11 12 13 14 15 3 1.50",
        "late 0/3 1 [0, 0.94] INCONCLUSIVE ≥2,000 ≥1,000 ≥15.9 ≥159",
        "late ≥7 ≥5 ≥1 ≥2 ≥3 ≥4 ≥5 – 0.500",
    ):
        assert line in lines
    swept = cbg.Board(found + rows("naive", [100.0], env="F", bound=10.0))
    assert " 24 ±55% 0.237 2.36" in " ".join(str(swept).split())


def test_a_table_that_continues_below_repeats_the_names(small: cbg.Board) -> None:
    parts = small.to_text(80).partition("\n\n•")[0].split("\n\n")[1:]
    assert len(parts) > 2
    for part in parts:
        assert re.search(r"^bai-cl ", part, re.MULTILINE), part


def test_a_printed_board_is_as_wide_as_the_terminal(
    small: cbg.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert str(small) == small.to_text(120)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert str(small) == small.to_text(80)


def test_notes_name_delta_where_the_title_cannot() -> None:
    board = cbg.Board(rows("p", [1.0], env="A", delta=0.1) + rows("p", [1.0], env="B", delta=0.01))
    assert "δ = 0.1, 0.01." in " ".join(board.notes)
    assert "δ = 0.1." in " ".join(cbg.Board(rows("p", [1.0])).notes)


def test_a_swept_board_fits_and_its_notes_name_the_settings() -> None:
    """One line per row in each of the two tables, with a long name and a heavy tail."""
    found = []
    for n in (4, 80):
        place = {"env_kwargs": {"n_agents": n}, "n_agents": n}
        for policy in ("naive", "naive:engine=top-two"):
            found += rows(policy, [123_456.0 + t for t in range(9)] + [1e8], **place)
    found += rows("naive", [5.0] * 10, env_kwargs={"n_agents": 100}, n_agents=100)
    text = cbg.Board(found).to_text(120)
    assert text.partition("•")[0].count(" naive:engine=top-two ") == 4
    assert re.search(r"^N +policy$", text, re.MULTILINE)
    notes = " ".join(text.split())
    assert "INCONCLUSIVE (naive, naive:engine=top-two at N = 4, N = 80; naive at N = 100)" in notes
    assert "Heavy tail (naive, naive:engine=top-two at N = 4, N = 80)" in notes


def test_hostile_names_and_messages_cannot_act() -> None:
    """Escape sequences, markup and formulas in a policy's name and message, in every output."""
    name, message = "=cmd|'x'!A1\x1b[2J[red]", "boom\n\x07 <b>|x| `y` \u202egnp"
    board = cbg.Board(rows(name, [1.0, 2.0], "error", message=message))
    texts = [
        str(board),
        board.to_latex(),
        board._repr_html_(),
        board.to_csv(),
    ]
    for text in texts[:3]:
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert r"\x1b[2J[red]" in texts[0]
    assert r"\x07 <b>|x|" in texts[0].replace("\n", " ")
    assert markdown("<b>|x| `y`") == r"\<b\>\|x\| \`y\`"
    assert "'=cmd|" in texts[3]
    assert plain("a\ud800\r") == r"a\ud800\r"
    cells = csv_text(pd.DataFrame({"a": ["@x", "a\ud800", -3.0, {"b": 1}]})).split("\n")
    assert cells == ["a", "'@x", r"a\ud800", "-3.0", '"{""b"": 1}"', ""]


def test_unfinished_means_are_printed_as_lower_bounds(swept: cbg.Board) -> None:
    greedy = [line for line in str(swept).splitlines() if re.search(r"\bGreedy ", line)]
    assert greedy[0].count("≥") == 3  # pulls, and their ratios to naive and to the bound
    assert "out of budget" in str(swept)


def test_errors_show_their_message() -> None:
    text = str(cbg.evaluate(Fails(), TINY, trials=2, progress=False))
    assert "ZeroDivisionError: no such luck" in text.replace("\n", " ")


def test_a_board_names_the_line_of_a_crash_but_not_why_a_policy_is_not_applicable() -> None:
    told = {"eta": None}
    board = cbg.evaluate(["bai-cl", Fails()], TINY, trials=1, progress=False, told=told)
    notes = " ".join(board.notes)
    assert "no such luck (harness_players.py, line" in notes
    assert "or use the naive scheme" in notes
    assert "bai_cl.py" not in notes
    assert board.trials["message"].str.contains("bai_cl.py, line").any()


def test_note_on_what_was_not_checked() -> None:
    def unchecked(**more: Any) -> list[str]:
        notes = cbg.Board(rows("p", [1.0, 2.0], **more)).notes
        return [note for note in notes if note.startswith("Not checked")]

    (note,) = unchecked(strict=False)
    assert "not strict" in note
    assert "replayed in a fresh process" in note
    (note,) = unchecked(strict=True)
    assert "not strict" not in note
    assert "whether agents of a block see each other" in note
    ours = "clustered_bandit_gym.policies:Player"
    assert unchecked(strict=True, reproduced=True, policy_class=ours) == []


def test_note_on_tiny_delta_and_on_fixed_instances() -> None:
    board = cbg.evaluate("bai-cl", **QUICK, trials=2, delta=1e-10, instance_seed=1)
    text = " ".join(str(board).split())
    assert "INCONCLUSIVE (bai-cl): 0 wrong and 0 unfinished in 2 trials" in text
    assert "no simulation can confirm δ" in text
    assert "average over the generator" not in text


def test_note_on_trials_for_a_pass() -> None:
    from clustered_bandit_gym.harness.scoring.verdict import verdict

    board = cbg.Board(rows("p", [1.0] * 10))
    assert f"{verdict(0, 10, 0.1).more} further trials" in " ".join(board.notes)


def test_note_on_players_that_do_not_stop_by_themselves() -> None:
    def fixed(*pulls: float, outcomes: str = "solved") -> str:
        found = rows("p", list(pulls), outcomes) + rows("q", [5.0] * len(pulls))
        return next((note for note in cbg.Board(found).notes if note.startswith("Trials that")), "")

    assert "(p 25%, q 100%)" in fixed(*[300.0] * 5, *map(float, range(15)))
    for rest in ([9.0] * 2, [0.0] * 22, [300.0] * 2 + [float(n) for n in range(18)]):
        assert "p " not in fixed(*rest).partition(")")[0]
    assert "(q 100%)" in fixed(*[300.0] * 22, outcomes="budget")


def test_a_board_on_which_no_finished_trial_is_right() -> None:
    """Few answers, all wrong, the rest unfinished: INCONCLUSIVE, and every way of showing the board works."""
    board = cbg.Board(rows("p", [1.0] * 200, ["wrong"] * 3 + ["budget"] * 197))
    assert list(board.summary["verdict"]) == ["INCONCLUSIVE"]
    text = " ".join(str(board).split())
    assert "no PASS is possible: it is wrong or unfinished more often than δ" in text
    assert board.to_latex()
    assert board._repr_html_()


def test_note_on_quiet_policies_and_heavy_tails() -> None:
    board = cbg.evaluate(Telepath(), **QUICK, trials=2)
    assert any("Too quiet (Telepath)" in note for note in board.notes)
    heavy = cbg.Board(rows("p", [1.0, 1.0, 1.0, 1.0, 100.0]))
    assert any("Heavy tail (p): one trial holds up to 96%" in note for note in heavy.notes)
    assert any("pulls: median with an interval" in note for note in heavy.notes)
    even = cbg.Board(rows("p", [1.0, 1.0, 1.0, 1.0, 1.0]))
    assert not any("Heavy tail" in note for note in even.notes)
    assert any("pulls: mean with" in note for note in even.notes)


def test_html_for_notebooks(small: cbg.Board) -> None:
    page = small._repr_html_()
    tables = pd.read_html(io.StringIO(page)) if _has_lxml() else None
    assert "<script" not in page
    assert page.count("<table") == 2
    if tables is not None:
        assert list(tables[0]["policy"]) == ["naive", "bai-cl", "empirical:n=1"]


def _has_lxml() -> bool:
    from importlib.util import find_spec

    return find_spec("lxml") is not None


def test_latex_escapes() -> None:
    assert latex("a_b & 50% #1 {x} \\^") == (
        r"a\_b \& 50\% \#1 \{x\} \textbackslash{}\textasciicircum{}"
    )


def test_html_is_escaped() -> None:
    class Page(Document):
        def parts(self) -> tuple[str, list[Table], list[str]]:
            cells = pd.DataFrame({"policy": ["<i>x</i>"]})
            return "<i>a</i>", [Table("<i>t</i>", cells)], ["<i>n</i>"]

    assert "<i>" not in Page()._repr_html_()


def test_latex_is_booktabs_with_powers_display_names_and_notes() -> None:
    board = cbg.Board(
        rows("bai-cl++", [6.44e7] * 3) + rows("my_policy:a=1e5", [12.0] * 3, "budget")
    )
    text = board.to_latex()
    for part in (r"\begin{table}", r"\toprule", r"\midrule", r"\end{table}", r"\caption{"):
        assert text.count(part) == 1
    assert r"\begin{tabular}{lr}" in text
    assert r"    policy & pulls \\" in text
    assert r"    BAI-Cl++ & $6.44\times10^{7}$ \\" in text
    assert r"    my\_policy:a=1e5 & $\geq1.20\times10^{1}$ \\" in text
    assert "% error rate: from" in text


def test_latex_of_several_varied_settings(swept: cbg.Board) -> None:
    text = swept.to_latex()
    head = (
        r"policy & env=ClusteredBAI-PaperSmall-v0, $N=4$ & env=ClusteredBAI-PaperSmall-v0, $N=8$ &"
    )
    assert head in text
    found = []
    for d in (1e-10, 0.1):
        found += rows("naive", [5.0], env_kwargs={"delta": d}, delta=d)
    assert r"policy & $\delta=1\times10^{-10}$ & $\delta=0.1$ \\" in cbg.Board(found).to_latex()
    single = cbg.Board(rows("naive", [5.0], env_kwargs={"delta": 0.1, "max_pulls": 9}))
    assert r"E, $\delta=0.1$, max\_pulls=9, $N=4$, seed 0" in single.to_latex()


def test_latex_labels_differ_where_tables_do_and_outlast_more_trials() -> None:
    def label(names: str = "naive bai-cl", pulls: int = 3, env: str = "E", **how: Any) -> str:
        found = [row for name in names.split() for row in rows(name, [5.0] * pulls, env=env)]
        text = cbg.Board(found).to_latex(**how)
        (label,) = re.findall(r"\\label\{tab:pulls-([0-9a-f]{8})\}", text)
        return str(label)

    others = [label("naive"), label(env="F"), label(ci=True), label(bold_best=True)]
    assert len({label(), *others}) == 5
    assert label(pulls=4) == label()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(swept: cbg.Board, tmp_path: Path) -> None:
    """In a column of 3.25 inches, without a line that sticks out."""
    head = (
        r"\documentclass{article}\usepackage{booktabs,graphicx}"
        r"\setlength{\textwidth}{3.25in}\columnwidth=\textwidth\begin{document}"
    )
    body = swept.to_latex() + swept.to_latex(ci=True, bold_best=True)
    text = f"{head}\n{body}\n\\end{{document}}\n"
    (tmp_path / "t.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_heavy_tails_have_the_median_and_its_interval() -> None:
    pulls = [10.0 + t for t in range(49)] + [1e4]
    board = cbg.Board(rows("heavy", pulls) + rows("light", [100.0] * 50))
    heavy = board.summary.iloc[0]
    assert heavy["heavy_tail"]
    assert not board.summary.iloc[1]["heavy_tail"]
    assert (heavy["pulls_median"], heavy["pulls_median_low"], heavy["pulls_median_high"]) == (
        34.5,
        27.0,
        42.0,
    )
    table = board.parts()[1][0].cells
    assert list(table)[5:7] == ["median pulls", "vs bound"]
    assert table.iloc[0]["median pulls"] == "34.5 [27, 42]"
    assert "median pulls" in str(board)
    assert json.loads(board.to_json())[0]["heavy_tail"] is True
    even = cbg.Board(rows("light", [100.0 + t for t in range(50)]))
    assert list(even.parts()[1][0].cells)[5:7] == ["mean pulls", "median"]
    # An even share of ten trials is a tenth: no alarm.
    assert not cbg.Board(rows("few", [100.0 + t for t in range(5)])).summary["heavy_tail"].any()


def test_wide_intervals_have_no_exponent() -> None:
    board = cbg.Board(rows("p", [1.0, 30.0]))
    assert board.parts()[1][0].cells.iloc[0, 5] == "15.5 ±1,189%"
    board = cbg.Board(rows("p", [10.0, 20.0, 30.0]))
    assert board.parts()[1][0].cells.iloc[0, 5] == "20 ±124%"


def test_csv_is_the_summary(small: cbg.Board) -> None:
    text = small.to_csv()
    table = pd.read_csv(io.StringIO(text))
    assert list(table["policy"]) == list(small.summary["policy"])
    assert table["pulls_mean"].tolist() == pytest.approx(small.summary["pulls_mean"].tolist())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12, "12"),
        (1234.0, "1,234"),
        (0.1, "0.100"),
        (27.449, "27.4"),
        (123456, "1.23e5"),
        (1.62e9, "1.62e9"),
    ]
    + [
        (4e-5, "4.00e-5"),
        (None, "–"),
        (float("nan"), "–"),
        (99_999.7, "1.00e5"),
        (999.9, "1,000"),
        (9.999, "10.0"),
    ]
    + [(6.42e7, "6.42e7"), (float("inf"), "∞")],
)
def test_numbers(value: Any, text: str) -> None:
    assert number(value) == text


def test_board_from_a_store_equals_the_run(tmp_path: Path) -> None:
    """Same order, too, although two processes finish trials in any order."""
    players = [Empirical(3), "naive", Empirical(2)]
    board = cbg.sweep(
        players, TINY, n_agents=(5, 4), trials=4, out=tmp_path, n_jobs=2, progress=False
    )
    loaded = cbg.Board.load(tmp_path)
    pd.testing.assert_frame_equal(board.summary, loaded.summary)
    assert str(board) == str(loaded)


def test_an_empty_board() -> None:
    assert "no trials" in str(cbg.Board([]))


def test_latex_pivot_has_a_column_per_setting_and_the_best_in_bold() -> None:
    found = []
    for n in (4, 8):
        for policy, factor in (("naive", 1000), ("bai-cl", 100)):
            pulls = [factor * n * (1 + 0.01 * trial) for trial in range(3)]
            found += rows(policy, pulls, env_kwargs={"n_agents": n}, n_agents=n)
    text = cbg.Board(found).to_latex(pivot="n_agents", ci=True, bold_best=True)
    assert r"policy & $N=4$ & $N=8$ \\" in text
    naive, bai_cl = (
        line
        for line in text.splitlines()
        if (line.endswith(r"\\") and "BAI" in line) or "Naive" in line
    )
    assert naive.count("boldmath") == 0
    assert bai_cl.count("boldmath") == 2
    # 4000, 4040, 4080: Student's t interval is 4.3027·40/√3 = 99.4 to either side.
    assert naive.count(r"$4.04_{\pm0.10}\times10^{3}$") == 1
    assert naive.count(r"\pm") == 2
    with pytest.raises(ValueError, match="n_agents varies"):
        cbg.Board(found).to_latex(pivot="delta")


def test_latex_pivot_gives_both_ends_of_the_interval_of_a_median() -> None:
    found = []
    for n in (4, 8):
        pulls = [100.0, 101.0, 102.0, 103.0, 104.0, 200.0, 300.0, 400.0, 90_000.0]
        found += rows("naive", pulls, env_kwargs={"n_agents": n}, n_agents=n)
    board = cbg.Board(found)
    first = board.summary.iloc[0]
    text = board.to_latex(pivot="n_agents", ci=True)
    low, high = first["pulls_median_low"], first["pulls_median_high"]
    assert high - first["pulls_median"] > first["pulls_median"] - low  # not symmetric
    assert r"$1.04_{[1.01,4.00]}\times10^{2}$" in text
    assert (low, high) == (101.0, 400.0)
