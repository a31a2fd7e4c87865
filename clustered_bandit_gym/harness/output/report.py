"""One self-contained HTML page of a store: sortable board, interactive plots, verdicts in words,
settings and seeds.

The page fetches nothing: data, style and script are inside it, so it works offline, on a phone, and
in ten years.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.cell import Cell
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.output.panels import axis_name, measure_of, panels_of
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.summary import cells_of, swept_setting
from clustered_bandit_gym.harness.store import Store

#: What the page shows of a trial; the rest of a row is in the store.
_TRIAL = (
    "policy",
    "trial",
    "outcome",
    "correct",
    "wrong_agents",
    "pulls",
    "cost",
    "rounds",
    "seconds",
    "seed",
    "message",
)
#: Beyond this many trials of a setting the page draws distributions from bins and lists only trials
#: that are wrong or unfinished: a browser takes a minute for a page of 100,000 rows.
MOST_ROWS = 5000
LISTED = 200
BINS = 60
_PROBLEM = (
    "n_agents",
    "n_arms",
    "n_clusters",
    "delta",
    "eta",
    "eta1",
    "sigma",
    "support",
    "epsilon",
)


def write_report(
    folder: str | Path, path: str | Path, *, x: str | None = None, overwrite: bool = False
) -> Path:
    """Write the report of the store in `folder` to `path`, one HTML file.

    Args:
        x: the swept setting along the axis of "Across settings"; default the one with most values.
        overwrite: replace an existing file instead of refusing.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise UserError(
            f"{path} exists already; choose another name, or overwrite it with --force (in Python: "
            "overwrite=True)"
        )
    with Store(folder, create=False) as store:
        rows = store.rows()
    if not rows:
        raise UserError(
            f"{folder} holds no finished trials; play some with `clustered-bai compare --out "
            f"{folder}`"
        )
    page = report_page(rows, f"clustered-bai report: {Path(folder).resolve().name}", x)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path


def report_page(
    rows: list[Row],
    title: str = "clustered-bai report",
    x: str | None = None,
) -> str:
    """The page for `rows`, as text."""
    board = Board(sorted(rows, key=lambda row: row["trial"]))
    cells, varied = cells_of(board.trials)
    groups = []
    for (cell, seed), part in board.trials.groupby(
        [cells, board.trials["seed"].astype(str)], sort=False
    ):
        assert isinstance(cell, Cell)
        groups.append(_group(cell, str(seed), part.reset_index(drop=True), varied))
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    data = {
        "title": title,
        "made": f"{len(rows):,} trials; clustered-bandit-gym {__version__}; made {now}",
        "styles": {
            name: style_of(str(name))._asdict() for name in dict.fromkeys(board.trials["policy"])
        },
        "sweep": _sweep(board, x),
        "groups": groups,
    }
    # No "<" may occur in the script element: in a policy's message it could end the element early.
    text = json.dumps(_plain(data), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    template = (
        files("clustered_bandit_gym.harness.output")
        .joinpath("report.html")
        .read_text(encoding="utf-8")
    )
    return template.replace("__DATA__", text)


def _sweep(board: Board, x: str | None) -> dict[str, Any] | None:
    """The panels of "Across settings": within a panel the points of a policy differ in the swept
    setting alone.
    """
    x = swept_setting(board.summary, board.varied, x)
    if x is None:
        return None
    measure = measure_of(board.summary)
    names = {measure.centre: "centre", measure.low: "low", measure.high: "high", x: "x"}
    shown = [*names, "policy", "verdict", "unfinished", "trials"]
    return {
        "x": axis_name(x),
        "words": measure.words,
        "panels": [
            {
                "title": title,
                "points": part.sort_values(x)[shown].rename(columns=names).to_dict("records"),
            }
            for title, part in panels_of(board.summary, board.varied, x)
        ],
    }


def _group(cell: Cell, seed: str, trials: pd.DataFrame, varied: list[str]) -> dict[str, Any]:
    """Everything about the trials of one environment and root seed."""
    env, kwargs = cell.env_id, cell.plain_kwargs
    board = Board(trials)
    first = trials.iloc[0]
    problem = {name: first.get(name) for name in _PROBLEM}
    shown = [
        f"{name} = {kwargs[name]}"
        for name in varied
        if name in kwargs and name not in ("n_agents", "delta")
    ]
    shown += [f"N = {problem['n_agents']}", f"δ = {problem['delta']:g}"]
    return {
        "name": " · ".join([env, *shown, f"seed {seed}"]),
        "summary": board.summary.to_dict("records"),
        "measure": measure_of(board.summary)._asdict(),
        "notes": board.notes,
        "phases": _phases(trials),
        **_rows(trials),
        "settings": {
            "environment": env,
            "arguments": kwargs,
            "root seed": seed,
            "told to the learner": problem,
            "policies": {
                row["policy"]: row.get("settings")
                for row in trials.drop_duplicates("policy").to_dict("records")
            },
            "package version": str(first.get("version", "")),
        },
        **problem,
    }


def _phases(trials: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Mean pulls of each policy in each phase."""
    means: dict[str, dict[str, float]] = {}
    for policy, own in trials.groupby("policy", sort=False):
        sums: dict[str, float] = {}
        for phases in own.get("pulls_by_phase", ()):
            for name, pulls in (phases or {}).items():
                sums[name] = sums.get(name, 0.0) + pulls / len(own)
        means[str(policy)] = sums
    return means


def _rows(trials: pd.DataFrame) -> dict[str, Any]:
    """The trials one by one or, where they are many, bins of pulls and the trials that failed."""
    shown = trials[[name for name in _TRIAL if name in trials]]
    if len(trials) <= MOST_ROWS:
        return {"trials": shown.to_dict("records"), "bins": None}
    failed = shown[shown["outcome"] != "solved"].head(LISTED)
    positive = trials[trials["pulls"] > 0]
    edges = np.geomspace(positive["pulls"].min(), positive["pulls"].max() * (1 + 1e-9), BINS + 1)
    bins = [
        {
            "policy": policy,
            "pulls": np.sqrt(edges[1:] * edges[:-1]).tolist(),
            "trials": np.histogram(own["pulls"], edges)[0].tolist(),
        }
        for policy, own in positive.groupby("policy", sort=False)
    ]
    return {"trials": failed.to_dict("records"), "bins": bins}


def _plain(value: Any) -> Any:
    """JSON has no NaN, no infinity and no NumPy: missing and infinite numbers become null, the rest
    plain Python.
    """
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or value is pd.NA:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
