"""Plots for a two-column paper: one column wide, readable in grey; with intervals, verdicts and the
lower bound.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.markers import CARETDOWN
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from clustered_bandit_gym.harness.output.plots import draw_marks, legend_entries
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.harness.scoring.verdict import verdict
from clustered_bandit_gym.reproduce.figures import AT_AGENT, DELTA, OURS, SCHEMES, Figure
from clustered_bandit_gym.reproduce.points import centre, points

#: The policies of the plots, in the order of the legend.
PLOTTED = (*SCHEMES, AT_AGENT, OURS)
LABELS = {
    "n_agents": "agents N",
    "eta": "η",
    "alpha": "skew α",
    "pulls": "pulls",
    "cost": "communication (units)",
}
_BOUND_COLOUR = "#666666"
WIDTH, HEIGHT = 3.35, 3.0  # inches: a column of a two-column page


def plot(figure: Figure, rows: pd.DataFrame, folder: Path) -> Canvas:
    """Write ``<name>.png`` and ``<name>.svg`` to `folder`; returns the Matplotlib figure."""
    panels = [None] if figure.panel is None else list(dict.fromkeys(rows[figure.panel]))
    canvas = Canvas(figsize=(WIDTH * len(panels), HEIGHT), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for ax, value in zip(axes, panels, strict=True):
        part = rows if value is None else rows[rows[figure.panel] == value]
        _draw(ax, figure, part)
        if value is not None:
            ax.set_title(f"M = {value}", fontsize=8)
    axes[0].set_ylabel(LABELS[figure.measure], fontsize=8)
    canvas.suptitle("\n".join(textwrap.wrap(caption(figure, rows), 62 * len(panels))), fontsize=6.5)
    canvas.legend(
        handles=_legend(figure, rows),
        loc="outside lower center",
        ncols=3,
        fontsize=6,
        frameon=False,
    )
    canvas.savefig(folder / f"{figure.name}.png", dpi=200)
    # A fixed salt and no date: the same rows give the same file.
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": figure.name}):
        canvas.savefig(folder / f"{figure.name}.svg", metadata={"Date": None})
    return canvas


def caption(figure: Figure, rows: pd.DataFrame) -> str:
    """Data set, δ, trials, and what marks and bars are."""
    counts = rows[rows["policy"].isin(SCHEMES)].groupby([*figure.keys, "policy"]).size()
    trials = " to ".join(f"{count}" for count in dict.fromkeys([counts.min(), counts.max()]))
    ours = rows[rows["policy"] == OURS].groupby(figure.keys).size()
    fewer = (
        f" ({ours.min()} of {style_of(OURS).label})"
        if len(ours) and ours.min() != counts.min()
        else ""
    )
    marks = (
        "median over instances; bar: quartiles"
        if figure.over_instances
        else "mean; bar: 95% t interval"
    )
    real = "" if figure.real else " (stand-in, not the real data)"
    return f"{figure.title}{real}; δ = {DELTA:g}, {trials} trials per mark{fewer}; {marks}"


def _legend(figure: Figure, rows: pd.DataFrame) -> list[Line2D]:
    """One entry per policy, FAIL and unfinished trials in words; the lower bound comes last."""
    found = []
    for policy in PLOTTED:
        own = rows[rows["policy"] == policy]
        found += [_marks(part, figure) for _, part in own.groupby(figure.panel or "policy")]
    entries = legend_entries(pd.concat(found))
    if figure.measure == "pulls":
        entries.append(
            Line2D([], [], color=_BOUND_COLOUR, linestyle=":", linewidth=1.2, label="lower bound")
        )
    return entries


def _marks(rows: pd.DataFrame, figure: Figure) -> pd.DataFrame:
    """`points` of one policy, with the trials, the unfinished ones and the verdict of each."""
    found = []
    for _, here in rows.groupby(figure.x, sort=True):
        wrong = int((here["outcome"] == "wrong").sum())
        unfinished = int(here["outcome"].isin(UNFINISHED).sum())
        word = verdict(wrong, len(here), float(here["delta"].iloc[0]), unfinished=unfinished).word
        found.append((here["policy"].iloc[0], len(here), unfinished, word))
    columns = ["policy", "trials", "unfinished", "verdict"]
    return points(rows, figure).join(pd.DataFrame(found, columns=columns))


def _draw(ax: Axes, figure: Figure, rows: pd.DataFrame) -> None:
    xs = sorted(set(rows[figure.x]))
    drawn = {policy: _marks(rows[rows["policy"] == policy], figure) for policy in PLOTTED}
    floor = min(own["centre"].min() for own in drawn.values() if not own.empty) / 1.5
    for policy, own in drawn.items():
        if own.empty:
            continue
        look = style_of(policy)
        x, y = own["x"].to_numpy(dtype=float), own["centre"].to_numpy()
        # A bar that reaches zero ends inside the log axis.
        spread = np.stack([y - np.maximum(own["low"], floor), own["high"] - y])
        ax.errorbar(
            x,
            y,
            yerr=np.maximum(spread, 0),
            color=look.colour,
            ls=look.dashes,
            lw=1.1,
            elinewidth=0.8,
            capsize=2,
        )
        zero = own["low"].to_numpy() <= 0
        ax.plot(
            x[zero], np.full(zero.sum(), floor), marker=CARETDOWN, color=look.colour, ls="", ms=4
        )
        draw_marks(ax, x, y, own, 4)
    if figure.measure == "pulls":
        known = rows[(rows["policy"] == "naive") & rows["bound"].notna()]
        bounds = [centre(known[known[figure.x] == x], "bound", figure) for x in xs]
        ax.plot(xs, bounds, color=_BOUND_COLOUR, linestyle=":", linewidth=1.2)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(numticks=8))
    if figure.x != "alpha":
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
    # Labels closer than this on a log axis would run into each other; the last one stays.
    spaced = [
        x
        for x, after in zip(xs, [*xs[1:], np.inf], strict=True)
        if figure.x == "alpha" or after > 1.3 * x
    ]
    ax.xaxis.set_major_locator(FixedLocator(spaced))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.tick_params(labelsize=7)
    ax.set_xlabel(LABELS[figure.x], fontsize=8)
    ax.grid(True, which="major", linewidth=0.3, color="#CCCCCC")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
