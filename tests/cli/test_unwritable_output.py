"""Output that cannot be written: one line and exit code 2, never "this is a bug"."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_calls import call, error

COMPARE = ["compare", "ClusteredBAI-Tiny-v0", "--policies", "naive", "--trials", "2", "--no-bound"]


def run(words: list[str], stdout: str | None = None, **changes: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `clustered-bai`, with these changes of the environment."""
    env = {key: value for key, value in os.environ.items() if key != "HOME"} | changes
    target = subprocess.PIPE if stdout is None else os.open(stdout, os.O_WRONLY)
    done = subprocess.run(
        [sys.executable, "-m", "clustered_bandit_gym.cli", *words],
        stdout=target,
        stderr=subprocess.PIPE,
        env=env,
        check=False,
        timeout=120,
    )
    printed = done.stdout or b""
    return done.returncode, printed.decode("utf-8", "replace"), done.stderr.decode("utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk() -> None:
    code, _, errors = run([*COMPARE, "--format", "csv"], stdout="/dev/full")
    assert code == 2
    (line,) = errors.strip().splitlines()
    assert "No space left on device" in line


def test_an_ascii_terminal_without_a_home() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, printed, errors = run(COMPARE, **ascii_only)
    assert code == 0, errors
    assert "expected pulls" in printed
    assert "bug" not in errors


def test_a_terminal_that_lacks_letters() -> None:
    """Latin-1 has no δ. Typer writes UTF-8 where the encoding is ASCII."""
    code, _, errors = run(COMPARE, PYTHONUTF8="0", PYTHONIOENCODING="latin-1")
    assert code == 0, errors


def test_too_little_memory_for_the_libraries() -> None:
    """OpenBLAS asks for memory in a loop that does not end."""
    resource = pytest.importorskip("resource")
    limit = 4 * 10**8
    done = subprocess.run(
        [sys.executable, "-m", "clustered_bandit_gym.cli", *COMPARE],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "needs 1 GB of address space, got 0.4 GB" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["--out", "--plot", "--export"])
def test_a_target_that_cannot_be_written(option: str, tmp_path: Path) -> None:
    """A file stands where a folder is needed: refused for root as well, unlike a read-only folder."""
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / {"--out": "runs", "--plot": "x.png", "--export": "x.csv"}[option]
    words: list[object] = [*COMPARE, "--quiet"]
    if option != "--out":
        call(*words, "--out", tmp_path / "kept")
        words = ["show", tmp_path / "kept"]
    assert str(target.parent) in error(*words, option, target).replace("\n", "")
