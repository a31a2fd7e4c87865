"""Pictures of the paper's figures, drawn by the harness: one column of a page wide."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure as Canvas

from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.output.plots import plot_board
from clustered_bandit_gym.reproduce.figures import DELTA, SCHEMES, Figure
from clustered_bandit_gym.reproduce.points import points

#: Inches: a column of a two-column page.
WIDTH = 3.35


def plot(figure: Figure, rows: pd.DataFrame, folder: Path) -> Canvas:
    """Write ``<name>.png`` to `folder`; returns the Matplotlib figure."""
    settings = rows["env_kwargs"].map(lambda own: {**own, "instance_seed": None})
    board = Board(rows.assign(env_kwargs=settings))
    summary = (
        over_instances(figure, board.summary, rows) if figure.over_instances else board.summary
    )
    # A setting with one value has no column on a board.
    alone = [key for key in figure.keys if key not in summary]
    summary = summary.assign(**{key: rows[key].iloc[0] for key in alone})
    panels = 1 if figure.panel is None else rows[figure.panel].nunique()
    kind = "pulls" if figure.measure == "pulls" else "communication"
    canvas = plot_board(
        board.trials,
        summary,
        figure.keys,
        figure.title,
        figure.x,
        panel=kind,
        paper=True,
        width=WIDTH * panels,
    )
    canvas.suptitle(textwrap.fill(caption(figure, rows), 62 * panels), fontsize=6.5)
    canvas.savefig(folder / f"{figure.name}.png", dpi=200)
    return canvas


def over_instances(figure: Figure, summary: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The summary with medians over fixed instances, and their quartiles as intervals."""
    names = ["pulls_median", "pulls_median_low", "pulls_median_high"]
    if figure.measure == "cost":
        names = ["cost_mean", "cost_low", "cost_high"]
    groups = rows.groupby("policy")
    found = [points(own, figure).assign(policy=policy) for policy, own in groups]
    table = pd.concat(found).set_axis([figure.x, *names, "policy"], axis=1)
    others = summary.drop(columns=names, errors="ignore")
    return others.merge(table, on=["policy", figure.x]).assign(heavy_tail=True)


def caption(figure: Figure, rows: pd.DataFrame) -> str:
    """Data set, δ, trials, and what marks and bars are."""
    counts = rows[rows["policy"].isin(SCHEMES)].groupby([*figure.keys, "policy"]).size()
    trials = " to ".join(str(count) for count in dict.fromkeys([counts.min(), counts.max()]))
    marks = "median over instances" if figure.over_instances else "mean"
    if figure.measure == "pulls":
        marks += "; bar: quartiles" if figure.over_instances else "; bar: 95% t interval"
    real = "" if figure.real else " (stand-in, not the real data)"
    return f"{figure.title}{real}; δ = {DELTA:g}, {trials} trials of a scheme per mark; {marks}"
