"""`suite verify` runs the listed sources and nothing else, asks before it does, and escapes what files say."""

from __future__ import annotations

import gzip
import hashlib
import json
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from make_readme import top_lines
from suite_small import made_up, small_suite
from typer.testing import CliRunner

from clustered_bandit_gym.cli import app
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.suite.checker import verify

V1 = Path(__file__).parent / "data" / "v1-random"
POLICY = """
from clustered_bandit_gym.policies import RandomPolicy
{line}
class Mine(RandomPolicy):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A submission (of v1) of a policy whose source is `mine_of_a_test.py`, with the rows of `random`."""
    home = tmp_path / "mine"
    shutil.copytree(V1, home)
    return home


def set_source(folder: Path, line: str, **others: str) -> None:
    source = folder / "source"
    source.mkdir(exist_ok=True)
    text = POLICY.format(line=line)
    (source / "mine_of_a_test.py").write_text(text, encoding="utf-8")
    for name, content in others.items():
        (source / f"{name}.py").write_text(content, encoding="utf-8")
    sources = {"mine_of_a_test.py": hashlib.sha256(text.encode()).hexdigest()}
    change_metadata(folder, sources=sources, policy="mine_of_a_test:Mine", versions="others")


def change_metadata(folder: Path, **values: Any) -> None:
    path = folder / "metadata.json"
    metadata = json.loads(path.read_text(encoding="utf-8")) | values
    path.write_text(json.dumps(metadata), encoding="utf-8")


def test_the_listed_source_is_what_runs_and_a_compiled_file_is_not(
    folder: Path, tmp_path: Path
) -> None:
    """The header of a .pyc names time and size of its source: Python would take it for the listed one."""
    set_source(folder, "")
    mark = tmp_path / "ran"
    source = folder / "source" / "mine_of_a_test.py"
    evil = tmp_path / "evil.py"
    evil.write_text(POLICY.format(line=f"open({str(mark)!r}, 'w').close()"), encoding="utf-8")
    cache = source.parent / "__pycache__"
    cache.mkdir()
    target = cache / f"mine_of_a_test.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(
        str(evil), str(target), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    assert verify(folder, trials=[("coins", 0)]).replayed == [("coins", 0)]
    assert not mark.exists()
    assert "mine_of_a_test" not in sys.modules
    assert list(folder.rglob("*.pyc")) == [target]


SHARES = """
import clustered_bandit_gym as cbg

class Mine(cbg.Policy):
    def solve(self, federation):
        k = federation.problem.n_arms
        def program(block):
            means = block.pull_grid(100).mean(axis=0)
            return cbg.ArmIndex(means.argmax().repeat(len(block)), among=k)
        return federation.local(federation.agents, program)
"""


def test_programs_whose_agents_see_each_other_are_refused(folder: Path) -> None:
    set_source(folder, "")
    source = folder / "source" / "mine_of_a_test.py"
    source.write_text(SHARES, encoding="utf-8")
    hashed = hashlib.sha256(SHARES.encode()).hexdigest()
    change_metadata(folder, sources={source.name: hashed}, guarantee_text="none stated")
    with pytest.raises(UserError, match="its programs let agents use each other's rewards"):
        verify(folder, trials=[("coins", 0)])


def test_an_unlisted_module_is_not_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_source(folder, "import unlisted_of_a_test", unlisted_of_a_test="")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "unlisted_of_a_test.py").write_text("", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.chdir(elsewhere)
    with pytest.raises(match="unlisted_of_a_test"):
        verify(folder, trials=[("coins", 0)])


def test_the_command_asks_before_it_runs_code(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    set_source(folder, f"open({str(mark)!r}, 'w').close()")
    command = ["suite", "verify", str(folder), "--replay", "1"]
    for answer in ("n\n", ""):
        asked = CliRunner().invoke(app, command, input=answer)
        assert asked.exit_code == 1
        assert "runs the code of" in asked.output
        assert not mark.exists()
    CliRunner().invoke(app, [*command, "--yes"])
    assert mark.exists()


def test_a_small_file_of_many_rows_takes_little_memory(folder: Path) -> None:
    """16 kB hold 16 million empty lines."""
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(b"\n" * (2**24 - 2) + b"{}"))
    code = (
        "import resource, sys\n"
        "from clustered_bandit_gym.errors import UserError\n"
        "from clustered_bandit_gym.suite.files import load_submission\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    load_submission(sys.argv[1])\nexcept UserError as error:\n    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    said, kilobytes = ran.stdout.splitlines()
    assert "line 1 is not valid JSON" in said
    assert int(kilobytes) < 120_000


def test_names_are_escaped_in_markdown(tmp_path: Path) -> None:
    hostile = "[x](javascript:1)|<img src=x>`\n# top"
    names = ("name", "authors", "date", "package")
    with small_suite():
        folder = made_up(tmp_path / "hostile", "naive", **dict.fromkeys(names, hostile))
        texts = [(folder / "README.md").read_text(encoding="utf-8"), top_lines([folder])]
    for text in texts:
        assert hostile.partition("\n")[0] not in text
        assert "\n# top" not in text
        assert "](javascript" not in text
        assert "\\<img" in text


def test_no_more_than_the_limit(folder: Path) -> None:
    (folder / "metadata.json").write_bytes(b" " * (17 * 2**20))
    with pytest.raises(UserError, match="too long"):
        verify(folder, replay=0)
