"""The files of a submission: writing, reading, and the page for humans."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.numbers import number

FORMAT = 1
ROWS, PACKED_ROWS, METADATA, SCORES, README, SOURCE = (
    "rows.jsonl",
    "rows.jsonl.gz",
    "metadata.json",
    "scores.json",
    "README.md",
    "source",
)
#: What a row of a submission holds of a trial's row, and what a row says that lacks a field of the second group.
#: `ONLY_HERE` may differ in a replay.
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


@dataclass(frozen=True)
class Submission:
    """A submission as read from its folder."""

    folder: Path
    metadata: dict[str, Any]
    rows: list[Row]
    scores: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.metadata["name"])

    @property
    def quick(self) -> bool:
        return bool(self.metadata["quick"])


def write_submission(submission: Submission, packed: bool) -> None:
    """Write all files of a submission but its sources; `packed` compresses the rows."""
    folder = submission.folder
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in submission.rows)
    for stale in (ROWS, PACKED_ROWS):
        (folder / stale).unlink(missing_ok=True)
    if packed:
        (folder / PACKED_ROWS).write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        (folder / ROWS).write_text(text, encoding="utf-8")
    _dump(folder / SCORES, submission.scores)
    (folder / README).write_text(readme(submission), encoding="utf-8")
    # Last: a folder with metadata is a complete submission.
    _dump(folder / METADATA, submission.metadata)


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load_submission(folder: str | Path) -> Submission:
    """Reads a submission; raises `UserError` where a file is missing or malformed."""
    folder = Path(folder)
    metadata = _read(folder / METADATA, json.loads)
    scores = _read(folder / SCORES, json.loads)
    if (folder / PACKED_ROWS).exists():
        rows = _lines(folder / PACKED_ROWS, gzip.decompress((folder / PACKED_ROWS).read_bytes()).decode())
    else:
        rows = _read(folder / ROWS, lambda text: _lines(folder / ROWS, text))
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise UserError(f"{folder / METADATA}: expected a submission of format {FORMAT}")
    if missing := [key for key in ("suite", "digest", "quick", "name", "policy", "guarantee") if key not in metadata]:
        raise UserError(f"{folder / METADATA} lacks {', '.join(missing)}")
    return Submission(folder, metadata, rows, scores)


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    if not path.is_file():
        raise UserError(f"{path.parent} is not a submission: it has no {path.name}")
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error


def _lines(path: Path, text: str) -> list[Row]:
    rows = []
    for place, line in enumerate(text.splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {place}: {error}") from error
        if not isinstance(row, dict) or set(row) | set(DEFAULTS) != {"cell", "message", *FIELDS}:
            raise UserError(f"{path}, line {place}: expected the fields cell, {', '.join(FIELDS)}, message")
        rows.append(DEFAULTS | row)
    return rows


def readme(submission: Submission) -> str:
    """The submission for humans."""
    meta, overall = submission.metadata, submission.scores["overall"]
    ratio = overall["vs_bound"]
    lines = [
        f"# {meta['name']}",
        "",
        f"Suite {meta['suite']}, {'quick run (never compared with full runs)' if meta['quick'] else 'full run'}, "
        f"{meta['date']}, clustered-bandit-gym {meta['package']}. Policy `{meta['policy']}`; "
        f"guarantee: {meta['guarantee']} ({meta['guarantee_text']}).",
        "",
        *([f"Authors: {meta['authors']}", ""] if meta["authors"] else []),
        *([f"Link: {meta['link']}", ""] if meta["link"] else []),
        f"Solved {overall['solved']} of {overall['cells']} cells, {overall['failed']} failed."
        + (
            f" Pulls over the lower bound, geometric mean of solved cells: {number(ratio)} "
            f"({number(overall['vs_bound_low'])} to {number(overall['vs_bound_high'])})."
            if ratio is not None
            else ""
        ),
        "",
        "| cell | trials | errors | verdict | pulls / bound | bits per agent | rounds | not solved because |",
        "|---|---:|---:|---|---:|---:|---:|---|",
    ]
    for entry in submission.scores["cells"]:
        figures = (
            " | ".join(number(entry[name]) for name in ("vs_bound", "bits_per_agent", "rounds"))
            if entry["solved"]
            else "| | "
        )
        reason = entry["reason"].replace("|", "/")
        lines.append(
            f"| {entry['cell']} | {entry['trials']} | {entry['errors']} | {entry['verdict']} | {figures} | {reason} |"
        )
    lines += ["", "Check it with `clustered-bai suite verify` on this folder. It runs the policy's code."]
    return "\n".join(lines) + "\n"
