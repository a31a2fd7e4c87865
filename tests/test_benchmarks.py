"""The machinery of `make bench`; the figures themselves are measured there, not here."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "benchmarks").glob("bench_*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_yields_figures(path: Path) -> None:
    names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert "figures" in names


def test_command_line() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "benchmarks", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert "core" in run("--help").stdout
    unknown = run("nonsense")
    assert unknown.returncode == 2
    assert "no benchmark nonsense; there are:" in unknown.stderr


def test_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import Figure, ratio

    assert Figure("a", 3.0, 4.0).ok
    assert not Figure("a", 5.0, 4.0).ok
    assert Figure("a", 5.0, 4.0, sense="at least").ok
    assert not Figure("a", 3.0, 4.0, sense="at least").ok
    assert Figure("only shown", 3.0).ok
    assert ratio(lambda: sum(range(200_000)), lambda: sum(range(2_000)), repeats=5) > 10
