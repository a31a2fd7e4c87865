"""One HTML page of a store: sortable board, interactive plots, verdicts in words, settings and
seeds."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.output.layout import axis_name, measure_of, panels_of
from clustered_bandit_gym.harness.output.page import fill
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.summary import cells_of, frame, swept_setting
from clustered_bandit_gym.harness.settings import Cell


def write_report(folder: str | Path, path: str | Path) -> Path:
    """Write the report of the store in `folder` to `path`, one HTML file."""
    path = Path(path)
    rows = Board.load(folder).trials
    if rows.empty:
        raise UserError(f"{folder} holds no finished trials")
    page = report_page(rows, f"clustered-bai report: {Path(folder).resolve().name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path


def report_page(rows: list[Row] | pd.DataFrame, title: str = "clustered-bai report") -> str:
    """The page for `rows`, as text."""
    board = Board(frame(rows).sort_values("trial", kind="stable", ignore_index=True))
    trials = board.trials
    cells = cells_of(trials)[0]
    groups = []
    for (cell, seed), part in trials.groupby([cells, trials["seed"].astype(str)], sort=False):
        assert isinstance(cell, Cell)
        groups.append(_group(cell, str(seed), part.reset_index(drop=True), board.varied))
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    data = {
        "title": title,
        "made": f"{len(rows):,} trials; clustered-bandit-gym {__version__}; made {now}",
        "styles": {name: style_of(name)._asdict() for name in trials["policy"].unique()},
        "sweep": _sweep(board),
        "groups": groups,
    }
    template = files("clustered_bandit_gym.harness.output").joinpath("report.html")
    return fill(template.read_text(encoding="utf-8"), data)


def _sweep(board: Board) -> dict[str, Any] | None:
    """The panels of "Across settings": within a panel the points of a policy differ in the swept
    setting alone."""
    x = swept_setting(board.summary, board.varied)
    if x is None:
        return None
    measure = measure_of(board.summary)
    names = {measure.centre: "centre", measure.low: "low", measure.high: "high", x: "x"}
    panels = []
    for title, part in panels_of(board.summary, board.varied, x):
        shown = part.sort_values(x)[[*names, "policy", "verdict", "unfinished", "trials"]]
        panels.append({"title": title, "points": shown.rename(columns=names).to_dict("records")})
    return {"x": axis_name(x), "words": measure.words, "panels": panels}


def _group(cell: Cell, seed: str, trials: pd.DataFrame, varied: list[str]) -> dict[str, Any]:
    """Everything about the trials of one environment and root seed."""
    kwargs = cell.plain_kwargs
    board = Board(trials)
    first = trials.iloc[0]
    told = ["n_agents", "n_arms", "n_clusters", "delta", "eta", "eta1", "sigma", "support"]
    problem = {name: first.get(name) for name in [*told, "epsilon"]}
    shown = [name for name in varied if name in kwargs and name not in ("n_agents", "delta")]
    parts = [cell.env_id, *(f"{name} = {kwargs[name]}" for name in shown)]
    parts += [f"N = {problem['n_agents']}", f"δ = {problem['delta']:g}", f"seed {seed}"]
    players = trials.drop_duplicates("policy").set_index("policy")
    # A browser takes a minute for a page of 100,000 rows. Wrong and unfinished trials come first.
    solved = trials["outcome"] == "solved"
    listed = pd.concat([trials[~solved], trials[solved]]).head(5000).sort_index()
    columns = ["policy", "trial", "outcome", "correct", "wrong_agents", "pulls", "cost", "rounds"]
    return {
        "name": " · ".join(parts),
        "summary": board.summary.to_dict("records"),
        "measure": measure_of(board.summary)._asdict(),
        "notes": board.notes,
        "phases": _phases(trials),
        "trials": listed[[*columns, "seconds", "seed", "message"]].to_dict("records"),
        "count": len(trials),
        "settings": {
            "environment": cell.env_id,
            "arguments": kwargs,
            "root seed": seed,
            "told to the learner": problem,
            "policies": players.get("settings", pd.Series()).to_dict(),
            "package version": first.get("version"),
        },
        **problem,
    }


def _phases(trials: pd.DataFrame) -> dict[str, Any]:
    """Mean pulls of each policy in each phase."""
    means = {}
    for policy, own in trials.groupby("policy", sort=False):
        table = pd.DataFrame([phases or {} for phases in own.get("pulls_by_phase", ())])
        means[str(policy)] = (table.sum() / len(own)).to_dict()
    return means
