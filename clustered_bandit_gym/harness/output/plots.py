"""Pictures of a board: pulls against a swept setting, pulls of every trial, and pulls against
communication.

Lines connect points that differ in the swept setting alone; every combination of other varied
settings has a panel of its own. A policy looks the same in every picture (`output.style`). A hollow
mark has unfinished trials, a crossed-out one is a FAIL. Figures are made without pyplot: no window
and no global state is touched.
"""

from __future__ import annotations

import io
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.layout import Measure, axis_name, measure_of, panels_of
from clustered_bandit_gym.harness.output.style import INK, style_of
from clustered_bandit_gym.harness.output.tables import setting
from clustered_bandit_gym.harness.scoring.summary import cells_of, swept_setting

#: Colour of the cross of a FAIL.
_FAIL = "#b3261e"


def plot_board(
    trials: pd.DataFrame,
    summary: pd.DataFrame,
    varied: list[str],
    title: str,
    x: str | None = None,
    *,
    panel: str | None = None,
    paper: bool = False,
    width: float | None = None,
) -> Figure:
    """Pulls beside the trade-off with communication; pulls alone where several panels are needed.

    Args:
        trials, summary, varied, title: of the board.
        x: pulls are drawn against this varied setting, whose values are numbers (default: the one
            with most values). Where there is none, every trial is drawn.
        panel: "pulls", "communication", "busiest" or "tradeoff": one kind of panel only.
        paper: small type and no title, for a figure with a caption; "pulls" unless `panel` says
            otherwise.
        width: inches, e.g. 3.25 for a column of ICML.
    """
    if not len(trials):
        raise UserError("there is nothing to plot: no trials")
    x = swept_setting(summary, varied, x)
    parts = panels_of(summary, varied, x)
    if len(parts) > 12:
        raise UserError(f"{len(parts)} panels are more than 12; sweep another setting (x, --x)")
    kinds = [panel or "pulls"]
    if panel is None and not paper and len(parts) == 1:
        kinds = ["pulls", "tradeoff"]
    shown = []
    for kind in kinds:
        every_trial = x is None and kind != "tradeoff"
        shown += [(kind, "", summary)] if every_trial else [(kind, *part) for part in parts]
    with rc_context({"font.size": 7 if paper else 9, "axes.titlesize": "medium"}):
        figure, axes = _grid(len(shown), shared=len(kinds) == 1)
        for ax, (kind, name, part) in zip(axes, shown, strict=True):
            measure = measure_of(summary, kind)
            if paper:  # what bars are is for the caption to say
                measure = measure._replace(words=measure.words.partition(";")[0])
            if kind == "tradeoff":
                name = "\n".join(filter(None, [name, _draw_tradeoff(ax, part, x, measure)]))
            elif x is None:
                _draw_trials(ax, trials, summary, varied, measure)
            else:
                _draw_sweep(ax, part, x, measure)
            ax.set_title(name)
            spec = ax.get_subplotspec()
            if len(kinds) == 1 and spec is not None and not spec.is_first_col():
                ax.set_ylabel("")
        if not paper:
            columns = round(13 * (width or figure.get_figwidth()))
            figure.suptitle(textwrap.fill(short_title(title), columns), size=10)
        _finish(figure, summary, width)
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure; the suffix decides the format."""
    path = Path(path)
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise UserError(f"cannot write a picture to {path.name!r}; use .png, .pdf or .svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Type 42 (TrueType): conferences refuse Matplotlib's default, Type 3.
    with rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
        figure.savefig(path)


# --- what is drawn -------------------------------------------------------------------------------


def _draw_lines(
    ax: Axes, rows: pd.DataFrame, x: str, y: str, order: str | None, ends: tuple[str, ...] = ()
) -> None:
    """A mark per row of the summary at the columns `x` and `y`, with bars between the columns
    `ends`; marks of a policy are joined in the order of `order`."""
    rows = rows[rows[y] > 0]
    for policy, own in rows.groupby("policy", sort=False):
        own = own if order is None else own.sort_values(order)
        look = style_of(str(policy))
        at = own[x].to_numpy(dtype=float)
        height = own[y].to_numpy(dtype=float)
        spread = None
        if ends:
            low, high = (own[end].to_numpy(dtype=float) for end in ends)
            low = np.maximum(low, rows[y].min() / 2)  # a bar that reaches zero ends here
            spread = np.stack([height - low, high - height])
            spread[:, own["unfinished"] > 0] = np.nan  # the centre is a lower bound: no bar
        dashes = "none" if order is None else look.dashes
        ax.errorbar(at, height, spread, color=look.colour, ls=dashes, lw=1.2, capsize=2.5)
        draw_marks(ax, at, height, own, 6)


def _draw_sweep(ax: Axes, summary: pd.DataFrame, x: str, measure: Measure) -> None:
    """A line per policy, with an interval at each mark."""
    ax.set_yscale("log")
    ends = (measure.low, measure.high) if measure.low else ()
    _draw_lines(ax, summary, x, measure.centre, x, ends)
    values = sorted(set(summary[x].astype(float)))
    if values[0] > 0 and values[-1] >= 3 * values[0]:
        ax.set_xscale("log")
    if len(values) <= 8:
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.set_xticks([], minor=True)
    ax.set_xlabel(axis_name(x))
    ax.set_ylabel(f"{measure.name} ({measure.words})")
    bound = summary.groupby(x)["bound_median"].median().dropna()
    if measure.row == "pulls" and len(bound):
        ax.plot(bound.index, bound, color=INK, ls=":", lw=1.2, zorder=1, label="lower bound")


def _draw_trials(
    ax: Axes, trials: pd.DataFrame, summary: pd.DataFrame, varied: list[str], measure: Measure
) -> None:
    """Every trial a dot, wrong and unfinished ones crosses; above them the centre and its interval."""
    ax.set_xscale("log")
    rng = np.random.default_rng(0)  # only shifts dots so that they do not hide each other
    groups = trials.groupby([cells_of(trials)[0], "policy"], sort=False)
    names = []
    for place, (_, own) in enumerate(groups):
        row = summary.iloc[[place]]  # in the same order
        look = style_of(row["policy"].iloc[0])
        shown = own[own[measure.row] > 0]
        height = place + rng.uniform(-0.28, 0.28, len(shown))
        solved = (shown["outcome"] == "solved").to_numpy()
        for chosen, mark in ((solved, "."), (~solved, "x")):
            at = shown[measure.row][chosen]
            ax.plot(at, height[chosen], mark, color=look.colour, alpha=0.4, ms=4, zorder=1)
        if measure.low and not row["unfinished"].iloc[0] and len(shown):
            ends = row[[measure.low, measure.high]].to_numpy(dtype=float)[0]
            ends = np.maximum(ends, shown[measure.row].min() / 2)  # above zero
            ax.plot(ends, [place, place], color=INK, lw=1.5, zorder=3)
        draw_marks(ax, row[measure.centre].to_numpy(float), np.array([float(place)]), row, 7)
        where = ", ".join(setting(row[name].iloc[0]) for name in varied)
        names.append(textwrap.fill(f"{look.label} ({where})" if where else look.label, 30))
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel(f"{measure.name} (dots: trials; mark: {measure.words})")
    bound = summary["bound_median"].median()
    if measure.row == "pulls" and not varied and bound > 0:
        ax.axvline(bound, color=INK, ls=":", lw=1.2, zorder=1, label="lower bound")


def _draw_tradeoff(ax: Axes, summary: pd.DataFrame, x: str | None, measure: Measure) -> str:
    """Communication against pulls, a mark per policy and value of `x`, joined along `x`.

    Returns what the lines are.
    """
    _draw_lines(ax, summary[summary[measure.centre] > 0], measure.centre, "cost_mean", x)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(f"pulls ({measure.words.partition(';')[0]})")
    ax.set_ylabel("communication cost (mean)")
    if x is None:
        return ""
    return f"each line: {axis_name(x)} from {summary[x].min():g} to {summary[x].max():g}"


def draw_marks(ax: Axes, x: Floats, y: Floats, rows: pd.DataFrame, size: float) -> None:
    """Marks of one policy at `x`, `y` (n,): hollow with unfinished trials, crossed out at a FAIL.

    `rows` has `policy`, `unfinished` and `verdict` of each mark.
    """
    for at, height, row in zip(x, y, rows.to_dict("records"), strict=True):
        look = style_of(row["policy"])
        face = "white" if row["unfinished"] else look.colour
        ax.plot(at, height, look.marker, color=look.colour, mfc=face, ms=size, zorder=4)
        if row["verdict"] == "FAIL":
            ax.plot(at, height, "x", color=_FAIL, ms=1.9 * size, mew=2, zorder=5)


def legend_entries(rows: pd.DataFrame) -> list[Line2D]:
    """An entry per policy of these rows (`policy`, `trials`, `unfinished`, `verdict`), FAIL and
    unfinished trials in words, and what hollow and crossed-out marks mean, where there are any."""
    entries = []
    for policy, own in rows.groupby("policy", sort=False):
        look = style_of(str(policy))
        label = look.label
        failed = int((own["verdict"] == "FAIL").sum())
        unfinished = int(own["unfinished"].sum())
        if failed:
            label += ", FAIL" if failed == len(own) else f", FAIL at {failed} of {len(own)}"
        if "pulls_mean" in own and (own["pulls_mean"] == 0).any():
            label += ", zero pulls (not on a log axis)"
        if unfinished:
            label += f", {unfinished:,} of {own['trials'].sum():,} unfinished"
        face = "white" if unfinished else look.colour
        entries.append(_entry(look.colour, look.marker, label, ls=look.dashes, mfc=face))
    if (rows["unfinished"] > 0).any():
        entries.append(_entry(INK, "o", "hollow: some trials unfinished", mfc="white"))
    if (rows["verdict"] == "FAIL").any():
        entries.append(_entry(_FAIL, "x", "crossed out: FAIL", mew=2))
    return entries


def _entry(colour: str, marker: str, label: str, **look: Any) -> Line2D:
    return Line2D([], [], **{"color": colour, "marker": marker, "label": label, "ls": ""} | look)


# --- common --------------------------------------------------------------------------------------


class Picture(Figure):
    """A figure that a notebook shows by itself; Matplotlib's own needs pyplot for that."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def _grid(panels: int, shared: bool) -> tuple[Figure, list[Axes]]:
    """A figure with this many axes, at most three in a row; `shared`: the vertical axis is."""
    columns = min(panels, 3)
    rows = -(-panels // columns)
    size = (5.4 * columns + 0.4, 4.0 * rows + 1.0)
    figure = Picture(figsize=size, dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=shared).ravel())
    for ax in axes[panels:]:
        ax.remove()
    return figure, axes[:panels]


def _finish(figure: Figure, summary: pd.DataFrame, width: float | None) -> None:
    """Size, legend and axes."""
    if width is not None:
        height = figure.get_figheight() / figure.get_figwidth() * width
        figure.set_size_inches(width, max(height, 0.85 * width))
    entries = legend_entries(summary)
    entries += [line for line in figure.axes[0].lines if line.get_label() == "lower bound"]
    longest = max(len(str(entry.get_label())) for entry in entries)
    columns = int(figure.get_figwidth() * 110 / rcParams["font.size"] // (7 + longest))
    columns = min(max(1, columns), len(entries))
    figure.legend(handles=entries, loc="outside lower center", ncols=columns, frameon=False)
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, which="major", color="#dddddd", lw=0.6, zorder=0)
        ax.set_axisbelow(True)
        ax.tick_params(labelsize=rcParams["font.size"])


def short_title(title: str) -> str:
    """`title` with environments by their short names: "PaperSmall" for ClusteredBAI-PaperSmall-v0."""
    return re.sub(r"ClusteredBAI-(?:([A-Za-z]+)-)?v\d+", r"\1", title).strip()
