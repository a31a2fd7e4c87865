"""The leaderboard: submissions side by side on one self-contained HTML page, and its top lines as Markdown.

Scores are computed again from the rows, never read from a submission. Full and quick runs do not share a page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.escape import markdown
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.suite.checker import Mismatch, verify
from clustered_bandit_gym.suite.files import Submission, load_submission
from clustered_bandit_gym.suite.score import (
    FACTORS,
    frontier,
    geometric_mean,
    played_cells,
    profiles,
    score,
    yardsticks,
)

#: Levels of the quantiles with which the page draws distributions.
LEVELS = tuple(round(0.05 * step, 2) for step in range(21))
_METADATA = (
    "name",
    "authors",
    "link",
    "guarantee",
    "guarantee_text",
    "policy",
    "date",
    "package",
    "versions",
)


def load_all(folders: Sequence[str | Path]) -> list[Submission]:
    """Submissions that may share a board; raises `UserError` where one is malformed, or where they do not fit."""
    found = []
    for folder in folders:
        try:
            verify(folder, replay=0)
        except Mismatch as error:
            raise UserError(f"{folder}: {error}") from error
        found.append(load_submission(folder))
    if not found:
        raise UserError("there is no submission to show; name at least one folder")
    if len({one.quick for one in found}) > 1:
        quick = ", ".join(str(one.folder) for one in found if one.quick)
        raise UserError(f"full and quick runs cannot share a board; these are quick: {quick}")
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two submissions are named {twice[0]!r}; set --name")
    return found


def board_data(submissions: Sequence[Submission]) -> dict[str, Any]:
    """Everything that the page shows."""
    quick = submissions[0].quick
    scores = {one.name: score(one.rows, quick) for one in submissions}
    cells = played_cells(quick)
    tags = sorted({tag for cell in cells for tag in cell.tags})
    front = frontier(scores)
    policies = []
    for one in sorted(submissions, key=lambda one: _rank(scores[one.name])):
        own = scores[one.name]
        entries = {
            entry["cell"]: entry | {"quantiles": _quantiles(one, entry["cell"])}
            for entry in own["cells"]
        }
        groups = {"": own["overall"]} | own["tags"]
        for tag, group in groups.items():
            group["frontier"] = sum(
                not tag or tag in entries[name]["tags"] for name in front[one.name]
            )
        style = style_of(one.name)
        look = {
            "colour": style.colour,
            "dash": "" if isinstance(style.dashes, str) else _dash(style.dashes[1]),
        }
        said = {key: one.metadata[key] for key in _METADATA} | {
            "link": _web_link(one.metadata["link"])
        }
        policies.append(said | look | {"groups": groups, "cells": entries})
    return {
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "package": __version__,
        "quick": quick,
        "digest": submissions[0].metadata["digest"],
        "tags": tags,
        "factors": list(FACTORS),
        "levels": list(LEVELS),
        "cells": [
            {
                "name": cell.name,
                "probes": cell.probes,
                "tags": list(cell.tags),
                "delta": cell.delta,
                "trials": cell.count(quick),
                "n_agents": cell.instance.n_agents,
                "n_clusters": cell.instance.n_clusters,
                "n_arms": cell.instance.n_arms,
                "bound": yardsticks()[cell.name]["bound"],
            }
            for cell in cells
        ],
        "policies": policies,
        "profiles": {"": profiles(scores)} | {tag: profiles(scores, tag) for tag in tags},
    }


def _web_link(link: str) -> str:
    """`link` if it leads to a web page; "" otherwise: a link may also run code."""
    return link if link.startswith(("http://", "https://")) else ""


def _dash(lengths: Sequence[int]) -> str:
    """Dashes of a line for SVG."""
    return " ".join(str(2 * length) for length in lengths)


def _rank(scored: dict[str, Any]) -> tuple[float, float]:
    """Most cells solved first, then fewest pulls over the bound."""
    overall = scored["overall"]
    return -overall["solved"], overall["vs_bound"] or math.inf


def _quantiles(submission: Submission, cell: str) -> list[float]:
    """Quantiles of pulls over the bound, over the trials of a cell."""
    pulls = [row["pulls"] for row in submission.rows if row["cell"] == cell]
    if not pulls:
        return []
    values = np.quantile(np.array(pulls) / yardsticks()[cell]["bound"], LEVELS)
    return [float(f"{value:.4g}") for value in values]


def leaderboard_page(folders: Sequence[str | Path]) -> str:
    """The board of the submissions in `folders` as one HTML page that fetches nothing."""
    # No "<" may stand in the script element, whatever a submission says: it could end it early.
    data = json.dumps(
        _plain(board_data(load_all(folders))), ensure_ascii=False, allow_nan=False
    ).replace("<", "\\u003c")
    template = (
        files("clustered_bandit_gym.suite").joinpath("leaderboard.html").read_text(encoding="utf-8")
    )
    return template.replace("__DATA__", data)


def write_leaderboard(folders: Sequence[str | Path], path: str | Path) -> Path:
    """Write `leaderboard_page` to `path`."""
    path = Path(path)
    page = leaderboard_page(folders)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def top_lines(folders: Sequence[str | Path], most: int = 20) -> str:
    """The board as a Markdown table: most cells solved first, then fewest pulls over the bound."""
    submissions = load_all(folders)
    scores = {one.name: score(one.rows, one.quick) for one in submissions}
    naive = {entry["cell"]: entry for entry in scores.get("naive", {"cells": []})["cells"]}

    lines = [
        "| policy | guarantee | solved | failed | pulls / lower bound | pulls / naive | bits per agent | rounds |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in sorted(submissions, key=lambda one: _rank(scores[one.name]))[:most]:
        overall = scores[one.name]["overall"]
        ratios = [
            entry["pulls"] / naive[entry["cell"]]["pulls"]
            for entry in scores[one.name]["cells"]
            if entry["solved"] and naive.get(entry["cell"], {}).get("solved")
        ]
        interval = (
            f"{number(overall['vs_bound'])} ({number(overall['vs_bound_low'])} to {number(overall['vs_bound_high'])})"
            if overall["solved"]
            else ""
        )
        figures = [geometric_mean(ratios), overall["bits_per_agent"], overall["rounds"]]
        texts = ["" if value is None else number(value) for value in figures]
        lines.append(
            f"| {markdown(one.name)} | {one.metadata['guarantee']} | {overall['solved']}/{overall['cells']} | "
            f"{overall['failed']} | {interval} | {' | '.join(texts)} |"
        )
    dates = sorted(
        {
            markdown(f"{one.metadata['date']}, version {one.metadata['package']}")
            for one in submissions
        }
    )
    kind = "quick runs" if submissions[0].quick else "full runs"
    lines += [
        "",
        f"Suite v1, {kind}, {'; '.join(dates)}. Geometric means over the cells that the policy solved.",
    ]
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
