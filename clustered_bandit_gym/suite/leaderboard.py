"""The leaderboard: submissions in order, as data, as one self-contained HTML page, and as Markdown.

Scores are computed again from the rows, never read from a submission. Full and quick runs do not
share a board. docs/suite.md has the rule.
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
from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.suite.cells import TRACKS, SuiteCell, played_cells
from clustered_bandit_gym.suite.checker import Mismatch, verify
from clustered_bandit_gym.suite.files import Submission, load_submission
from clustered_bandit_gym.suite.order import charged, log_mean_interval, rank_ranges, ranks
from clustered_bandit_gym.suite.reference import is_proved
from clustered_bandit_gym.suite.score import ratios, score

#: Levels of the quantiles that the page draws distributions from.
LEVELS = (0, 0.25, 0.5, 0.75, 1)
CLASSES = ("proved", "empirical")


def load_all(folders: Sequence[str | Path]) -> list[Submission]:
    """Submissions that may share a board; `UserError` where one is malformed or does not fit."""
    found = []
    for folder in folders:
        try:
            verify(folder, replay=0)
        except Mismatch as error:
            raise UserError(f"{folder}: {error}") from error
        found.append(load_submission(folder))
    if not found:
        raise UserError("there is no submission to show; name at least one folder")
    if old := [str(one.folder) for one in found if one.suite != "v2"]:
        raise UserError(f"the board is that of suite v2; these are of v1: {', '.join(old)}")
    if len({one.quick for one in found}) > 1:
        quick = ", ".join(str(one.folder) for one in found if one.quick)
        raise UserError(f"full and quick runs cannot share a board; these are quick: {quick}")
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two submissions are named {twice[0]!r}; set --name")
    return found


def class_of(submission: Submission) -> str:
    """ "proved" if the maintainers have read the proof of exactly this policy, else "empirical"."""
    claims = submission.metadata["guarantee"] == "proved"
    policy, sources = submission.metadata["policy"], submission.metadata["sources"]
    return "proved" if claims and is_proved(policy, sources) else "empirical"


Scores = dict[str, dict[str, dict[str, Any]]]


def scores_of(submissions: Sequence[Submission]) -> Scores:
    """Policy -> cell -> its entry, computed from the rows."""
    found = {}
    for one in submissions:
        scored = score(one.rows, one.quick, one.metadata["guarantee_text"])
        found[one.name] = {entry["cell"]: entry for entry in scored["cells"]}
    return found


def standings(submissions: Sequence[Submission], scores: Scores) -> list[dict[str, Any]]:
    """The order: one entry per track, class and policy, in the order of the board."""
    cells = played_cells("v2", submissions[0].quick)
    found = []
    for track in TRACKS:
        own = [cell for cell in cells if cell.track == track]
        for kind in CLASSES if own else ():
            members = [one for one in submissions if class_of(one) == kind]
            found += _class_standings(track, kind, own, members, scores)
    return found


def _class_standings(
    track: str, kind: str, cells: list[SuiteCell], members: list[Submission], scores: Scores
) -> list[dict[str, Any]]:
    reasons = {one.name: _unranked(kind, track, cells, scores[one.name]) for one in members}
    ranked = [one for one in members if not reasons[one.name]]
    rows = {one.name: _rows_by_cell(one) for one in ranked}
    solved = {
        (one.name, cell.name) for one in ranked for cell in cells if _solves(scores, one, cell)
    }
    pulls = charged(cells, rows, solved)
    counted = {
        cell.name: cell.tags for cell in cells if any(cell.name in p for p in pulls.values())
    }
    places = ranks(pulls, list(counted))
    spread = rank_ranges(pulls, counted)
    found = []
    for one in members:
        entries = [scores[one.name][cell.name] for cell in cells]
        good = [entry for entry in entries if entry["solved"]]
        figures: dict[str, Any] = dict.fromkeys(("vs_bound", "vs_bound_low", "vs_bound_high"))
        if one.name in pulls:
            middle = log_mean_interval([pulls[one.name][name] for name in counted])
            ends = (middle.value, middle.low, middle.high)
            figures = dict(zip(figures, map(math.exp, ends), strict=True))
        low, high = spread.get(one.name, (None, None))
        found.append(
            {
                "track": track,
                "class": kind,
                "policy": one.name,
                "rank": places.get(one.name),
                "rank_low": low,
                "rank_high": high,
                "reason": reasons[one.name],
                "cells": len(cells),
                "solved": len(good),
                **figures,
                **{
                    name: _geometric_mean([entry[name] for entry in good])
                    for name in ("busiest", "bits_per_agent", "rounds")
                },
            }
        )
    found.sort(key=lambda e: (e["rank"] is None, e["rank"], e["vs_bound"] or 0, e["policy"]))
    return found


def _solves(scores: Scores, one: Submission, cell: SuiteCell) -> bool:
    return bool(scores[one.name][cell.name]["solved"])


def _rows_by_cell(submission: Submission) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in submission.rows:
        found.setdefault(row["cell"], []).append(row)
    return found


def _unranked(
    kind: str, track: str, cells: list[SuiteCell], entries: dict[str, dict[str, Any]]
) -> str:
    """Why the policy has no rank in the track; "" if it has one."""
    if track == "small-delta" and kind != "proved":
        return "only proved policies are ranked: trials cannot confirm a small δ"
    for cell in cells:
        if not entries[cell.name]["applicable"]:
            return f"not applicable: {entries[cell.name]['reason']} ({cell.name})"
    if not any(entries[cell.name]["solved"] for cell in cells):
        return f"solves none of {len(cells)} cells"
    return ""


def _geometric_mean(values: list[float]) -> float | None:
    """exp of the mean log; None without values, 0 if one of them is 0."""
    if not values:
        return None
    return math.exp(float(np.mean(np.log(values)))) if min(values) > 0 else 0.0


# --- the page and the table --------------------------------------------------------------------


def board_data(submissions: Sequence[Submission], highlight: Sequence[str] = ()) -> dict[str, Any]:
    """Everything that the page shows; `highlight` names submissions to be marked."""
    cells = played_cells("v2", submissions[0].quick)
    scores = scores_of(submissions)
    shown = ("name", "authors", "link", "guarantee_text", "policy", "date", "package")
    policies = []
    for one in submissions:
        rows = _rows_by_cell(one)
        said = {key: one.metadata[key] for key in shown}
        own = {
            cell.name: scores[one.name][cell.name] | {"quantiles": _quantiles(cell, rows)}
            for cell in cells
        }
        more = {"link": _web_link(said["link"]), "class": class_of(one), "cells": own}
        policies.append(said | more | {"mine": one.name in highlight})
    kept = ("name", "probes", "tags", "track", "delta")
    return {
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "package": __version__,
        "quick": submissions[0].quick,
        "digest": submissions[0].metadata["digest"],
        "tracks": TRACKS,
        "standings": standings(submissions, scores),
        "cells": [
            {key: getattr(cell, key) for key in kept}
            | {
                "trials": cell.count(submissions[0].quick),
                "n_agents": cell.instances[0].n_agents,
                "n_clusters": cell.instances[0].n_clusters,
                "n_arms": cell.instances[0].n_arms,
                "bound": float(np.mean(cell.bounds)),
            }
            for cell in cells
        ],
        "policies": policies,
    }


def _web_link(link: str) -> str:
    """`link` if it leads to a web page; "" otherwise: a link may also run code."""
    return link if link.startswith(("http://", "https://")) else ""


def _quantiles(cell: SuiteCell, rows: dict[str, list[Any]]) -> list[float]:
    """Quantiles of pulls over the bound, over the trials of a cell."""
    if cell.name not in rows:
        return []
    values = np.quantile(ratios(cell, rows[cell.name]), LEVELS)
    return [float(f"{value:.4g}") for value in values]


def leaderboard_page(folders: Sequence[str | Path], highlight: Sequence[str] = ()) -> str:
    """The board of the submissions in `folders` as one HTML page that fetches nothing."""
    data = board_data(load_all(folders), highlight)
    # No "<" may stand in the script element, whatever a submission says: it could end it early.
    text = json.dumps(_plain(data), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    template = files("clustered_bandit_gym.suite").joinpath("leaderboard.html").read_text("utf-8")
    return template.replace("__DATA__", text)


def board_json(folders: Sequence[str | Path]) -> str:
    """The order as JSON: one object per track, class and policy."""
    submissions = load_all(folders)
    order = standings(submissions, scores_of(submissions))
    return json.dumps(_plain(order), indent=1, ensure_ascii=False, allow_nan=False)


def top_lines(folders: Sequence[str | Path], track: str = "told", most: int = 20) -> str:
    """The order of a track as a Markdown table, class by class."""
    submissions = load_all(folders)
    order = standings(submissions, scores_of(submissions))
    lines = [
        "| rank | policy | class | solved | pulls / lower bound | busiest agent | bits per agent "
        "| rounds |",
        "|---:|---|---|---:|---:|---:|---:|---:|",
    ]
    ranked = [entry for entry in order if entry["track"] == track and entry["rank"]]
    for entry in ranked[:most]:
        ends = [number(entry[f"vs_bound{end}"]) for end in ("", "_low", "_high")]
        texts = [number(entry[name]) for name in ("busiest", "bits_per_agent", "rounds")]
        head = [str(entry["rank"]), markdown(entry["policy"]), entry["class"]]
        solved = f"{entry['solved']}/{entry['cells']}"
        interval = f"{ends[0]} ({ends[1]} to {ends[2]})"
        lines.append(f"| {' | '.join([*head, solved, interval, *texts])} |")
    made = {f"{one.metadata['date']}, version {one.metadata['package']}" for one in submissions}
    kind = "quick runs" if submissions[0].quick else "full runs"
    said = f"Suite v2, track “{TRACKS[track]}”, {kind}, {'; '.join(map(markdown, sorted(made)))}."
    return "\n".join([*lines, "", said])


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
