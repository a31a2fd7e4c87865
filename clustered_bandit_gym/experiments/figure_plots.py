"""Plots for a two-column paper: one column wide, readable in grey, with intervals and the lower bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from clustered_bandit_gym.experiments.claims.measure import centre, points
from clustered_bandit_gym.experiments.figures import AT_AGENT, OURS, Figure

#: Okabe and Ito's colours, distinct for colour-blind readers; markers and dashes tell them apart without colour.
STYLES = {
    "naive": ("Naive", "#000000", "s", "-"),
    "cl-bai": ("Cl-BAI", "#D55E00", "^", "-"),
    "bai-cl": ("BAI-Cl", "#0072B2", "o", "-"),
    "bai-cl++": ("BAI-Cl++", "#009E73", "D", "-"),
    AT_AGENT: ("BAI-Cl++, check at agents", "#CC79A7", "v", (0, (3, 1))),
    OURS: ("StructuredBAI (ours)", "#E69F00", "P", (0, (5, 2))),
}
LABELS = {"n_agents": "agents N", "eta": "η", "alpha": "skew α", "pulls": "pulls", "cost": "communication (units)"}
_BOUND = "lower bound"
WIDTH, HEIGHT = 3.35, 2.45  # inches: a column of a two-column page


def plot(figure: Figure, rows: pd.DataFrame, folder: Path) -> None:
    """``<name>.png`` and ``<name>.svg`` in `folder`."""
    panels = [None] if figure.panel is None else list(dict.fromkeys(rows[figure.panel]))
    canvas = Canvas(figsize=(WIDTH * len(panels), HEIGHT), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for ax, value in zip(axes, panels, strict=True):
        part = rows if value is None else rows[rows[figure.panel] == value]
        _draw(ax, figure, part)
        if value is not None:
            ax.set_title(f"M = {value}", fontsize=8)
        elif not figure.real:
            ax.set_title("stand-in, not the real data", fontsize=7, style="italic")
    axes[0].set_ylabel(LABELS[figure.measure], fontsize=8)
    # Matplotlib lists lines before error bars; here the lower bound comes last.
    entries = sorted(zip(*axes[0].get_legend_handles_labels(), strict=True), key=lambda entry: entry[1] == _BOUND)
    canvas.legend(
        *zip(*entries, strict=True), loc="outside upper center", ncols=3, fontsize=6.5, frameon=False, handlelength=2.2
    )
    canvas.savefig(folder / f"{figure.name}.png", dpi=200)
    # A fixed salt and no date: the same rows give the same file.
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": figure.name}):
        canvas.savefig(folder / f"{figure.name}.svg", metadata={"Date": None})


def _draw(ax: Axes, figure: Figure, rows: pd.DataFrame) -> None:
    xs = sorted(set(rows[figure.x]))
    for policy, (label, colour, marker, dashes) in STYLES.items():
        own = points(rows[rows["policy"] == policy], figure)
        if own.empty:
            continue
        y = own["centre"].to_numpy()
        spread = np.abs(np.stack([y - own["low"], own["high"] - y]))
        ax.errorbar(
            own["x"],
            y,
            yerr=spread,
            label=label,
            color=colour,
            marker=marker,
            linestyle=dashes,
            markersize=4,
            linewidth=1.1,
            elinewidth=0.8,
            capsize=2,
            markerfacecolor="none",
        )
    if figure.measure == "pulls":
        bounds = [centre(rows[(rows[figure.x] == x) & (rows["policy"] == "naive")], "bound", figure) for x in xs]
        ax.plot(xs, bounds, color="#666666", linestyle=":", linewidth=1.2, label=_BOUND)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(numticks=8))
    if figure.x != "alpha":
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
    # Labels closer than this on a log axis would run into each other; the last one stays.
    spaced = [x for x, after in zip(xs, [*xs[1:], np.inf], strict=True) if figure.x == "alpha" or after > 1.3 * x]
    ax.xaxis.set_major_locator(FixedLocator(spaced))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.tick_params(labelsize=7)
    ax.set_xlabel(LABELS[figure.x], fontsize=8)
    ax.grid(True, which="major", linewidth=0.3, color="#CCCCCC")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
