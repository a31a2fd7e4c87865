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

import numpy as np
import pandas as pd

from clustered_bandit_gym._types import FilePath, Values
from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.page import fill
from clustered_bandit_gym.harness.output.style import styles_of
from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.suite.cells import TRACKS, played_cells
from clustered_bandit_gym.suite.checker import checked
from clustered_bandit_gym.suite.files import Submission
from clustered_bandit_gym.suite.order import charged, log_mean_interval, rank_ranges, ranks
from clustered_bandit_gym.suite.score import ratios

#: What the order says of a policy; None where it has no rank.
_ORDER = ("rank", "rank_low", "rank_high", "vs_bound", "vs_bound_low", "vs_bound_high")


def load_all(folders: Sequence[FilePath]) -> list[Submission]:
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
def known() -> list[Values]:
    """The policies in known.json: `folder`, `policy`, `proved`, `authors`, `link`, `sources`.

    `proved` is true where the maintainers have read the proof behind `link` and found that it adds
    up to δ. `sources` holds the hashes of the policy's own files; {} for policies of this package.
    """
    text = files("clustered_bandit_gym.suite").joinpath("known.json").read_text("utf-8")
    return list(json.loads(text))


def class_of(submission: Submission) -> str:
    """ "proved" if the maintainers have read the proof of exactly this policy, else "empirical"."""
    said = submission.metadata
    read = [(one["policy"], one.get("sources", {})) for one in known() if one["proved"]]
    proved = said["guarantee"] == "proved" and (said["policy"], said["sources"]) in read
    return "proved" if proved else "empirical"


def standings(submissions: Sequence[Submission]) -> list[Values]:
    """The order: one entry per track, class and policy, in the order of the board."""
    places = product(TRACKS, ("proved", "empirical"))
    return [entry for place in places for entry in _class_standings(submissions, *place)]


def _class_standings(submissions: Sequence[Submission], track: str, kind: str) -> list[Values]:
    cells = [cell for cell in played_cells("v2", submissions[0].quick) if cell.track == track]
    found = []
    ranked = {}
    for one in submissions:
        if class_of(one) != kind:
            continue
        entries = [one.entries[cell.name] for cell in cells]
        solved = [cell for cell in cells if one.entries[cell.name]["solved"]]
        reason = _unranked(kind, track, entries)
        if not reason:
            ranked[one.name] = {cell.name: ratios(cell, one.by_cell[cell.name]) for cell in solved}
        entry: Values = {"track": track, "class": kind, "policy": one.name}
        entry |= {"reason": reason, "cells": len(cells), "solved": len(solved)}
        entry |= dict.fromkeys(_ORDER)
        for name in ("busiest", "bits_per_agent", "rounds"):
            figures = [one.entries[cell.name][name] for cell in solved]
            with np.errstate(divide="ignore"):  # a zero makes the geometric mean zero
                entry[name] = float(np.exp(np.log(figures).mean())) if figures else None
        found.append(entry)
    somewhere = set().union(*ranked.values())  # the cells that somebody solves
    tags = {cell.name: cell.tags for cell in cells if cell.name in somewhere}
    pulls = charged(ranked, tags)
    places = ranks(pulls, tags)
    spread = rank_ranges(pulls, tags)
    for entry in found:
        name = entry["policy"]
        if name in pulls:
            ends = spread.get(name, (None, None))
            middle = np.exp(log_mean_interval(list(pulls[name].values()))).tolist()
            entry |= zip(_ORDER, [places[name], *ends, *middle], strict=True)
    found.sort(key=lambda e: (e["rank"] is None, e["rank"], e["vs_bound"] or 0, e["policy"]))
    return found


def _unranked(kind: str, track: str, entries: list[Values]) -> str:
    """Why the policy has no rank in the track; "" if it has one."""
    if track == "small-delta" and kind != "proved":
        return "only proved policies are ranked: trials cannot confirm a small δ"
    for entry in entries:
        if not entry["applicable"]:
            return f"not applicable: {entry['reason']} ({entry['cell']})"
    if not any(entry["solved"] for entry in entries):
        return f"solves none of {len(entries)} cells"
    return ""


def leaderboard_page(folders: Sequence[FilePath], highlight: Sequence[str] = ()) -> str:
    """The board of the submissions in `folders` as one HTML page that fetches nothing.

    `highlight` names submissions to be marked.
    """
    submissions = load_all(folders)
    names = [one.name for one in submissions]
    if unknown := sorted(set(highlight) - set(names)):
        raise UserError(f"no submission is named {unknown[0]}; there are {', '.join(names)}")
    quick = submissions[0].quick
    played = played_cells("v2", quick)
    cells = []
    policies = []
    for cell in played:
        one = cell.instances[0]
        sizes = {"n_agents": one.n_agents, "n_clusters": one.n_clusters, "n_arms": one.n_arms}
        sizes |= {"trials": cell.count(quick), "bound": np.mean(cell.bounds)}
        cells.append(asdict(cell) | sizes)
    for submission in submissions:
        entries = submission.entries
        for cell in played:
            trials = ratios(cell, submission.by_cell[cell.name])
            entries[cell.name]["quantiles"] = np.quantile(trials, (0, 0.25, 0.5, 0.75, 1)).tolist()
        own = {"mine": submission.name in highlight, "cells": entries}
        if not submission.metadata["link"].startswith(("http://", "https://")):
            own["link"] = ""  # others may run code
        policies.append(submission.metadata | own)
    data = {
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "package": __version__,
        "quick": quick,
        "tracks": TRACKS,
        "standings": standings(submissions),
        "cells": cells,
        "policies": policies,
        "styles": {name: look._asdict() for name, look in styles_of(names).items()},
    }
    return fill("suite/leaderboard.html", data)


def board_json(folders: Sequence[FilePath]) -> str:
    """The order as JSON: one object per track, class and policy."""
    return json.dumps(standings(load_all(folders)), indent=1, allow_nan=False)


def board_text(folders: Sequence[FilePath]) -> str:
    """The order as a table for a terminal."""
    names = ["track", "class", "rank", "policy", "solved", "vs_bound", "busiest", "bits_per_agent"]
    table = pd.DataFrame(standings(load_all(folders)))[[*names, "rounds"]]
    return table.map(lambda one: number(one) if isinstance(one, float) else one or "").to_string(
        index=False
    )
