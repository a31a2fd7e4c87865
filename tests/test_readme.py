"""The README does not rot: its snippets run, its commands run, and its generated parts are what the package says today.

Commands are scaled down by the environment variable CLUSTERED_BANDIT_QUICK, which caps trials and training steps.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w+)\n(.*?)^```", README, re.S | re.M)
COMMANDS = [line for kind, body in FENCES if kind == "bash" for line in body.strip().splitlines()]
#: Commands of which the tests are themselves a part, or which other tests run.
ELSEWHERE = ("make demo", "make test")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKE_README = load(ROOT / "docs" / "make_readme.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the reader has it after following the README: with the files it tells to write."""
    folder = tmp_path_factory.mktemp("reader")
    for kind, body in FENCES:
        if kind == "python" and (named := re.match(r"# file: (\S+)\n", body)):
            (folder / named.group(1)).write_text(body, encoding="utf-8")
    return folder


def test_python_snippets_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    namespace: dict[str, object] = {}
    snippets = [body for kind, body in FENCES if kind == "python"]
    assert len(snippets) >= 3
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), namespace)
    promised = re.findall(r"^It prints `(.*?)`", README, re.M)
    printed = capsys.readouterr().out
    assert promised
    assert all(line in printed for line in promised)


def test_commands_run(folder: Path) -> None:
    """In the README's order, since later commands read what earlier ones have stored."""
    program = Path(sys.executable).parent / "clustered-bai"
    commands = [line for line in COMMANDS if line not in ELSEWHERE]
    assert len(commands) >= 5
    for line in commands:
        words = shlex.split(line)
        if words[1] == "audit":
            continue  # tests/harness/audit plays it in its smallest setting
        words = ["fig1b" if word == "all" else word for word in words]  # `reproduce all`
        assert words[0] == ".venv/bin/clustered-bai", line
        done = subprocess.run(
            [str(program), *words[1:]],
            cwd=folder,
            env={**os.environ, "CLUSTERED_BANDIT_QUICK": "1"},
            capture_output=True,
            encoding="utf-8",  # whatever the locale is
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def block(name: str) -> str:
    """A generated part of the README."""
    found = re.search(rf"<!-- begin {name} -->\n(.*?)\n<!-- end {name} -->", README, re.S)
    assert found, f"README.md has no block {name}"
    return found.group(1)


def lines_of(board: str) -> dict[str, list[str]]:
    """The words of a board's lines by policy."""
    return {words[0]: words for line in board.splitlines() if (words := line.split())}


def test_scoreboard_is_up_to_date() -> None:
    """The paper's schemes in all their 100 trials; of the others, which take minutes, three trials:
    their mean pulls vary by less than a factor of two, and the seed is fixed.
    """
    shown = lines_of(block("scoreboard"))
    assert set(MAKE_README.SHOWN) <= set(shown)
    cheap = ["naive", "cl-bai", "bai-cl", "bai-cl++"]
    played = lines_of(MAKE_README.scoreboard(cheap))
    assert [shown[name] for name in cheap] == [played[name] for name in cheap], "run `make readme`"
    others = [name for name in MAKE_README.SHOWN if name not in cheap]
    played = lines_of(MAKE_README.scoreboard(others, trials=3))
    for name in others:
        now, before = (float(one[name][6].replace(",", "")) for one in (played, shown))
        assert 0.5 < now / before < 2, f"{name}: run `make readme`"


@pytest.mark.parametrize("name", [name for name in MAKE_README.BLOCKS if name != "scoreboard"])
def test_generated_parts_are_up_to_date(name: str) -> None:
    assert block(name) == MAKE_README.BLOCKS[name](), "run `make readme`"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "examples/README.md"])
def test_links_and_pictures_exist(name: str) -> None:
    path = ROOT / name
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_it_is_short() -> None:
    words = [word for word in README.split() if re.search(r"\w", word)]
    assert len(words) <= 1200
    assert (
        max(
            len(line)
            for line in re.sub(r"<!-- begin.*?<!-- end", "", README, flags=re.S).splitlines()
        )
        <= 180
    )
