"""The files of a submission. Whoever wrote them, reading ends in values of the stated kinds or in a
`UserError` that says which file, where, and what was expected."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.escape import markdown
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.numbers import number

METADATA, SCORES, ROWS, SOURCE = "metadata.json", "scores.json", "rows.jsonl", "source"
#: Limits of a file after decompression (a full run has about 2 MB and 9,000 rows), of its rows, of
#: nesting, and of whole numbers.
MOST_BYTES, MOST_ROWS, MOST_LEVELS, MOST_WHOLE = 16 * 2**20, 50_000, 20, 2**63 - 1
FORMAT = 1
#: "proved": there is a proof of δ-correctness that others can read. "claimed": said without one.
GUARANTEES = ("proved", "claimed", "none")


@dataclass(frozen=True)
class Submission:
    """A submission as read from its folder."""

    folder: Path
    metadata: dict[str, Any]
    rows: list[Row]
    scores: Any

    @property
    def name(self) -> str:
        return str(self.metadata["name"])

    @property
    def quick(self) -> bool:
        return bool(self.metadata["quick"])

    @property
    def suite(self) -> str:
        return str(self.metadata["suite"])


# --- kinds of values ---------------------------------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and math.isfinite(value) and value >= 0


def _is_table_of_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_sources(value: Any) -> bool:
    """Relative paths of Python files, with their hashes."""
    return _is_table_of_texts(value) and all(
        PurePosixPath(name).suffix == ".py"
        and not PurePosixPath(name).is_absolute()
        and ".." not in PurePosixPath(name).parts
        and name.isprintable()
        for name in value
    )


Kind = tuple[Callable[[Any], bool], str]
_TEXT: Kind = (_is_text, "a text")
_COUNT: Kind = (_is_count, "a whole number >= 0")
_NUMBER: Kind = (_is_number, "a number >= 0")
_FLAG: Kind = (lambda value: isinstance(value, bool), "true or false")
_OBJECT: Kind = (lambda value: isinstance(value, dict), "an object")
_COUNT_OR_NULL: Kind = (lambda v: v is None or _is_count(v), "null or a whole number >= 0")

#: What a row holds, in this order. Old files lack the last three.
FIELDS: dict[str, Kind] = {
    "cell": _TEXT,
    "trial": _COUNT,
    "outcome": _TEXT,
    "wrong_agents": _COUNT_OR_NULL,
    "pulls": _COUNT,
    "cost": _NUMBER,
    **dict.fromkeys(("bits_up", "bits_down", "reals_up", "reals_down", "rounds"), _COUNT),
    "seconds": _NUMBER,
    "message": _TEXT,
    "attempts": (lambda value: _is_count(value) and value > 0, "a whole number >= 1"),
    "suspicious_communication": _FLAG,
    "pulls_max_agent": _COUNT_OR_NULL,
}
_OLD_ROW = {"attempts": 1, "suspicious_communication": False, "pulls_max_agent": None}

_METADATA: dict[str, Kind] = {
    **dict.fromkeys(("suite", "digest", "name", "policy"), _TEXT),
    "quick": _FLAG,
    "guarantee": (lambda value: value in GUARANTEES, f"one of {', '.join(GUARANTEES)}"),
    **dict.fromkeys(("authors", "link", "guarantee_text", "policy_class"), _TEXT),
    **dict.fromkeys(("fingerprint", "date", "package", "versions"), _TEXT),
    "settings": _OBJECT,
    "platform": (_is_table_of_texts, "an object of texts"),
    "sources": (_is_sources, "relative paths of Python files with their hashes"),
}
#: Values of metadata that may be missing.
_OPTIONAL: dict[str, Any] = {
    **dict.fromkeys(("authors", "link", "guarantee_text", "policy_class"), ""),
    **dict.fromkeys(("fingerprint", "date", "package", "versions"), ""),
    **{key: {} for key in ("settings", "platform", "sources")},
}


def _check(values: dict[str, Any], kinds: dict[str, Kind], where: str) -> None:
    for name, (holds, expected) in kinds.items():
        if name not in values:
            raise UserError(f"{where} lacks {name}")
        if not holds(values[name]):
            text = repr(values[name])
            shown = text if len(text) < 80 else text[:77] + "..."
            raise UserError(f"{where}: {name} must be {expected}, got {shown}")


def checked_row(row: Any, where: str) -> Row:
    """A row of a submission, complete."""
    if not isinstance(row, dict) or set(row) | set(_OLD_ROW) != set(FIELDS):
        raise UserError(f"{where}: expected the fields {', '.join(FIELDS)}")
    row = _OLD_ROW | row
    _check(row, FIELDS, where)
    return row


def checked_metadata(metadata: Any, where: str) -> dict[str, Any]:
    """Metadata with a value under every key."""
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise UserError(f"{where}: expected a submission of format {FORMAT}")
    metadata = _OPTIONAL | metadata
    _check(metadata, _METADATA, where)
    if metadata["guarantee"] == "proved" and not metadata["link"]:
        raise UserError(f"{where}: link must be given where guarantee is proved")
    return metadata


# --- reading and writing -----------------------------------------------------------------------


def read_text(path: Path) -> str:
    """The text of a file; one whose name ends in .gz is decompressed, up to the limit."""
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


def load_submission(folder: str | Path) -> Submission:
    """Reads a submission; raises `UserError` where a file is missing or malformed."""
    folder = Path(folder)
    texts = {name: read_text(folder / name) for name in (METADATA, SCORES)}
    found = {name: parse(text, str(folder / name)) for name, text in texts.items()}
    packed = folder / f"{ROWS}.gz"
    path = packed if packed.exists() else folder / ROWS
    text = read_text(path).rstrip("\n")
    # Before anything is built: a row takes a hundred times the memory of a short line.
    if text.count("\n") >= MOST_ROWS:
        raise UserError(f"{path} has too many lines: a submission has at most {MOST_ROWS:,} rows")
    # Not splitlines: a text may hold other characters that end a line.
    rows = []
    for place, line in enumerate(text.split("\n"), start=1):
        where = f"{path}, line {place}"
        rows.append(checked_row(parse(line, where), where))
    metadata = checked_metadata(found[METADATA], str(folder / METADATA))
    return Submission(folder, metadata, rows, found[SCORES])


def write_submission(submission: Submission) -> None:
    """Write all files of a submission but its sources."""
    folder = submission.folder
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in submission.rows]
    text = "\n".join(lines) + "\n"
    (folder / f"{ROWS}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    _dump(folder / SCORES, submission.scores)
    (folder / "README.md").write_text(readme(submission), encoding="utf-8")
    # Last: a folder with metadata is a complete submission.
    _dump(folder / METADATA, submission.metadata)


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def readme(submission: Submission) -> str:
    """The submission for humans."""
    meta = {key: markdown(str(value)) for key, value in submission.metadata.items()}
    kind = "quick run (never compared with full runs)" if submission.quick else "full run"
    lines = [
        f"# {meta['name']}",
        "",
        f"Suite {meta['suite']}, {kind}, {meta['date']}, clustered-bandit-gym {meta['package']}. "
        f"Policy {meta['policy']}; guarantee: {meta['guarantee']} ({meta['guarantee_text']}).",
        "",
        *([f"Authors: {meta['authors']}", ""] if meta["authors"] else []),
        *([f"Link: {meta['link']}", ""] if meta["link"] else []),
        "| track | cell | trials | errors | verdict | pulls / bound | bits per agent | rounds "
        "| not solved because |",
        "|---|---|---:|---:|---|---:|---:|---:|---|",
    ]
    for entry in submission.scores["cells"]:
        names = ("vs_bound", "bits_per_agent", "rounds")
        figures = [number(entry[name]) if entry["solved"] else "" for name in names]
        counts = [entry[name] for name in ("track", "cell", "trials", "errors", "verdict")]
        cells = [*map(str, counts), *figures, markdown(entry["reason"])]
        lines.append(f"| {' | '.join(cells)} |")
    said = (
        "Check it with `clustered-bai suite verify` on this folder, which runs the policy's code."
    )
    return "\n".join([*lines, "", said, ""])
