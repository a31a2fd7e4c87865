"""Whatever the files of a submission hold, the checker and the board end with a reason, never with a traceback."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from suite_small import made_up, small_suite

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.suite import files
from clustered_bandit_gym.suite.checker import verify
from clustered_bandit_gym.suite.leaderboard import leaderboard_page


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with small_suite():
        yield made_up(tmp_path / "naive", "naive")


def change_metadata(folder: Path, drop: tuple[str, ...] = (), **values: Any) -> None:
    path = folder / "metadata.json"
    metadata = json.loads(path.read_text(encoding="utf-8")) | values
    path.write_text(
        json.dumps({key: metadata[key] for key in metadata if key not in drop}), encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cost", "120"),
        ("cost", None),
        ("cost", float("nan")),
        ("trial", "0"),
        ("trial", True),
        ("cell", [1]),
        ("pulls", 10**400),
        ("pulls", True),
        ("bits_up", -1),
        ("outcome", []),
        ("wrong_agents", "x"),
        ("message", 5),
        ("seconds", "x"),
        ("attempts", None),
        ("suspicious_communication", 0),
    ],
)
def test_rows(folder: Path, field: str, value: Any) -> None:
    path = folder / "rows.jsonl.gz"
    first, _, rest = gzip.decompress(path.read_bytes()).decode("utf-8").partition("\n")
    row = json.loads(first) | {field: value}
    path.write_bytes(gzip.compress(f"{json.dumps(row)}\n{rest}".encode()))
    with pytest.raises(UserError, match=r"rows\.jsonl\.gz, line 1"):
        verify(folder, replay=0)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("scores.json", b"[" * 100_000, "not valid JSON"),
        ("scores.json", b"[" * 500 + b"]" * 500, "expected an object"),
        ("scores.json", b'{"cells": ' + b"[" * 900 + b"]" * 900 + b"}", "scores recomputed"),
        ("scores.json", b"1" * 10_000, "not valid JSON"),
        ("scores.json", b"1" * 400, "expected an object"),
        ("scores.json", b"[]", "expected an object"),
        ("scores.json", b'{"cells": 5}', "scores recomputed"),
        ("metadata.json", b"\xff\xfe", "not valid JSON"),
        ("metadata.json", b"[1]", "expected an object"),
        ("metadata.json", b"{}", "expected a submission of format 1"),
        ("rows.jsonl.gz", gzip.compress(b"[" * 100_000, mtime=0), "not valid JSON"),
        ("rows.jsonl.gz", gzip.compress(b"", mtime=0), "completeness"),
        ("rows.jsonl.gz", b"junk", "cannot be read"),
        ("rows.jsonl.gz", gzip.compress(b"{}" * 1000, mtime=0)[:-9], "cannot be read"),
        ("rows.jsonl.gz", gzip.compress(b"\xff\xfe", mtime=0), "not valid JSON"),
    ],
)
def test_whole_files(folder: Path, name: str, content: bytes, reason: str) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=reason):
        verify(folder, replay=0)


def test_a_small_file_that_expands_to_a_large_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 10**6)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(b"\n" * 10**7))
    with pytest.raises(
        UserError, match=r"too long: a file of a submission has at most 1,000,000 bytes"
    ):
        verify(folder, replay=0)


@pytest.mark.parametrize(
    "values",
    [
        {"sources": ["a"]},
        {"sources": None},
        {"sources": {"a.py": 5}},
        {"platform": "x"},
        {"platform": {"machine": 5}},
        {"policy": 5},
        {"policy": ["naive", "bai-cl"]},
        {"quick": "no"},
        {"name": 5},
        {"authors": None},
    ],
)
def test_metadata(folder: Path, values: dict[str, Any]) -> None:
    change_metadata(folder, **values)
    with pytest.raises(UserError, match=r"metadata\.json"):
        verify(folder, replay=0)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda source: os.symlink("a.py", source / "a.py"), "cannot be read"),
        (lambda source: os.symlink(Path(__file__), source / "a.py"), "is not a Python file inside"),
        (lambda source: None, "cannot be read"),
    ],
)
def test_sources_that_are_not_there(
    folder: Path, make: Callable[[Path], None], reason: str
) -> None:
    (folder / "source").mkdir()
    make(folder / "source")
    change_metadata(folder, sources={"a.py": "00"})
    with pytest.raises(UserError, match=reason):
        verify(folder, replay=0)


@pytest.mark.parametrize(
    "name", ["a\0b.py", "", "../../x.py", "/etc/x.py", "a/../b.py", "b.txt", "a" * 5000 + ".py"]
)
def test_names_of_sources(folder: Path, name: str) -> None:
    (folder / "source").mkdir()
    for there in ("b.py", "b.txt"):
        (folder / "source" / there).touch()
    change_metadata(folder, sources={name: hashlib.sha256(b"").hexdigest()})
    with pytest.raises(UserError, match=r"cannot be read|is not a Python file inside"):
        verify(folder, replay=0)


def test_half_of_a_surrogate_pair_can_be_shown_and_written(folder: Path) -> None:
    change_metadata(folder, name="\ud800")
    leaderboard_page([folder]).encode("utf-8")
    files.write_submission(files.load_submission(folder))
    assert files.load_submission(folder).name == "\ud800"


@pytest.mark.parametrize("name", ["authors", "link", "versions", "platform", "guarantee_text"])
def test_metadata_are_complete(folder: Path, name: str) -> None:
    change_metadata(folder, drop=(name,))
    with pytest.raises(UserError, match=rf"metadata\.json: {name} must be"):
        leaderboard_page([folder])


@pytest.mark.parametrize(
    "link",
    ["javascript:alert(1)//https://", "data:text/html,x", "https:alert(1)", " https://x.org"],
)
def test_only_web_pages_are_linked(folder: Path, link: str) -> None:
    change_metadata(folder, link=link)
    page = leaderboard_page([folder])
    assert '"link": ""' in page
    assert link not in page
    change_metadata(folder, link="https://example.org/proof")
    assert '"link": "https://example.org/proof"' in leaderboard_page([folder])
