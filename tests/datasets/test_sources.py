"""Archives: damage, and what macOS adds."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from clustered_bandit_gym.datasets import sources
from clustered_bandit_gym.datasets.yelp_open import FILE, ORIGIN, load
from clustered_bandit_gym.errors import UserError

LINE = b'{"name": "x", "state": "LA", "stars": 4.0, "review_count": 3}\n'


def lines(path: Path) -> list[bytes]:
    return list(sources.find(path, FILE, ORIGIN).parsed(bytes, "a line"))


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_the_second_files_of_macos_are_skipped(tmp_path: Path) -> None:
    members = {
        f"__MACOSX/yelp/._{FILE}": b"junk",
        f"__MACOSX/{FILE}": b"junk",
        f"yelp/{FILE}": LINE,
    }
    assert lines(zipped(tmp_path / "a.zip", members)) == [LINE.strip()]


def test_damaged_archives_give_one_kind_of_error(tmp_path: Path) -> None:
    """Random bytes changed and ends cut off: whatever the libraries raise, the user gets a `UserError` or the lines."""
    rng = np.random.default_rng(0)
    content = b"".join(
        json.dumps({"name": str(i), "state": "LA"}).encode() + b"\n" for i in range(300)
    )
    good = zipped(tmp_path / "w.zip", {FILE: content}).read_bytes()
    told = 0
    for number in range(60):
        bad = bytearray(good)
        for place in rng.integers(len(bad), size=rng.integers(1, 6)):
            bad[place] = rng.integers(256)
        if number % 3 == 0:
            del bad[rng.integers(len(bad)) :]
        path = tmp_path / f"bad{number}.zip"
        path.write_bytes(bad)
        try:
            lines(path)
        except (UserError, FileNotFoundError):
            told += 1
    assert told > 20


@pytest.mark.parametrize(
    "bad",
    [
        b"[" * 100_000,
        b'{"name": "x", "state": "LA", "stars": NaN, "review_count": 1}',
    ],
)
def test_lines_that_break_parsers_are_named(bad: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(LINE + bad + b"\n")
    with pytest.raises(UserError, match="line 2: expected one JSON object"):
        load(tmp_path / FILE)
