"""`clustered-bai compare`, and `show` and `report` of what it kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from cli_calls import call, csv, error

import clustered_bandit_gym as cbg

MINE = """\
import numpy as np
import clustered_bandit_gym as cbg


class Mine(cbg.Policy):
    \"\"\"Every agent pulls each arm `n` times and sends the best.\"\"\"

    def __init__(self, n=100):
        self.n = n

    def solve(self, federation):
        k = federation.problem.n_arms

        def look(block):
            return cbg.ArmIndex(block.pull_grid(self.n).argmax(axis=1), among=k)

        return federation.local(federation.agents, look)
"""


def test_the_scoreboard_of_the_four_schemes(tmp_path: Path) -> None:
    options = ("--n-agents", 30, "--delta", "1e-10", "--trials", 20, "--out", tmp_path / "out")
    printed = call("compare", "ClusteredBAI-PaperSmall-v0", *options)
    for part in ("naive", "cl-bai", "bai-cl", "bai-cl++", "0/20", "no simulation can"):
        assert part in printed
    summary = cbg.Board.load(tmp_path / "out").summary.set_index("policy")
    assert summary["errors"].sum() == 0
    # Figure 1a of the paper, at one point: the clustered schemes pull less than naive, BAI-Cl least.
    assert summary.loc["bai-cl", "vs_naive_high"] < summary.loc["cl-bai", "vs_naive_low"]
    assert summary.loc["cl-bai", "vs_naive_high"] < 1


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`clustered-bai` as a process of its own, in a folder."""
    command = [sys.executable, "-m", "clustered_bandit_gym.cli", *words]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def test_a_policy_of_the_user_s_own_file(tmp_path: Path) -> None:
    (tmp_path / "own_of_cli.py").write_text(MINE)
    chosen = ["--policies", "naive", "own_of_cli:Mine:n=50", "own_of_cli:Mine", "--format", "csv"]
    done = run(tmp_path, "compare", "-n", "6", "-t", "4", "-j", "2", *chosen)
    table = csv(done.stdout)
    assert list(table["policy"]) == ["naive", "Mine:n=50", "Mine"]
    assert list(table["pulls_mean"][1:]) == [6 * 10 * 50, 6 * 10 * 100]


def test_several_values_after_one_flag() -> None:
    common = ("-t", 2, "--format", "csv")
    table = csv(call("compare", "--policies", "naive", "bai-cl", "--n-agents", 4, 6, *common))
    assert list(zip(table["n_agents"], table["policy"], strict=True)) == [
        (4, "naive"),
        (4, "bai-cl"),
        (6, "naive"),
        (6, "bai-cl"),
    ]
    again = csv(call("compare", "-p", "naive", "-p", "bai-cl", "-n", 4, "-n", 6, *common))
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), again.drop(columns="seconds"))


def test_environments_in_a_row_and_other_keywords() -> None:
    envs = ["ClusteredBAI-PaperSmall-v0", "ClusteredBAI-NearTie-v0"]
    settings = ("--set", "sigma=2", 'told={"eta": 0.1}')
    text = call("compare", *envs, "-p", "naive", "-t", 2, "-n", 4, *settings, "-f", "json")
    assert [row["env"] for row in json.loads(text)] == envs


def test_an_instance_needs_no_environment(tmp_path: Path) -> None:
    """The default environment brings a generator of its own; the one that takes an instance is used instead."""
    path = tmp_path / "means.csv"
    path.write_text("cluster,red,green\nyoung,0.9,0.1\nold,0.2,0.8\n")
    options = ("--set", f"instance={path}", "-n", 4)
    assert list(csv(call("compare", *options, "-p", "naive", "-t", 2, "-f", "csv"))["env"]) == [
        "ClusteredBAI-v0"
    ]
    assert call("bounds", *options).startswith("ClusteredBAI-v0: told n_agents = 4, n_arms = 2")
    path.write_text("cluster,red,green\nyoung,0.9,0.1\nold,0.8,0.2\n")
    text = error("compare", *options, "-p", "naive", "-t", 2)
    assert "young and old share the best arm red" in text
    assert "--set allow_overlap=true" in text
    call("compare", *options, "--set", "allow_overlap=true", "-p", "naive", "-t", 2)


def test_resume_and_show(tmp_path: Path) -> None:
    out = tmp_path / "out"
    base = ("compare", "-p", "naive", "bai-cl", "-n", 4, "--out", out)
    call(*base, "-t", 2)
    before = cbg.Board.load(out).trials
    call(*base, "-t", 4)
    after = cbg.Board.load(out).trials
    assert len(after) == 8
    assert f"Trials are in {out} (8 of 10 played before)" in call(*base, "-t", 5)
    assert "played before" not in call(*base, "-t", 5, "--quiet")
    kept = after[after["trial"] < 2].reset_index(drop=True)
    assert sorted(kept["seconds"]) == sorted(before["seconds"])  # the same plays, not new ones
    assert "0/5" in call("show", out)
    assert not (out / "board.png").exists()  # files are written only when asked for
    path = tmp_path / "all.csv"
    assert call("show", out, "--export", path).strip() == f"Wrote {path}"
    assert len(pd.read_csv(path)) == 10
    assert r"\begin{table}" in call("show", out, "-f", "latex", "--plot", tmp_path / "b.svg")
    assert (tmp_path / "b.svg").exists()


def test_a_table_for_a_paper(tmp_path: Path) -> None:
    call("compare", "-p", "naive", "bai-cl++", "-n", 4, 6, "-t", 2, "--out", tmp_path)
    latex = ("show", tmp_path, "-f", "latex", "--ci", "--bold-best")
    text = call(*latex, "--pivot", "n_agents")
    assert r"\begin{tabular}{lrr}" in text
    assert "BAI-Cl++ & $" in text or r"BAI-Cl++ & \boldmath$" in text
    assert r"\times10^{" in text
    assert "n_agents varies" in error(*latex, "--pivot", "delta")
    assert "add --format latex" in error("show", tmp_path, "--ci")
    assert r"Ours (x=2) & " in call(*latex, "--label", "naive=Ours (x=2)", "bai-cl++=Theirs")
    for wrong in ("naive", "naive=", "naiv=Ours"):
        assert "takes POLICY=LABEL, policies: bai-cl++, naive" in error(*latex, "--label", wrong)
    page = tmp_path / "page.html"
    call("report", tmp_path, "-o", page, "--label", "naive=Ours")
    assert '"label": "Ours"' in page.read_text(encoding="utf-8")


def test_an_interrupted_sweep_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted at the first value: nothing varies, and the board is shown all the same."""
    call("compare", "-p", "naive", "-n", 4, 6, "-t", 2, "--out", tmp_path)
    done = cbg.Board.load(tmp_path).trials
    first = cbg.Board(done[done["n_agents"] == 4], missing=2)
    monkeypatch.setattr("clustered_bandit_gym.harness.run.sweep", lambda *_, **__: first)
    assert "Interrupted" in call("compare", "-p", "naive", "-n", 4, 6, "-t", 2, code=130)


def test_x_chooses_the_axis_and_a_report_is_written(tmp_path: Path) -> None:
    out, page = tmp_path / "out", tmp_path / "r.html"
    call("compare", "-p", "naive", "-n", 4, 6, "-d", 0.1, 0.2, "-t", 2, "--out", out)
    call("show", out, "--plot", tmp_path / "p.png", "--x", "delta")
    assert "cannot plot against" in error("show", out, "--plot", tmp_path / "p.png", "--x", "sigma")
    call("report", out, "-o", page)
    assert '"x": "agents N"' in page.read_text(encoding="utf-8")
