"""`clustered-bai rare`."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from clustered_bandit_gym import cli
from clustered_bandit_gym.cli.app import FAILED, MISTAKE
from research.rare import kept

QUICK = ["--trials", "20", "--searches", "1", "--search-plays", "5"]


def test_rare_prints_fails_and_keeps(tmp_path: Path) -> None:
    arguments = [
        "rare",
        "random",
        "ClusteredBAI-Tiny-v0",
        "--n-agents",
        "3",
        *QUICK,
        "--out",
        str(tmp_path),
    ]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == FAILED, result.output
    assert "FAIL" in result.output
    assert "rewards as they are" in result.output
    (row,) = kept(tmp_path)
    assert (row["policy"], row["env_kwargs"]) == ("random", {"n_agents": 3})


def test_mistakes_end_in_one_line() -> None:
    for arguments in (["rare", "nobody", *QUICK], ["rare", "naive", "NoSuchEnv-v0", *QUICK]):
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == MISTAKE, result.output
        assert "Traceback" not in result.output
