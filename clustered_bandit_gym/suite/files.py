"""The files of a submission. Whoever wrote them, reading ends in values of the stated kinds or in a
`UserError` that says which file, where, and what was expected."""

from __future__ import annotations

import gzip
import io
import json
import reprlib
import textwrap
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from clustered_bandit_gym._types import FilePath, Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import check_choice
from clustered_bandit_gym.harness.outcome import without_place
from clustered_bandit_gym.harness.output.escape import markdown, plain
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.numbers import number

#: Limit of a file after decompression; a full run has about 2 MB.
MOST_BYTES = 16 * 2**20
#: "proved": there is a proof of δ-correctness that others can read. "claimed": said without one.
GUARANTEES = ("proved", "claimed", "none")
#: What a row and the metadata hold, and of which types.
FIELDS: Values = {
    "cell": str,
    "trial": int,
    "outcome": str,
    "wrong_agents": int | None,
    "pulls": int,
    "cost": int | float,
    "bits_up": int,
    "bits_down": int,
    "reals_up": int,
    "reals_down": int,
    "rounds": int,
    "seconds": int | float,
    "message": str,
    "attempts": int,
    "suspicious_communication": bool,
    "pulls_max_agent": int | None,
}
_TEXTS = (
    *("suite", "digest", "name", "policy", "guarantee", "guarantee_text"),
    *("authors", "link", "date", "package", "versions"),
)
_METADATA = dict.fromkeys(_TEXTS, str) | {"quick": bool, "platform": dict, "sources": dict}
#: What rows of v1 lack.
_OLD_ROW = {"attempts": 1, "suspicious_communication": False, "pulls_max_agent": None}


@dataclass(frozen=True)
class Submission:
    """A submission as read from its folder."""

    folder: Path
    metadata: Values
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

    @cached_property
    def by_cell(self) -> dict[str, pd.DataFrame]:
        """The rows of each cell, in the order of trials."""
        return rows_by_cell(self.rows)

    @property
    def entries(self) -> dict[str, Values]:
        """The scores of each cell; reasons name no line of code."""
        cells = self.scores["cells"]
        return {one["cell"]: one | {"reason": without_place(one["reason"])} for one in cells}


def rows_by_cell(rows: list[Row]) -> dict[str, pd.DataFrame]:
    """The rows of each cell, in the order of trials."""
    table = pd.DataFrame(rows, columns=list(FIELDS)).sort_values("trial")
    return {str(cell): own for cell, own in table.groupby("cell")}


def _check(values: Any, kinds: Values, where: str) -> None:
    """Refuse values that are missing, or of another type than stated, or numbers out of range."""
    for name, kind in kinds.items():
        value = values.get(name)
        fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
        if not fits or (isinstance(value, int | float) and not 0 <= value < 10**18):
            expected = getattr(kind, "__name__", kind)
            got = reprlib.repr(value)
            raise UserError(f"{where}: {name} must be {expected}, from 0 to 1e18, got {got}")
        if isinstance(value, dict):
            _check(value, dict.fromkeys(value, str), f"{where}, {name}")


def check_metadata(metadata: Values, where: str) -> None:
    """Refuse metadata that are incomplete or malformed."""
    if metadata.get("format") != 1:
        raise UserError(f"{where}: expected a submission of format 1")
    _check(metadata, _METADATA, where)
    check_choice(f"{where}: guarantee", metadata["guarantee"], GUARANTEES)
    if metadata["guarantee"] == "proved" and not metadata["link"]:
        raise UserError(f"{where}: link must be given where guarantee is proved")


def read(path: Path) -> bytes:
    """The content of a file; one whose name ends in .gz is decompressed, up to the limit."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(
            f"{path.parent} is not a submission: {path.name} cannot be read: {error}"
        ) from error
    if len(content) > MOST_BYTES:
        raise UserError(
            f"{path} is too long: a file of a submission has at most {MOST_BYTES:,} bytes"
        )
    return content


def parse(text: bytes, where: str) -> Values:
    """The JSON object that `text` holds. `where` names it in errors."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"{where}: expected an object")
    return found


def load_submission(folder: FilePath) -> Submission:
    """Reads a submission; raises `UserError` where a file is missing or malformed."""
    folder = Path(folder)
    metadata, scores = (
        parse(read(folder / name), f"{folder}/{name}") for name in ("metadata.json", "scores.json")
    )
    check_metadata(metadata, f"{folder}/metadata.json")
    path = folder / "rows.jsonl.gz"
    rows = []
    # Line by line: a short file may have millions, and the first bad one ends it.
    for place, line in enumerate(io.BytesIO(read(path)), start=1):
        where = f"{path}, line {place}"
        rows.append(_OLD_ROW | parse(line, where))
        _check(rows[-1], FIELDS, where)
    return Submission(folder, metadata, rows, scores)


def write_submission(submission: Submission) -> None:
    """Write all files of a submission but its sources."""
    folder = submission.folder
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in submission.rows]
    packed = gzip.compress("".join(lines).encode(), mtime=0)
    (folder / "rows.jsonl.gz").write_bytes(packed)
    (folder / "README.md").write_text(readme(submission), encoding="utf-8")
    # Metadata last: a folder with metadata is a complete submission.
    for name, value in (("scores", submission.scores), ("metadata", submission.metadata)):
        text = json.dumps(value, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


def cell_table(submission: Submission) -> str:
    """The scores for humans, one line per cell."""
    cells = pd.DataFrame(submission.entries.values())
    texts = cells.map(lambda one: number(one) if isinstance(one, float) else plain(str(one)))
    head = ["cell", "trials", "errors", "verdict", "solved", "vs_bound", "bits_per_agent", "rounds"]
    head.append("reason")
    return texts.to_string(columns=head, index=False)


def readme(submission: Submission) -> str:
    """The submission for humans."""
    kind = "quick run, never compared with full runs" if submission.quick else "full run"
    said = "".join(f"- {name}: {markdown(submission.metadata[name])}\n" for name in _TEXTS)
    return f"""# {markdown(submission.name)}

A {kind}. `clustered-bai suite verify` checks it and runs the policy's code. A cell is solved unless
a reason is given.

{said}
{textwrap.indent(cell_table(submission), "    ")}
"""
