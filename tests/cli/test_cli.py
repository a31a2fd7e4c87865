"""The command line: what it prints, its exit codes, and no traceback for a mistake."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import clustered_bandit_gym as cbg
from clustered_bandit_gym import cli
from clustered_bandit_gym.cli.app import BUG, FAILED

runner = CliRunner()

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


def call(*arguments: Any, code: int = 0) -> str:
    result = runner.invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return str(result.output)


def error(*arguments: Any) -> str:
    """The message of a mistake: exit code 2, one line, no traceback."""
    result = runner.invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert "Traceback" not in result.output
    return str(result.output)


def csv(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text))


def test_the_scoreboard_of_the_four_schemes(tmp_path: Path) -> None:
    """The command of the documentation, as a process of its own."""
    command = [sys.executable, "-m", "clustered_bandit_gym.cli", "compare", "ClusteredBAI-PaperSmall-v0"]
    options = ["--n-agents", "30", "--delta", "1e-10", "--trials", "50", "--jobs", "2"]
    done = subprocess.run([*command, *options, "--out", tmp_path / "out"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for part in ("naive", "cl-bai", "bai-cl", "bai-cl++", "0/50", "no simulation can give a PASS"):
        assert part in done.stdout
    summary = cbg.Board.load(tmp_path / "out").summary.set_index("policy")
    assert summary["errors"].sum() == 0
    # Figure 1a of the paper, at one point: the clustered schemes pull less than naive, BAI-Cl least.
    assert summary.loc["bai-cl", "vs_naive_high"] < summary.loc["cl-bai", "vs_naive_low"]
    assert summary.loc["cl-bai", "vs_naive_high"] < 1


def test_a_policy_of_the_user_s_own_file(tmp_path: Path) -> None:
    (tmp_path / "my_file_of_policies.py").write_text(MINE)
    assert len(MINE.splitlines()) <= 20
    command = [
        sys.executable,
        "-m",
        "clustered_bandit_gym.cli",
        "compare",
        "--n-agents",
        "6",
        "--trials",
        "4",
        "-j",
        "2",
    ]
    chosen = ["--policies", "naive", "my_file_of_policies:Mine:n=50", "my_file_of_policies:Mine", "--format", "csv"]
    done = subprocess.run([*command, *chosen], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = csv(done.stdout)
    assert list(table["policy"]) == ["naive", "Mine:n=50", "Mine"]
    assert list(table["pulls_mean"][1:]) == [6 * 10 * 50, 6 * 10 * 100]


def test_several_values_after_one_flag() -> None:
    table = csv(call("compare", "--policies", "naive", "bai-cl", "--n-agents", 4, 6, "-t", 2, "--format", "csv"))
    assert list(zip(table["n_agents"], table["policy"], strict=True)) == [
        (4, "naive"),
        (4, "bai-cl"),
        (6, "naive"),
        (6, "bai-cl"),
    ]
    again = csv(call("compare", "-p", "naive", "-p", "bai-cl", "-n", 4, "-n", 6, "-t", 2, "--format", "csv"))
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), again.drop(columns="seconds"))


def test_environments_in_a_row_and_other_keywords() -> None:
    envs = ["ClusteredBAI-PaperSmall-v0", "ClusteredBAI-NearTie-v0"]
    text = call(
        "compare", *envs, "-p", "naive", "-t", 2, "-n", 4, "--set", "sigma=2", 'told={"eta": 0.1}', "-f", "json"
    )
    table = json.loads(text)
    assert [row["env"] for row in table] == envs


def test_resume_and_show(tmp_path: Path) -> None:
    out = tmp_path / "out"
    base = ("compare", "-p", "naive", "bai-cl", "-n", 4, "--out", out)
    call(*base, "-t", 2)
    before = cbg.Board.load(out).trials
    call(*base, "-t", 4)
    after = cbg.Board.load(out).trials
    assert len(after) == 8
    kept = after[after["trial"] < 2].reset_index(drop=True)
    assert sorted(kept["seconds"]) == sorted(before["seconds"])  # the same plays, not new ones
    text = call("show", out, "--export", tmp_path / "all.parquet")
    assert "0/4" in text
    assert not (out / "board.png").exists()  # files are written only when asked for
    assert len(pd.read_parquet(tmp_path / "all.parquet")) == 8
    assert call("show", out, "-f", "latex", "--plot", tmp_path / "b.svg").count(r"\begin{table}") == 2
    assert (tmp_path / "b.svg").exists()
    assert call("show", out, "-f", "markdown").startswith("**ClusteredBAI")


def test_list_names_everything() -> None:
    text = call("list")
    for name in (
        "ClusteredBAI-v0",
        "ClusteredBAI-PaperFlat-v0",
        "naive",
        "cl-bai",
        "bai-cl",
        "bai-cl++",
        "module:Class",
    ):
        assert name in text


def test_bounds() -> None:
    text = call("bounds", "ClusteredBAI-PaperSmall-v0", "--n-agents", 300, "--delta", "1e-10")
    assert "Lower bounds on the expected pulls of a δ-PC policy" in text
    assert "the paper's as printed" in text
    assert "bai-cl++" in text
    assert "M = 3, K = 10" in text


def test_audit_fails_with_exit_code_1() -> None:
    text = call("audit", "random", "--quick", "--quiet", code=FAILED)
    assert "FAIL" in text


def test_help_of_every_command() -> None:
    text = call("--help")
    for name in ("list", "compare", "audit", "show", "bounds", "reproduce", "train", "report", "demo"):
        assert name in text
        assert "Usage" in call(name, "--help")
    assert cbg.__version__ in call("--version")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "-p", "no-such"), "unknown policy"),
        (("compare", "-p", "no_such_module:Mine"), "no module"),
        (("compare", "-p", "naive", "ClusteredBAI-v0"), "name it before --policies"),
        (("compare", "-p", "bai-cl:no=1"), "no setting"),
        (("compare", "Nowhere-v0"), "clustered-bai list"),
        (("compare", "--n-agents", "0"), "n_agents"),
        (("compare", "--n-agents", "many"), "--n-agents"),
        (("compare", "-n", "99999999999999", "--trials", "1"), "does not fit in memory"),
        (("compare", "--set", "told=5"), "told takes a dict of n_clusters, eta, eta1, support, got 5"),
        (
            ("compare", "ClusteredBAI-v0", "--set", f"instance={__file__}"),
            "is not a saved Instance; `Instance.save` writes one",
        ),
        (("compare", "--delta", "2"), "delta"),
        (("compare", "--trials", "0"), "trials"),
        (("compare", "--jobs", "0"), "n_jobs"),
        (("compare", "--set", "n_agents"), "KEY=VALUE"),
        (("compare", "--set", "colour=red"), "colour"),
        (("compare", "-n", "4", "--set", "n_agents=4"), "twice"),
        (("compare", "--format", "word"), "--format is"),
        (("compare", "--backend", "slurm"), "unknown backend"),
        (("show", "no such folder"), "holds no trials"),
        (("compare", "--x", "n_agents"), "add --plot"),
        (("bounds", "Nowhere-v0"), "clustered-bai list"),
        (("no-such-command",), "no-such-command"),
        (("compare", "--no-such-option"), "no-such-option"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str) -> None:
    assert message in error(*arguments)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--plot", "a.jpgg", "cannot write a picture to 'a.jpgg'"),
        ("--export", "a.xls", "ends in .csv or .parquet"),
        ("--columns", "policy,colour", "unknown column 'colour'"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_before_the_trials(
    option: str, value: str, message: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert message in " ".join(error("compare", "-p", "naive", "-n", 4, "-t", 2, "--out", out, option, value).split())
    assert not out.exists()


def test_columns_for_a_paper() -> None:
    text = call(
        "compare", "-p", "naive", "bai-cl++", "-n", 4, "-t", 2, "-f", "latex", "--columns",
        "policy,verdict,pulls_mean,cost_mean",
    )  # fmt: skip
    assert r"\begin{tabular}{llrr}" in text
    assert "BAI-Cl++ & INCONCLUSIVE & $" in text
    assert r"\times10^{" in text


def test_x_chooses_the_axis_and_a_report_is_not_overwritten(tmp_path: Path) -> None:
    out, page = tmp_path / "out", tmp_path / "r.html"
    call("compare", "-p", "naive", "-n", 4, 6, "-d", 0.1, 0.2, "-t", 2, "--out", out)
    call("show", out, "--plot", tmp_path / "p.png", "--x", "delta")
    assert "cannot plot against" in error("show", out, "--plot", tmp_path / "p.png", "--x", "sigma")
    call("report", out, "-o", page, "--x", "delta")
    assert '"x": "δ"' in page.read_text()
    assert "exists already" in error("report", out, "-o", page)
    assert '"x": "δ"' in page.read_text()
    call("report", out, "-o", page, "--force")
    assert '"x": "agents N"' in page.read_text()


def test_out_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "is a file" in error("compare", "-t", 1, "--out", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "x"


def test_demo(tmp_path: Path) -> None:
    text = call("demo", "--out", tmp_path, "--jobs", 1)
    assert text.count("Correctness and pulls") == 2
    assert text.count("PASS") >= 4
    assert (tmp_path / "pulls.png").stat().st_size > 5000
    assert "pulls.png" in text
    assert "bai-cl++" in (tmp_path / "report.html").read_text()
    assert call("report", tmp_path, "-o", tmp_path / "again.html")
    assert (tmp_path / "again.html").stat().st_size > 10_000


def test_a_bug_shows_its_traceback_and_asks_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is not a `UserError` is ours: one line would hide it, and exit code 2 would blame the user."""
    from clustered_bandit_gym.harness import run

    def broken(*_: Any) -> Any:
        raise ValueError("operands could not be broadcast together")

    monkeypatch.setattr(run, "_run", broken)
    output = call("compare", "--trials", 1, "--quiet", code=BUG)
    assert "Traceback" in output
    assert "operands could not be broadcast" in output
    assert "this is a bug" in output


