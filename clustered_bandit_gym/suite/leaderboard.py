"""The leaderboard: submissions in order, as data and as one self-contained HTML page.

Scores are those that the checker has computed from the rows. Full and quick runs do not share a
board. docs/suite.md has the rule.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.page import fill
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.suite.cells import TRACKS, SuiteCell, played_cells
from clustered_bandit_gym.suite.checker import checked
from clustered_bandit_gym.suite.files import Submission, rows_by_cell
from clustered_bandit_gym.suite.order import charged, log_mean_interval, rank_ranges, ranks
from clustered_bandit_gym.suite.score import ratios


def load_all(folders: Sequence[str | Path]) -> list[Submission]:
    """Submissions that may share a board; `UserError` where one is malformed or does not fit."""
    found = []
    for folder in folders:
        try:
            found.append(checked(folder))
        except UserError as error:
            raise UserError(f"{folder}: {error}") from error
    if not found:
        raise UserError("there is no submission to show; name at least one folder")
    if old := [str(one.folder) for one in found if one.suite != "v2"]:
        raise UserError(f"the board is that of suite v2; these are of v1: {', '.join(old)}")
    quick = [str(one.folder) for one in found if one.quick]
    if quick and len(quick) < len(found):
        raise UserError(
            f"full and quick runs cannot share a board; these are quick: {', '.join(quick)}"
        )
    name, count = Counter(one.name for one in found).most_common(1)[0]
    if count > 1:
        raise UserError(f"two submissions are named {name!r}; set --name")
    return found


@cache
def known() -> list[dict[str, Any]]:
    """The policies in known.json: `folder`, `policy`, `proved`, `authors`, `link`, `sources`.

    `proved` is true where the maintainers have read the proof behind `link` and found that it adds
    up to δ. `sources` holds the hashes of the policy's own files; {} for policies of this package.
    """
    text = files("clustered_bandit_gym.suite").joinpath("known.json").read_text("utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def class_of(submission: Submission) -> str:
    """ "proved" if the maintainers have read the proof of exactly this policy, else "empirical"."""
    metadata = submission.metadata
    for one in known():
        same = one["policy"] == metadata["policy"]
        if same and one["proved"] and one.get("sources", {}) == metadata["sources"]:
            return "proved" if metadata["guarantee"] == "proved" else "empirical"
    return "empirical"


def standings(submissions: Sequence[Submission]) -> list[dict[str, Any]]:
    """The order: one entry per track, class and policy, in the order of the board."""
    cells = played_cells("v2", submissions[0].quick)
    found = []
    for track in TRACKS:
        own = [cell for cell in cells if cell.track == track]
        for kind in ("proved", "empirical"):
            members = [one for one in submissions if class_of(one) == kind]
            if own:
                found += _class_standings(track, kind, own, members)
    return found


def _class_standings(
    track: str, kind: str, cells: list[SuiteCell], members: list[Submission]
) -> list[dict[str, Any]]:
    reasons = {one.name: _unranked(kind, track, cells, one.entries) for one in members}
    solved = {one.name: _solved(one, cells) for one in members if not reasons[one.name]}
    pulls = charged(solved, [cell.name for cell in cells])
    compared = {name for own in pulls.values() for name in own}
    tags = {cell.name: cell.tags for cell in cells if cell.name in compared}
    places = ranks(pulls, list(tags))
    spread = rank_ranges(pulls, tags)
    found = []
    for one in members:
        good = [e for e in one.entries.values() if e["track"] == track and e["solved"]]
        low, high = spread.get(one.name, (None, None))
        entry: dict[str, Any] = {
            "track": track,
            "class": kind,
            "policy": one.name,
            "rank": places.get(one.name),
            "rank_low": low,
            "rank_high": high,
            "reason": reasons[one.name],
            "cells": len(cells),
            "solved": len(good),
            **dict.fromkeys(("vs_bound", "vs_bound_low", "vs_bound_high")),
        }
        if one.name in pulls:
            middle = log_mean_interval([pulls[one.name][name] for name in tags])
            entry["vs_bound"], entry["vs_bound_low"], entry["vs_bound_high"] = map(math.exp, middle)
        for name in ("busiest", "bits_per_agent", "rounds"):
            with np.errstate(divide="ignore"):  # a zero makes the geometric mean zero
                logs = np.log([cell[name] for cell in good])
            entry[name] = float(np.exp(logs.mean())) if good else None
        found.append(entry)
    found.sort(key=lambda e: (e["rank"] is None, e["rank"], e["vs_bound"] or 0, e["policy"]))
    return found


def _solved(submission: Submission, cells: list[SuiteCell]) -> dict[str, Floats]:
    """Cell that the policy solves -> (n,) pulls over the bound of each trial."""
    entries, rows = submission.entries, rows_by_cell(submission.rows)
    solved = [cell for cell in cells if entries[cell.name]["solved"]]
    return {cell.name: ratios(cell, rows[cell.name]) for cell in solved}


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


# --- the page ------------------------------------------------------------------------------


def board_data(submissions: Sequence[Submission], highlight: Sequence[str] = ()) -> dict[str, Any]:
    """Everything that the page shows; `highlight` names submissions to be marked."""
    quick = submissions[0].quick
    cells = played_cells("v2", quick)
    shown = []
    for cell in cells:
        entry = {key: getattr(cell, key) for key in ("name", "probes", "tags", "track", "delta")}
        for key in ("n_agents", "n_clusters", "n_arms"):
            entry[key] = getattr(cell.instances[0], key)
        shown.append(entry | {"trials": cell.count(quick), "bound": float(np.mean(cell.bounds))})
    policies = [_policy_data(one, cells) | {"mine": one.name in highlight} for one in submissions]
    return {
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "package": __version__,
        "quick": quick,
        "digest": submissions[0].metadata["digest"],
        "tracks": TRACKS,
        "standings": standings(submissions),
        "cells": shown,
        "policies": policies,
        "styles": {one.name: style_of(one.name)._asdict() for one in submissions},
    }


def _policy_data(submission: Submission, cells: list[SuiteCell]) -> dict[str, Any]:
    """What the page shows of a submission."""
    shown = ("name", "authors", "link", "guarantee_text", "policy", "date", "package")
    found = {key: submission.metadata[key] for key in shown}
    # Other links may run code.
    if not found["link"].startswith(("http://", "https://")):
        found["link"] = ""
    entries, rows = submission.entries, rows_by_cell(submission.rows)
    own = {}
    for cell in cells:
        quantiles = np.quantile(ratios(cell, rows[cell.name]), (0, 0.25, 0.5, 0.75, 1))
        short = [float(f"{value:.4g}") for value in quantiles]
        own[cell.name] = entries[cell.name] | {"quantiles": short}
    return found | {"class": class_of(submission), "cells": own}


def leaderboard_page(folders: Sequence[str | Path], highlight: Sequence[str] = ()) -> str:
    """The board of the submissions in `folders` as one HTML page that fetches nothing."""
    submissions = load_all(folders)
    names = [one.name for one in submissions]
    if unknown := set(highlight) - set(names):
        raise UserError(
            f"nothing to highlight: no submission is named {', '.join(sorted(unknown))}; "
            f"there are {', '.join(names)}"
        )
    data = board_data(submissions, highlight)
    template = files("clustered_bandit_gym.suite").joinpath("leaderboard.html")
    return fill(template.read_text(encoding="utf-8"), data)


def board_json(folders: Sequence[str | Path]) -> str:
    """The order as JSON: one object per track, class and policy."""
    return json.dumps(standings(load_all(folders)), indent=1, allow_nan=False)
