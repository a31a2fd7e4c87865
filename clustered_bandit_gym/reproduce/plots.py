"""Pictures of the paper's figures, drawn by the harness: one column of a page wide."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure as Canvas

from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.output.plots import plot_board
from clustered_bandit_gym.reproduce.figures import DELTA, SCHEMES, Figure


def plot(figure: Figure, rows: pd.DataFrame, folder: Path) -> Canvas:
    """Write ``<name>.png`` to `folder`; returns the Matplotlib figure."""
    settings = rows["env_kwargs"].map(lambda own: {**own, "instance_seed": None})
    summary = Board(rows.assign(env_kwargs=settings)).summary
    # A setting with one value has no column on a board.
    for key in figure.keys:
        if key not in summary:
            summary[key] = rows[key].iloc[0]
    if figure.over_instances:
        summary = over_instances(figure, summary, rows)
    panels = rows[figure.panel].nunique() if figure.panel else 1
    canvas = plot_board(
        summary,
        figure.keys,
        "",
        figure.x,
        panel="pulls" if figure.measure == "pulls" else "communication",
        paper=True,
        width=3.35 * panels,
    )
    canvas.suptitle(textwrap.fill(caption(figure, rows), 62 * panels), fontsize=6.5)
    canvas.savefig(folder / f"{figure.name}.png", dpi=200)
    return canvas


def over_instances(figure: Figure, summary: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The summary with medians over fixed instances, and their quartiles as intervals."""
    names = ["pulls_median_low", "pulls_median", "pulls_median_high"]
    if figure.measure == "cost":
        names = ["cost_low", "cost_mean", "cost_high"]
    point = ["policy", figure.x]
    means = rows.groupby([*point, "instance_seed"])[figure.measure].mean()
    quartiles = (
        means.groupby(point).quantile(pd.Index([0.25, 0.5, 0.75])).unstack().set_axis(names, axis=1)
    )
    others = summary.drop(columns=names, errors="ignore")
    return others.merge(quartiles, left_on=point, right_index=True).assign(heavy_tail=True)


def caption(figure: Figure, rows: pd.DataFrame) -> str:
    """Data set, δ, trials, and what marks and bars are."""
    counts = rows[rows["policy"].isin(SCHEMES)].groupby([*figure.keys, "policy"]).size()
    marks = "mean; visible bars: 95% t interval"
    if figure.over_instances:
        marks = "median over instances; visible bars: quartiles"
    if figure.measure == "cost":
        marks = marks.partition(";")[0]
    real = "" if figure.real else " (stand-in, not the real data)"
    return (
        f"{figure.title}{real}; δ = {DELTA:g}, {counts.max()} trials of a scheme per mark; {marks}"
    )
