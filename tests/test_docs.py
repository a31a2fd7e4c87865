"""The documentation site builds without a warning."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs the extra 'docs'")
    built = tmp_path / "built"
    # The API pages read an installed copy, in which the two mapped folders stand inside the package.
    package = built / "clustered_bandit_gym"
    package.parent.mkdir()
    shutil.copytree(
        ROOT / "clustered_bandit_gym", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("policies", "envs_registry"):
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "CLUSTERED_BANDIT_BUILT": str(built)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not re.search(r"^WARNING", done.stderr, re.M)
    page = (tmp_path / "site" / "api" / "policies" / "index.html").read_text(encoding="utf-8")
    assert "BAIClPlusPlus" in page
    assert "StructuredBAI" in page
    site = tmp_path / "site"
    assert "clustered-bai compare" in (site / "reference" / "cli" / "index.html").read_text(
        encoding="utf-8"
    )
    flights = (site / "environments" / "clusteredbai-flights" / "index.html").read_text(
        encoding="utf-8"
    )
    assert "MultiDiscrete([32, 3])" in flights
    assert "clustered_bandit_gym" in (
        site / "tutorials" / "01_quickstart" / "index.html"
    ).read_text(encoding="utf-8")
    assert "naive:engine=mixture" in (site / "index.html").read_text(encoding="utf-8")
    assert "<svg" in (site / "house" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["policy", "instance", "reward-model", "pettingzoo", "real-agents"]
)
def test_snippets_of_the_how_tos_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one namespace, top to bottom, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "howto" / f"{name}.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    assert snippets
    reader = ModuleType("reader_of_how_tos")  # a module, since policies are copied by pickle
    monkeypatch.setitem(sys.modules, reader.__name__, reader)
    for snippet in snippets:
        exec(compile(snippet, f"{name}.md", "exec"), vars(reader))


def test_options_in_the_how_tos_exist() -> None:
    """Every command of a page names a verb, and only options that it has."""
    from typer.main import get_command

    from clustered_bandit_gym.cli import app

    lines = [
        line
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"(\.venv/bin/)?clustered-bai ", line)
    ]
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        command: Any = get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {
            flag
            for parameter in command.params
            for flag in [*parameter.opts, *parameter.secondary_opts]
        }
        assert [word for word in words if word.startswith("--") and word not in known] == [], line


#: What a reader writes, or what a submission holds: no files of the repository.
READERS = {"mine.py", "source/"}
FOLDERS = (
    *("clustered_bandit_gym", "policies", "envs_registry"),
    *("research", "benchmarks", "tests", "docs", "examples", "notebooks", "submissions"),
)


def test_files_and_modules_that_pages_name_exist() -> None:
    """`game/rewards.py` may be the end of a path. `python -m` needs a module of the repository."""
    known = set()
    for top in FOLDERS:
        for path in (ROOT / top, *(ROOT / top).rglob("*")):
            if path.is_dir() or path.suffix == ".py":
                parts = path.relative_to(ROOT).parts
                end = "/" if path.is_dir() else ""
                known |= {"/".join(parts[i:]) + end for i in range(len(parts))}
    names, commands = set(), set()
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        names |= set(re.findall(r"`([\w./-]+(?:\.py|/))`", text))
        commands |= set(re.findall(r"python -m (research[.\w]*)", text))
    assert len(names) > 50
    assert len(commands) > 5
    assert sorted(names - known - READERS) == []
    modules = {name.replace(".", "/").strip("/") for name in commands}
    assert [name for name in modules if not {f"{name}.py", f"{name}/__main__.py"} & known] == []


def test_classes_that_the_page_of_the_house_names_exist() -> None:
    page = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][a-z]\w+)[.`]", page))
    files = [file for top in FOLDERS[:3] for file in (ROOT / top).rglob("*.py")]
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert len(named) > 3
    assert [name for name in named if f"class {name}" not in code] == []


def test_arguments_that_share_a_line_are_listed_one_by_one() -> None:
    pytest.importorskip("griffe", reason="needs the extra 'docs'")
    from griffe_names import split_names

    text = "Args:\n    c_b, c_r: prices,\n        of both.\n    seed: a number."
    assert split_names(text) == (
        "Args:\n    c_b: prices,\n        of both.\n    c_r: prices,\n        of both.\n    seed: a number."
    )


def test_cells_of_tables_are_marked_by_their_length() -> None:
    from site_hooks import on_page_content

    row = "<tr><th>policy</th><th>a</th><th>b</th><th>c</th><th>d</th></tr>"
    table = f'<table>{row}<tr><td>naive</td><td style="x">{"word " * 40}</td></tr></table>'
    html = on_page_content(table + "<p><code>run --all</code></p>")
    assert '<td class="short">naive</td>' in html
    assert '<td style="x" class="longest">word' in html
    assert '<code>run <span class="whole">--all</span></code>' in html
    narrow = "<table><tr><th>what</th><th>where</th></tr><tr><td>a few words</td><td>here</td></tr></table>"
    assert on_page_content(narrow) == narrow
