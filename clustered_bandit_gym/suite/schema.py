"""What the files of a submission may hold. Whoever wrote them, reading them ends in values of these kinds or in a
`UserError` that says which file, where, and what was expected."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.play import Row

FORMAT = 1
#: "proved": a proof of δ-correctness that others can read. "claimed": said without one. "none".
GUARANTEES = ("proved", "claimed", "none")
#: What a row of a submission holds of a trial's row, and the values of those that older files lack. `ONLY_HERE` may
#: differ in a replay.
FIELDS = (
    "trial",
    "outcome",
    "wrong_agents",
    "pulls",
    "cost",
    "bits_up",
    "bits_down",
    "reals_up",
    "reals_down",
    "rounds",
    "seconds",
    "attempts",
    "suspicious_communication",
)
DEFAULTS = {"attempts": 1, "suspicious_communication": False}
ONLY_HERE = ("seconds", "attempts")
#: Limits of a file, after decompression (a full run has about 2 MB and 7,000 rows), of its rows, of
#: nesting, and of whole numbers.
MOST_BYTES, MOST_ROWS, MOST_LEVELS, MOST_WHOLE = 16 * 2**20, 50_000, 20, 2**63 - 1
_COUNTS = ("trial", "pulls", "bits_up", "bits_down", "reals_up", "reals_down", "rounds", "attempts")
_REQUIRED = {
    "suite": str,
    "digest": str,
    "quick": bool,
    "name": str,
    "policy": str,
    "guarantee": str,
}
_OPTIONAL = (
    "authors",
    "link",
    "guarantee_text",
    "policy_class",
    "fingerprint",
    "date",
    "package",
    "versions",
)
_TABLES = ("settings", "platform", "sources")
_WORDS = {str: "a text", bool: "true or false", dict: "an object"}


def read_text(path: Path) -> str:
    """The text of a file; one whose name ends in .gz is decompressed."""
    if not path.is_file():
        raise UserError(f"{path.parent} is not a submission: it has no {path.name}")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(
                f"{path} is too long: a file of a submission has at most {MOST_BYTES:,} bytes"
            )
        return content.decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def parse(text: str, where: str) -> Any:
    """The JSON value that `text` holds. `where` names it in errors."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON: {error}") from error
    _check_plain(value, where, MOST_LEVELS)
    return value


def _check_plain(value: Any, where: str, levels: int) -> None:
    """Numbers that a float can hold, text that can be written, and little nesting."""
    if not levels:
        raise UserError(f"{where}: expected at most {MOST_LEVELS} levels of nesting")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UserError(f"{where}: expected valid Unicode text: {error.reason}") from error
    elif isinstance(value, int) and abs(value) > MOST_WHOLE:
        raise UserError(f"{where}: expected whole numbers up to {MOST_WHOLE}")
    elif isinstance(value, list | dict):
        for item in value if isinstance(value, list) else (*value, *value.values()):
            _check_plain(item, where, levels - 1)


def checked_row(row: Any, where: str) -> Row:
    """A row of a submission, complete."""
    if not isinstance(row, dict) or set(row) | set(DEFAULTS) != {"cell", "message", *FIELDS}:
        raise UserError(f"{where}: expected the fields cell, {', '.join(FIELDS)}, message")
    row = DEFAULTS | row
    for name in ("cell", "outcome", "message"):
        _expect(isinstance(row[name], str), where, name, "a text", row[name])
    for name in _COUNTS:
        _expect(_is_count(row[name]), where, name, "a whole number >= 0", row[name])
    _expect(row["attempts"] > 0, where, "attempts", "a whole number >= 1", row["attempts"])
    wrong = row["wrong_agents"]
    _expect(
        wrong is None or _is_count(wrong),
        where,
        "wrong_agents",
        "null or a whole number >= 0",
        wrong,
    )
    for name in ("cost", "seconds"):
        found = row[name]
        number = (
            isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
        )
        _expect(number and found >= 0, where, name, "a number >= 0", found)
    flag = row["suspicious_communication"]
    _expect(isinstance(flag, bool), where, "suspicious_communication", "true or false", flag)
    return row


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def checked_metadata(metadata: Any, where: str) -> dict[str, Any]:
    """Metadata with a value under every key."""
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise UserError(f"{where}: expected a submission of format {FORMAT}")
    if missing := [key for key in _REQUIRED if key not in metadata]:
        raise UserError(f"{where} lacks {', '.join(missing)}")
    metadata = dict.fromkeys(_OPTIONAL, "") | {key: {} for key in _TABLES} | metadata
    kinds: dict[str, type] = (
        _REQUIRED | dict.fromkeys(_OPTIONAL, str) | dict.fromkeys(_TABLES, dict)
    )
    for key, kind in kinds.items():
        _expect(isinstance(metadata[key], kind), where, key, _WORDS[kind], metadata[key])
    guarantee = metadata["guarantee"]
    _expect(
        guarantee in GUARANTEES, where, "guarantee", f"one of {', '.join(GUARANTEES)}", guarantee
    )
    _expect(
        guarantee != "proved" or bool(metadata["link"]),
        where,
        "link",
        "given where guarantee is proved",
        "",
    )
    for key in ("platform", "sources"):
        texts = all(isinstance(value, str) for value in metadata[key].values())
        _expect(texts, where, key, "an object of texts", metadata[key])
    for name in metadata["sources"]:
        path = PurePosixPath(name)
        inside = (
            path.suffix == ".py"
            and not path.is_absolute()
            and ".." not in path.parts
            and name.isprintable()
        )
        _expect(inside, where, "sources", "relative paths of Python files", name)
    return metadata


def _expect(holds: bool, where: str, name: str, expected: str, found: Any) -> None:
    if not holds:
        text = repr(found)
        raise UserError(
            f"{where}: {name} must be {expected}, got {text if len(text) < 80 else text[:77] + '...'}"
        )
