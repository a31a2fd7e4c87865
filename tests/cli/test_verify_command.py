"""`clustered-bai verify`: policies of the working folder, and what the exit code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_calls import call

from clustered_bandit_gym.cli.app import FAILED

MINE = """\
import numpy as np
import clustered_bandit_gym as cbg


class Mine(cbg.Policy):
    def solve(self, federation):
        return np.zeros(federation.problem.n_agents, int)
"""
TINY = "ClusteredBAI-Tiny-v0"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Python without -P would search the folder anyway; the console script does not.
    command = [sys.executable, "-P", "-m", "clustered_bandit_gym.cli", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, cwd=folder)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("verify")
    (home / "own_of_verify.py").write_text(MINE)
    done = run(home, "compare", TINY, "-p", "own_of_verify:Mine", "-t", "5", "--out", "out/m")
    assert done.returncode == 0, done.stderr
    return home


def test_a_policy_of_this_folder_is_played_once_more(kept: Path) -> None:
    done = run(kept, "verify", "out/m", "--replay", "3", "--allow", "own_of_verify")
    assert done.returncode == 0, done.stderr
    assert "3 rows played once more." in done.stdout
    assert "not played" not in done.stdout


def test_exit_code_1_if_none_could_be_played(kept: Path) -> None:
    (kept / "elsewhere").mkdir()
    done = run(kept / "elsewhere", "verify", "../out/m", "--replay", "3")
    assert done.returncode == FAILED
    assert "not played once more (5): Mine: the row names own_of_verify:Mine" in done.stdout
    assert "--allow own_of_verify if you trust it" in done.stdout


def test_nothing_is_played_by_default(kept: Path) -> None:
    assert "0 rows played once more." in call("verify", kept / "out/m")
