"""The leaderboard: submissions in order, as data and as one self-contained HTML page.

Scores are those that the checker has computed from the rows. Full and quick runs do not share a
board. docs/suite.md has the rule.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import product
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
    kinds = {f"{'quick' if one.quick else 'full'} runs of {one.suite}" for one in found}
    if kinds not in ({"quick runs of v2"}, {"full runs of v2"}):
        said = ", ".join(sorted(kinds)) or "nothing"
        raise UserError(f"a board shows either full runs or quick runs of v2; got {said}")
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"two submissions are named {twice[0]!r}; set --name")
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
    said = submission.metadata
    read = [(one["policy"], one.get("sources", {})) for one in known() if one["proved"]]
    proved = said["guarantee"] == "proved" and (said["policy"], said["sources"]) in read
    return "proved" if proved else "empirical"


def standings(submissions: Sequence[Submission]) -> list[dict[str, Any]]:
    """The order: one entry per track, class and policy, in the order of the board."""
    cells = played_cells("v2", submissions[0].quick)
    found = []
    for track, kind in product(TRACKS, ("proved", "empirical")):
        own = [cell for cell in cells if cell.track == track]
        members = [one for one in submissions if class_of(one) == kind]
        found += _class_standings(track, kind, own, members)
    return found


def _class_standings(
    track: str, kind: str, cells: list[SuiteCell], members: list[Submission]
) -> list[dict[str, Any]]:
    reasons = {one.name: _unranked(kind, track, cells, one.entries) for one in members}
    solved = {one.name: _solved(one, cells) for one in members}
    ranked = {name: own for name, own in solved.items() if not reasons[name]}
    pulls = charged(ranked, [cell.name for cell in cells])
    compared = next(iter(pulls.values()), {})  # the same cells for every policy
    tags = {cell.name: cell.tags for cell in cells if cell.name in compared}
    places = ranks(pulls, list(tags))
    spread = rank_ranges(pulls, tags)
    found = []
    for one in members:
        low, high = spread.get(one.name, (None, None))
        middle = [None, None, None]
        if one.name in pulls:
            middle = np.exp(log_mean_interval(list(pulls[one.name].values()))).tolist()
        entry: dict[str, Any] = {
            "track": track,
            "class": kind,
            "policy": one.name,
            "rank": places.get(one.name),
            "rank_low": low,
            "rank_high": high,
            "reason": reasons[one.name],
            "cells": len(cells),
            "solved": len(solved[one.name]),
            "vs_bound": middle[0],
            "vs_bound_low": middle[1],
            "vs_bound_high": middle[2],
        }
        for name in ("busiest", "bits_per_agent", "rounds"):
            figures = [one.entries[cell][name] for cell in solved[one.name]]
            with np.errstate(divide="ignore"):  # a zero makes the geometric mean zero
                entry[name] = float(np.exp(np.log(figures).mean())) if figures else None
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
    own = [entries[cell.name] for cell in cells]
    for entry in own:
        if not entry["applicable"]:
            return f"not applicable: {entry['reason']} ({entry['cell']})"
    if not any(entry["solved"] for entry in own):
        return f"solves none of {len(cells)} cells"
    return ""


def board_data(submissions: Sequence[Submission], highlight: Sequence[str] = ()) -> dict[str, Any]:
    """Everything that the page shows; `highlight` names submissions to be marked."""
    quick = submissions[0].quick
    cells = played_cells("v2", quick)
    shown = []
    for cell in cells:
        sizes = {
            key: getattr(cell.instances[0], key) for key in ("n_agents", "n_clusters", "n_arms")
        }
        played = {"delta": cell.delta, "trials": cell.count(quick), "bound": np.mean(cell.bounds)}
        shown.append(asdict(cell) | sizes | played)
    return {
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "package": __version__,
        "quick": quick,
        "digest": submissions[0].metadata["digest"],
        "tracks": TRACKS,
        "standings": standings(submissions),
        "cells": shown,
        "policies": [_policy_data(one, cells, one.name in highlight) for one in submissions],
        "styles": {one.name: style_of(one.name)._asdict() for one in submissions},
    }


def _policy_data(submission: Submission, cells: list[SuiteCell], mine: bool) -> dict[str, Any]:
    """What the page shows of a submission."""
    entries, rows = submission.entries, rows_by_cell(submission.rows)
    for cell in cells:
        trials = ratios(cell, rows[cell.name])
        entries[cell.name]["quantiles"] = np.quantile(trials, (0, 0.25, 0.5, 0.75, 1)).tolist()
    link = submission.metadata["link"]
    return {
        "name": submission.name,
        "authors": submission.metadata["authors"],
        # Other links may run code.
        "link": link if link.startswith(("http://", "https://")) else "",
        "mine": mine,
        "cells": entries,
    }


def leaderboard_page(folders: Sequence[str | Path], highlight: Sequence[str] = ()) -> str:
    """The board of the submissions in `folders` as one HTML page that fetches nothing."""
    submissions = load_all(folders)
    names = [one.name for one in submissions]
    if unknown := sorted(set(highlight) - set(names)):
        raise UserError(f"no submission is named {unknown[0]}; there are {', '.join(names)}")
    template = files("clustered_bandit_gym.suite").joinpath("leaderboard.html")
    return fill(template.read_text(encoding="utf-8"), board_data(submissions, highlight))


def board_json(folders: Sequence[str | Path]) -> str:
    """The order as JSON: one object per track, class and policy."""
    return json.dumps(standings(load_all(folders)), indent=1, allow_nan=False)
