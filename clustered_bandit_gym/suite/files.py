"""The files of a submission: writing, reading, and the page for humans."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.escape import markdown
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.suite.schema import (
    MOST_ROWS,
    checked_metadata,
    checked_row,
    parse,
    read_text,
)

ROWS, PACKED_ROWS, METADATA, SCORES, README, SOURCE = (
    "rows.jsonl",
    "rows.jsonl.gz",
    "metadata.json",
    "scores.json",
    "README.md",
    "source",
)


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
    text = "".join(
        json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in submission.rows
    )
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
    metadata, scores = (
        parse(read_text(folder / name), str(folder / name)) for name in (METADATA, SCORES)
    )
    path = folder / PACKED_ROWS if (folder / PACKED_ROWS).exists() else folder / ROWS
    text = read_text(path).rstrip("\n")
    # Before anything is built: a row takes a hundred times the memory of a short line.
    if text.count("\n") >= MOST_ROWS:
        raise UserError(f"{path} has too many lines: a submission has at most {MOST_ROWS:,} rows")
    # Not splitlines: a text may hold other characters that end a line.
    lines = text.split("\n")
    wheres = [f"{path}, line {place}" for place in range(1, len(lines) + 1)]
    rows = [
        checked_row(parse(line, where), where) for line, where in zip(lines, wheres, strict=True)
    ]
    return Submission(folder, checked_metadata(metadata, str(folder / METADATA)), rows, scores)


def readme(submission: Submission) -> str:
    """The submission for humans."""
    overall = submission.scores["overall"]
    meta = {key: markdown(str(value)) for key, value in submission.metadata.items()}
    ratio = overall["vs_bound"]
    lines = [
        f"# {meta['name']}",
        "",
        f"Suite {meta['suite']}, {'quick run (never compared with full runs)' if submission.quick else 'full run'}, "
        f"{meta['date']}, clustered-bandit-gym {meta['package']}. Policy {meta['policy']}; "
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
        reason = markdown(entry["reason"])
        lines.append(
            f"| {entry['cell']} | {entry['trials']} | {entry['errors']} | {entry['verdict']} | {figures} | {reason} |"
        )
    lines += [
        "",
        "Check it with `clustered-bai suite verify` on this folder. It runs the policy's code.",
    ]
    return "\n".join(lines) + "\n"
