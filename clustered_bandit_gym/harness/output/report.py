"""One HTML page of a store: sortable board, interactive plots, verdicts in words, settings and
seeds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from clustered_bandit_gym._types import FilePath, Values
from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.output.layout import axis_name, measure_of, panels_of
from clustered_bandit_gym.harness.output.page import fill
from clustered_bandit_gym.harness.output.style import styles_of
from clustered_bandit_gym.harness.scoring.summary import cells_of, swept_setting


def write_report(folder: FilePath, path: FilePath, labels: Mapping[str, str] | None = None) -> Path:
    """Write the report of the store in `folder` to `path`, one HTML file; `labels` as for
    `Board.plot`."""
    path = Path(path)
    title = f"clustered-bai report: {Path(folder).resolve().name}"
    page = report_page(Board.load(folder), title, labels)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def report_page(
    board: Board, title: str = "clustered-bai report", labels: Mapping[str, str] | None = None
) -> str:
    """The page for the trials of `board`, as text."""
    board = Board(board.trials.sort_values("trial", kind="stable", ignore_index=True))
    trials = board.trials
    groups = trials.groupby([cells_of(trials), "seed"], sort=False)
    looks = styles_of(trials["policy"], labels)
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    data = {
        "title": title,
        "made": f"{len(trials):,} trials; clustered-bandit-gym {__version__}; made {now}",
        "styles": {name: look._asdict() for name, look in looks.items()},
        "sweep": _sweep(board),
        "groups": [_group(part) for _, part in groups],
    }
    return fill("harness/output/report.html", data)


def _sweep(board: Board) -> Values | None:
    """The panels of "Across settings": in each the swept setting alone varies."""
    x = swept_setting(board.summary, board.varied)
    if x is None:
        return None
    panels = [
        {"title": title, "points": part.sort_values(x).to_dict("records")}
        for title, part in panels_of(board.summary, board.varied, x)
    ]
    measure = measure_of(board.summary)._asdict()
    return {"x": axis_name(x), "setting": x, "measure": measure, "panels": panels}


def _group(trials: pd.DataFrame) -> Values:
    """Everything about the trials of one environment and root seed."""
    board = Board(trials)
    first = trials.iloc[0]
    told = ["n_agents", "n_arms", "n_clusters", "delta", "eta", "eta1", "sigma", "support"]
    phases = trials.groupby("policy", sort=False)["pulls_by_phase"]
    # A browser takes a minute for a page of 100,000 rows. Wrong and unfinished trials come first.
    order = trials["outcome"].eq("solved").sort_values(kind="stable").index
    columns = ["policy", "trial", "outcome", "correct", "wrong_agents", "pulls", "cost", "rounds"]
    listed = trials.loc[order[:5000].sort_values(), [*columns, "seconds", "seed", "message"]]
    return {
        "name": board.title,
        "summary": board.summary.to_dict("records"),
        "measure": measure_of(board.summary)._asdict(),
        "notes": board.notes,
        # Mean pulls of each policy in each phase.
        "phases": {
            name: pd.DataFrame(list(own)).fillna(0).mean().to_dict() for name, own in phases
        },
        "trials": listed.to_dict("records"),
        "count": len(trials),
        "settings": {
            "environment": first["env"],
            "arguments": first["env_kwargs"],
            "root seed": str(first["seed"]),
            "told to the learner": first.reindex([*told, "epsilon"]).to_dict(),
            "policies": trials.drop_duplicates("policy").set_index("policy")["settings"].to_dict(),
            "package version": first["version"],
        },
    }
