"""The files of a submission. Whoever wrote them, reading ends in values of the stated kinds or in a
`UserError` that says which file, where, and what was expected."""

from __future__ import annotations

import gzip
import json
import math
import reprlib
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.escape import markdown
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.numbers import number

METADATA, SCORES, ROWS, SOURCE = "metadata.json", "scores.json", "rows.jsonl", "source"
#: Limits of a file after decompression (a full run has about 2 MB and 9,000 rows), of its rows, and
#: of its whole numbers.
MOST_BYTES, MOST_ROWS, MOST_DIGITS = 16 * 2**20, 50_000, 18
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


#: What a row holds, and of which type; numbers are >= 0. Old files lack the last three.
FIELDS: dict[str, Any] = {
    "cell": str,
    "trial": int,
    "outcome": str,
    "wrong_agents": int | None,
    "pulls": int,
    "cost": float,
    "bits_up": int,
    "bits_down": int,
    "reals_up": int,
    "reals_down": int,
    "rounds": int,
    "seconds": float,
    "message": str,
    "attempts": int,
    "suspicious_communication": bool,
    "pulls_max_agent": int | None,
}
_OLD_ROW = {"attempts": 1, "suspicious_communication": False, "pulls_max_agent": None}
#: What metadata hold; the first six must be there.
_METADATA: dict[str, Any] = {
    **dict.fromkeys(("suite", "digest", "name", "policy", "guarantee"), str),
    "quick": bool,
    **dict.fromkeys(("authors", "link", "guarantee_text", "date", "package", "versions"), str),
    **dict.fromkeys(("platform", "sources"), dict),
}
_WORDS = {int: "a whole number >= 0", float: "a number >= 0", bool: "true or false", str: "a text"}


def _fits(value: Any, kind: Any) -> bool:
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value) and value >= 0
    return isinstance(value, kind) and (type(value) is not int or value >= 0)


def _check(values: dict[str, Any], kinds: dict[str, Any], where: str) -> None:
    for name, kind in kinds.items():
        # Python takes True for a whole number.
        if not _fits(values[name], kind) or (isinstance(values[name], bool) and kind is not bool):
            expected = _WORDS.get(kind, "null or a whole number >= 0")
            _refuse(where, name, "an object" if kind is dict else expected, values[name])


def _refuse(where: str, name: str, expected: str, found: Any) -> None:
    raise UserError(f"{where}: {name} must be {expected}, got {reprlib.repr(found)}")


def checked_row(row: Any, where: str) -> Row:
    """A row of a submission, complete."""
    if not isinstance(row, dict) or set(row) | set(_OLD_ROW) != set(FIELDS):
        raise UserError(f"{where}: expected the fields {', '.join(FIELDS)}")
    row = _OLD_ROW | row
    _check(row, FIELDS, where)
    if row["attempts"] < 1:
        _refuse(where, "attempts", "a whole number >= 1", row["attempts"])
    return row


def checked_metadata(metadata: Any, where: str) -> dict[str, Any]:
    """Metadata with a value under every key."""
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise UserError(f"{where}: expected a submission of format {FORMAT}")
    if missing := [key for key in list(_METADATA)[:6] if key not in metadata]:
        raise UserError(f"{where} lacks {', '.join(missing)}")
    metadata = {key: kind() for key, kind in _METADATA.items()} | metadata
    _check(metadata, _METADATA, where)
    guarantee, sources = metadata["guarantee"], metadata["sources"]
    if guarantee not in GUARANTEES:
        _refuse(where, "guarantee", f"one of {', '.join(GUARANTEES)}", guarantee)
    if guarantee == "proved" and not metadata["link"]:
        _refuse(where, "link", "given where guarantee is proved", "")
    for key in ("platform", "sources"):
        if not all(isinstance(value, str) for value in metadata[key].values()):
            _refuse(where, key, "an object of texts", metadata[key])
    for name in sources:
        path = PurePosixPath(name)
        inside = path.suffix == ".py" and not path.is_absolute() and ".." not in path.parts
        if not inside or not name.isprintable():
            _refuse(where, "sources", "relative paths of Python files", name)
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
        value = json.loads(text, parse_int=_whole)
        # Refuses half of a surrogate pair, which could not be written again.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON: {error}") from error
    return value


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"expected whole numbers of at most {MOST_DIGITS} digits")
    return int(digits)


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
    if not isinstance(found[SCORES], dict):
        raise UserError(f"{folder / SCORES}: expected an object")
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
        f"Authors: {meta['authors'] or '–'}. Link: {meta['link'] or '–'}.",
        "",
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