def test_an_error_in_the_user_s_own_module_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raising_of_cli.py").write_text(
        "import clustered_bandit_gym as cbg\n"
        "class Picky(cbg.Policy):\n"
        "    def __init__(self, c=1):\n"
        "        raise KeyError('c')\n"
        "    def solve(self, federation): ...\n"
    )
    (tmp_path / "broken_of_cli.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for policy, text in (("raising_of_cli:Picky", "constructor raised KeyError"), ("broken_of_cli:P", "ZeroDivision")):
        assert text in error("compare", "--policies", policy, "--trials", 1, "--quiet")


def test_defaults_are_in_the_help_of_every_verb() -> None:
    """An option that takes a value says what happens without it."""

    def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from commands(command, f"{path} {name}")
            else:
                yield f"{path} {name}", command

    found = [
        (path, parameter.name)
        for path, command in commands(get_command(cli.app), "")
        for parameter in command.params
        if not (parameter.required or getattr(parameter, "is_flag", False) or parameter.name == "help")
        if parameter.default is None and not isinstance(parameter.show_default, str)
    ]
    assert found == []


ODD = """\
import numpy as np
import clustered_bandit_gym as cbg


class Nothing(cbg.Policy):
    def solve(self, federation): pass


class Floats(cbg.Policy):
    def solve(self, federation): return np.linspace(0, 1, federation.problem.n_agents)


class Unsent(cbg.Policy):
    def solve(self, federation):
        return federation.local(federation.agents, lambda block: block.pull_grid(1))


class Moody(cbg.Policy):
    def solve(self, federation):
        if federation.pull([0], [0], 1)[0] > 0.5:
            raise RuntimeError("not today")
        return np.zeros(federation.problem.n_agents, dtype=int)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Nothing", "solve returned None; expected one arm per agent: an int array of shape (4,)"),
        ("Floats", "solve returned an array of float64; expected"),
        ("Unsent", "what is sent must be a payload"),
    ],
)
def test_a_policy_that_raises_in_every_trial(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, one line without arrays; the traceback on request, and in it the policy's own line."""
    (tmp_path / "odd_of_cli.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(tmp_path))
    base = ("compare", "-p", "naive", f"odd_of_cli:{name}", "-n", 4, "-t", 3)
    text = " ".join(call(*base, code=FAILED).split())
    assert message in text
    assert f"{name} raised in every trial; --traceback shows where" in text
    assert "array([" not in text
    assert "Traceback" not in text
    shown = call(*base, "--traceback", code=FAILED)
    assert shown.count("Traceback (most recent call last)") == 1
    if name == "Unsent":
        assert "lambda block: block.pull_grid(1)" in shown
        assert "odd_of_cli.py, line 15" in text


def test_a_policy_that_raises_sometimes_is_no_failure_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd_of_cli.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = call("compare", "-p", "odd_of_cli:Moody", "-n", 4, "-t", 12)
    assert "not today" in text
    assert "raised in every trial" not in text


def test_jobs_count_as_in_joblib() -> None:
    from clustered_bandit_gym.harness.parallel import count_jobs

    cores = joblib.cpu_count()
    assert count_jobs(-1) == cores
    assert count_jobs(-2) == max(1, cores - 1)
    assert count_jobs(-cores - 5) == 1
    assert "-1" in call("compare", "--help")
    call("compare", "-p", "naive", "-n", 4, "-t", 1, "--jobs", -1 - cores)


def test_an_audit_is_kept_resumed_and_written_in_any_format(tmp_path: Path) -> None:
    out = tmp_path / "audit"
    base = ("audit", "uniform:pulls_per_arm=50", "--quick", "--trials", 6, "--out", out, "--replays", 0)
    first = json.loads(call(*base, "--format", "json", code=FAILED))
    assert first["verdict"] == "FAIL"
    with cbg.Store(out, create=False) as store:
        kept = len(store)
        seconds = [row["seconds"] for row in store.rows()]
    assert kept == sum(cell["trials"] for cell in first["cells"])
    again = json.loads(call(*base, "--format", "json", code=FAILED))
    assert again == first
    with cbg.Store(out, create=False) as store:
        assert [row["seconds"] for row in store.rows()] == seconds  # nothing was played again
    table = csv(call(*base, "--format", "csv", code=FAILED))
    assert list(table["errors"]) == [cell["errors"] for cell in first["cells"]]
    assert call(*base, "--format", "markdown", code=FAILED).startswith("*Audit of uniform")
    assert call(*base, "--format", "latex", code=FAILED).count(r"\begin{table}") == 2
    assert "--format is" in error(*base, "--format", "word")


def test_very_many_agents_are_announced(capsys: pytest.CaptureFixture[str]) -> None:
    from clustered_bandit_gym.cli.boards import tell_size

    tell_size([9, 10_000], 1)
    assert capsys.readouterr().err == ""
    tell_size([9, 10**8], 2)
    assert "N = 100,000,000: the game is set up first" in (told := capsys.readouterr().err)
    assert "with --jobs 2 up to 22 GB" in told
