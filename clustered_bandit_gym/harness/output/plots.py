"""Pictures of a board: pulls against a swept setting, and pulls against communication.

Lines connect points that differ in the swept setting alone; every combination of other varied
settings has a panel of its own. A policy looks the same in every picture (`output.style`). A hollow
mark has unfinished trials, a crossed-out one is a FAIL. Figures are made without pyplot: no window
and no global state is touched.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from clustered_bandit_gym._types import FilePath, Floats, Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import check_choice
from clustered_bandit_gym.harness.output.layout import Measure, axis_name, measure_of, panels_of
from clustered_bandit_gym.harness.output.style import INK, styles_of
from clustered_bandit_gym.harness.scoring.summary import swept_setting

#: Colour of the cross of a FAIL.
_FAIL = "#b3261e"
_LOOK: dict[Any, Any] = {
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
}


class Picture(Figure):
    """A figure that a notebook shows by itself; Matplotlib's own needs pyplot for that."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def plot_board(
    summary: pd.DataFrame,
    varied: list[str],
    title: str,
    x: str | None = None,
    *,
    panel: str | None = None,
    paper: bool = False,
    width: float | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Pulls beside the trade-off with communication; pulls alone where several panels are needed.
    Pulls are drawn against the varied setting `x`, whose values are numbers (default: the one with
    most values). Where there is none, policies are drawn side by side. `panel`, `paper`, `width`
    and `labels` are as for `Board.plot`; `paper` draws "pulls" unless `panel` says otherwise."""
    x = swept_setting(summary, varied, x)
    summary = summary.assign(look=summary["policy"].map(styles_of(summary["policy"], labels)))
    parts = panels_of(summary, varied, x)
    if len(parts) > 12:
        raise UserError(f"{len(parts)} panels are more than 12; sweep another setting (x, --x)")
    kinds = [panel or "pulls"]
    if panel is None and not paper and len(parts) == 1:
        kinds.append("tradeoff")
    shown = [(kind, *part) for kind in kinds for part in parts]
    columns = min(len(shown), 3)
    rows = -(-len(shown) // columns)
    width = 5.6 * columns if width is None else width
    if not width > 0:
        raise UserError(f"the width of a picture must be positive, in inches; got {width}")
    size = (width, (0.68 * width / columns + 0.7) * rows)
    with rc_context(_LOOK | {"font.size": 7 if paper else 9}):
        figure = Picture(figsize=size, dpi=120, layout="constrained")
        for place, (kind, name, part) in enumerate(shown):
            shared = figure.axes[0] if place and len(kinds) == 1 else None
            ax = figure.add_subplot(rows, columns, place + 1, sharey=shared)
            ax.set_title(name)
            measure = measure_of(summary, kind)
            # What bars are is for a paper's caption to say.
            text = f"{measure.name} ({measure.short if paper else measure.words})"
            ax.set_ylabel(textwrap.fill(text, int(8 * width / columns)))
            _draw(ax, part, x, measure, measure_of(summary) if kind == "tradeoff" else None)
        for axis in figure.findobj(Axis):
            _mark_narrow(axis)
        if not paper:
            # Environments by their short names: PaperSmall for ClusteredBAI-PaperSmall-v0.
            short = re.sub(r"ClusteredBAI-|-?\bv\d+\b", "", title).strip()
            figure.suptitle(textwrap.fill(short, round(13 * width)), size=10)
        _add_legend(figure, summary)
    return figure


def save(figure: Figure, path: FilePath) -> None:
    """Write a figure; the suffix decides the format."""
    path = Path(path)
    check_choice("the suffix of a picture", path.suffix.lower(), (".png", ".pdf", ".svg"))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Type 42 (TrueType): conferences refuse Matplotlib's default, Type 3.
    with rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
        figure.savefig(path)


def _draw(
    ax: Axes, rows: pd.DataFrame, x: str | None, measure: Measure, against: Measure | None
) -> None:
    """A mark per policy and value of `x`, joined along `x`: against `x` itself or another measure.
    Policies stand side by side where there is neither."""
    ax.set_yscale("log")
    at = x or "place"
    rows = rows.assign(place=range(len(rows))).sort_values(at)
    if against is not None:
        at = against.centre
        rows = rows[rows[at] > 0]
        ax.set_xscale("log")
        label = f"{against.name} ({against.short})"
        if x is not None:
            label += f"; each line: {axis_name(x)} from {rows[x].min():g} to {rows[x].max():g}"
        ax.set_xlabel(label)
    elif x is None:
        ax.set_xticks([])
    else:
        _mark_values(ax, x, np.unique(rows[x].astype(float)))
    _draw_marks(ax, rows, at, measure, joined=x is not None)
    if measure.name == "pulls" and rows["bound_median"].notna().any():
        bound = rows.groupby(at)["bound_median"].median()
        look: Values = {"color": INK, "ls": ":", "lw": 1.2, "label": "lower bound"}
        if x is None:
            ax.axhline(bound.median(), **look)
        else:
            ax.plot(bound.index, bound, **look)


def _mark_values(ax: Axes, x: str, values: Floats) -> None:
    """The axis of a swept setting, with a tick at each of a few values."""
    ax.set_xlabel(axis_name(x))
    at = values
    if values[0] > 0 and values[-1] >= 3 * values[0]:
        ax.set_xscale("log")
        at = np.log(values)
    if len(values) <= 8:
        # A label too close to the one before it is left out.
        room = np.diff(at, prepend=-np.inf) > 0.07 * (at[-1] - at[0])
        ax.set_xticks(values, np.where(room, [f"{value:g}" for value in values], ""))
        ax.set_xticks([], minor=True)


def _mark_narrow(axis: Axis) -> None:
    """Ticks of a log axis of less than two decades, on which powers of ten are too few."""
    low, high = axis.get_view_interval()
    marked = isinstance(axis.get_major_locator(), FixedLocator)
    if axis.get_scale() == "log" and not marked and high < 100 * low:
        even = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
        axis.set_major_locator(even if high < 10 * low else LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(_tick)
        axis.set_minor_locator(NullLocator())


def _tick(value: float, _: object) -> str:
    """In the format of boards, without zeros at the end: 20,000 and 1.5e5."""
    return f"{value:,g}" if value < 1e5 else re.sub(r"\.?0*e\+0?", "e", f"{value:.5e}")


def _draw_marks(ax: Axes, rows: pd.DataFrame, x: str, measure: Measure, *, joined: bool) -> None:
    """The marks of `measure` at the column `x`, with their bars; those of a policy may be joined
    by a line."""
    y = measure.centre
    rows = rows[rows[y] > 0]
    lowest = rows[y].min() / 2  # ends bars that reach zero
    policies = list(rows.groupby("policy", sort=False))
    # Later marks are smaller, so that equal ones beneath them can be seen. A diamond is wider than
    # a circle of its size.
    for size, (_, own) in zip(np.linspace(9, 5, len(policies)), policies, strict=True):
        look = own["look"].iloc[0]
        size *= 0.65 if look.marker == "D" else 1
        if joined:
            ax.plot(own[x], own[y], color=look.colour, ls=look.dashes, lw=1.2)
        finished = own["unfinished"] == 0
        for face, part in ((look.colour, own[finished]), ("white", own[~finished])):
            ax.plot(part[x], part[y], look.marker, color=look.colour, mfc=face, ms=size, zorder=4)
        failed = own[own["verdict"] == "FAIL"]
        ax.plot(failed[x], failed[y], "x", color=_FAIL, ms=11, mew=2, zorder=5)
        if measure.low:
            # The centre of unfinished trials is a lower bound: no bar.
            bars = own[finished & (own[measure.high] > 0)]
            low = bars[measure.low].clip(lower=lowest)
            ax.vlines(bars[x], low, bars[measure.high], color=look.colour, lw=1.6)


def _add_legend(figure: Figure, summary: pd.DataFrame) -> None:
    """An entry per policy, with FAIL and unfinished trials in words, and what hollow and
    crossed-out marks mean, where there are any."""
    ax = figure.axes[0]
    for _, own in summary.groupby("policy", sort=False):
        look = own["look"].iloc[0]
        label, face, unfinished = look.label, look.colour, own["unfinished"].sum()
        if (own["verdict"] == "FAIL").any():
            label += ", FAIL"
        if (own["pulls_mean"] == 0).any():
            label += ", zero pulls (not on a log axis)"
        if unfinished:
            label += f", {unfinished:,} of {own['trials'].sum():,} unfinished"
            face = "white"
        ax.plot([], [], look.marker, color=look.colour, ls=look.dashes, mfc=face, label=label)
    if summary["unfinished"].any():
        ax.plot([], [], "o", color=INK, mfc="white", label="hollow: some trials unfinished")
    if (summary["verdict"] == "FAIL").any():
        ax.plot([], [], "x", color=_FAIL, mew=2, label="crossed out: FAIL")
    entries, labels = ax.get_legend_handles_labels()
    entries.sort(key=lambda line: line.get_label() == "lower bound")  # it comes last
    longest = max(map(len, labels))
    columns = int(figure.get_figwidth() * 130 / rcParams["font.size"] // (7 + longest)) or 1
    # Room for more than two lines of entries, which would shrink the axes.
    lines = -(-len(labels) // columns)
    more = max(0, lines - 2) * 1.6 * rcParams["font.size"] / 72
    figure.set_figheight(figure.get_figheight() + more)
    figure.legend(
        handles=entries, loc="outside lower center", ncols=columns, frameon=False, handlelength=3
    )
