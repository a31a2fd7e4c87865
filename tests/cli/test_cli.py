"""The other commands, their help and their exit codes."""

from __future__ import annotations

import itertools
import json
import shlex
from pathlib import Path

import pytest
from cli_calls import call, error

import clustered_bandit_gym as cbg
from clustered_bandit_gym.cli.app import FAILED
from clustered_bandit_gym.policies.engines.registry import ENGINES


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
        *ENGINES,
    ):
        assert name in text


def test_bounds() -> None:
    text = call("bounds", "ClusteredBAI-PaperSmall-v0", "--n-agents", 300, "--delta", "1e-10")
    assert "expected pulls of any δ-PC policy, at least" in text
    assert "n_arms = 10, n_clusters = 3" in text
    assert "no bound is known" in call("bounds", "--set", "epsilon=0.1")


def test_audit_fails_with_exit_code_1() -> None:
    text = call("audit", "random", "--quick", "--quiet", code=FAILED)
    assert "FAIL" in text


def test_train_names_a_command_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness plays games, not their flat variants."""
    pytest.importorskip("sb3_contrib")
    monkeypatch.setenv("CLUSTERED_BANDIT_QUICK", "1")
    text = call("train", "ClusteredBAI-Tiny-Box-v0", "--quiet", "--out", tmp_path / "model.zip")
    _, command, _ = text.split("`")
    assert "uniform-glr" in call(*shlex.split(command)[1:], "--quiet", "--no-bound")


def test_help_and_version() -> None:
    assert "compare" in call("--help")
    assert "--n-agents" in call("compare", "--help")
    assert "Folder of a submission" in call("suite", "verify", "--help")  # each verb has its own
    assert "Folder of kept trials" in call("show", "--help")
    assert cbg.__version__ in call("--version")


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of `make demo`, with three trials instead of fifty."""
    monkeypatch.setenv("CLUSTERED_BANDIT_QUICK", "1")
    monkeypatch.chdir(tmp_path)
    lines = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8").splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("demo:"))
    recipe = itertools.takewhile(bool, lines[first + 1 :])
    commands = [line.replace("--jobs -1", "").split() for line in recipe if "$(BIN)" in line]
    texts = [call(*words[1:]) for words in commands]
    assert len(texts) == 5
    assert ["Correctness and pulls" in text for text in texts[:3]] == [True] * 3
    assert "pulls.png" in texts[3]
    assert (tmp_path / "out/demo/pulls.png").stat().st_size > 5000
    assert "bai-cl++" in (tmp_path / "out/demo/report.html").read_text(encoding="utf-8")


def test_an_audit_is_kept_resumed_and_written_in_any_format(tmp_path: Path) -> None:
    out = tmp_path / "audit"
    base = (
        "audit",
        "uniform:pulls_per_arm=50",
        "--quick",
        "--trials",
        6,
        "--out",
        out,
        "--replays",
        0,
        "--quiet",
    )
    first = json.loads(call(*base, "--format", "json", code=FAILED))
    assert first["verdict"] == "FAIL"
    with cbg.Store(out, create=False) as store:
        kept = len(store)
        seconds = [row["seconds"] for row in store.stream()]
    assert kept == sum(one["trials"] for one in first["cells"] + first["misspecified"])
    again = json.loads(call(*base, "--format", "json", code=FAILED))
    assert again == first
    with cbg.Store(out, create=False) as store:
        assert [row["seconds"] for row in store.stream()] == seconds  # nothing was played again
    assert "'latex' is not one of" in error(*base, "--format", "latex")
    assert f"{kept} of these trials were played before" in call(*base[:-1], code=FAILED)
