"""Mistakes on the command line and in policies: one line, an exit code, and no traceback except for a bug."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_calls import call, error

from clustered_bandit_gym.cli.app import BUG, FAILED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "-p", "no-such"), "unknown policy"),
        (("compare", "-p", "no_such_module:Mine"), "No module named"),
        (("compare", "-p", "bai-cl:no=1"), "its settings"),
        (("compare", "Nowhere-v0"), "clustered-bai list"),
        (("compare", "--n-agents", "0"), "n_agents"),
        (("compare", "--n-agents", "many"), "--n-agents"),
        (("compare", "-n", "99999999999999", "--trials", "1"), "--no-bound leaves out"),
        (
            ("compare", "--set", "told=5"),
            "told takes a dict of n_clusters, eta, eta1, support, and --hide these names; got 5",
        ),
        (
            ("compare", "ClusteredBAI-v0", "--set", f"instance={__file__}"),
            "is not a saved Instance",
        ),
        (("compare", "--set", "instance=nowhere.csv"), "there is no file nowhere.csv"),
        (("compare", "--set", "instance=nowhere.npz"), "there is no file nowhere.npz"),
        (("compare", "--delta", "2"), "delta"),
        (("compare", "--trials", "0"), "trials"),
        (("compare", "--jobs", "0"), "n_jobs"),
        (("compare", "--set", "n_agents"), "KEY=VALUE"),
        (("compare", "--set", "colour=red"), "colour"),
        (("compare", "-n", "4", "--set", "n_agents=4"), "twice"),
        (("compare", "--format", "word"), "'word' is not one of"),
        (("compare", "--backend", "slurm"), "'slurm' is not one of"),
        (("show", "no such folder"), "holds no trials"),
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
        (
            "--plot",
            "a.jpgg",
            "the suffix of a picture must be one of '.png', '.pdf', '.svg'; got '.jpgg'",
        ),
        ("--x", "n_agents", "add --plot FILE"),
        ("--pivot", "n_agents", "add --format latex"),
        ("--label", "naive=Ours", "add --plot FILE or --format latex"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused(
    option: str, value: str, message: str, tmp_path: Path
) -> None:
    call("compare", "-p", "naive", "-n", 4, "-t", 2, "--out", tmp_path, "--no-bound")
    assert message in " ".join(error("show", tmp_path, option, value).split())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    call("study", "new", tmp_path / "s.db", "-p", "naive", "-n", 2, "-k", 2)
    missing = tmp_path / "rewards.csv"
    said = error("study", "tell", tmp_path / "s.db", missing)
    assert said.strip().endswith(f"No such file or directory: '{missing}'")


def test_out_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "File exists" in error("compare", "-t", 1, "--out", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "x"


def test_a_bug_shows_its_traceback_and_asks_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is not a `UserError` is ours: one line would hide it, and exit code 2 would blame the user."""
    from clustered_bandit_gym.harness import run

    monkeypatch.setattr(run, "resolve_policies", range)
    output = call("compare", "--trials", 1, "--quiet", code=BUG)
    assert "Traceback" in output
    assert "cannot be interpreted as an integer" in output
    assert "this is a bug" in output


def test_an_error_in_the_user_s_own_module_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_of_cli.py").write_text(
        "import clustered_bandit_gym as cbg\n"
        "class Picky(cbg.Policy):\n"
        "    def __init__(self, c=1):\n"
        "        raise KeyError('c')\n"
        "    def solve(self, federation): ...\n"
    )
    (tmp_path / "broken_of_cli.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for policy, text in (
        ("raising_of_cli:Picky", "constructor raised KeyError"),
        ("broken_of_cli:P", "ZeroDivision"),
    ):
        assert text in error("compare", "--policies", policy, "--trials", 1, "--quiet")


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
        ("Nothing", "solve returned None; expected one arm per agent: an int array (4,)"),
        ("Floats", "solve returned float64 of shape (4,); expected one arm per agent"),
        ("Unsent", "a message is a payload"),
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
    # What the program raised, and what strict mode raised in its place.
    assert shown.count("Traceback (most recent call last)") == (2 if name == "Unsent" else 1)
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


def test_ctrl_c_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("clustered_bandit_gym.harness.audit.audit.audit", interrupted)
    text = call("audit", "naive", "--quick", code=130)
    assert "interrupted; an --out folder keeps trials" in text
