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
    assert len(commands) >= 4
    for line in commands:
        words = shlex.split(line)
        if words[1] in ("-m", "reproduce"):
            continue  # tests/research and tests/reproduce play them in their smallest setting
        assert words[0] == ".venv/bin/clustered-bai", line
        done = subprocess.run(
            [str(program), *words[1:]],
            cwd=folder,
            env={**os.environ, "CLUSTERED_BANDIT_QUICK": "1"},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def without_seconds(text: str) -> str:
    """Times differ from run to run, and with them the width of their column; everything else must not."""
    return re.sub(r" +", " ", re.sub(r"[\d.e-]+ *$|─+", "", text, flags=re.M))


@pytest.mark.parametrize("name", MAKE_README.BLOCKS)
def test_generated_parts_are_up_to_date(name: str) -> None:
    found = re.search(rf"<!-- begin {name} -->\n(.*?)\n<!-- end {name} -->", README, re.S)
    assert found, f"README.md has no block {name}"
    assert without_seconds(found.group(1)) == without_seconds(MAKE_README.BLOCKS[name]()), (
        "run `make readme`"
    )


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
