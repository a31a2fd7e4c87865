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
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWN, CARETLEFT
from matplotlib.ticker import FixedLocator, LogFormatterSciNotation, LogLocator, NullFormatter

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output import style
from clustered_bandit_gym.harness.output.marks import draw_marks, legend_entry, meanings
from clustered_bandit_gym.harness.output.panels import (
    Measure,
    axis_name,
    measure_of,
    panel_measure,
    panels_of,
)
from clustered_bandit_gym.harness.output.tables import setting
from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.harness.scoring.summary import cells_of, swept_setting


class Scored(Protocol):
    """What a plot needs of a board: a row per trial, a row per policy and setting, and the settings
    that vary.
    """

    trials: pd.DataFrame

    @property
    def summary(self) -> pd.DataFrame: ...

    @property
    def varied(self) -> list[str]: ...

    @property
    def title(self) -> str: ...


#: More panels than this do not fit a page.
MAX_PANELS = 12
#: What the legend says of the dotted line.
BOUND = "lower bound"
#: File types that a picture can be written as, those for everyday use first.
COMMON = ("png", "pdf", "svg")
SUFFIXES = (*COMMON, *sorted(set(FigureCanvasAgg.get_supported_filetypes()) - set(COMMON)))


def check_suffix(path: str | Path) -> None:
    """Refuse a file name that no picture can be written to. Call it before trials are played."""
    if Path(path).suffix[1:].lower() not in SUFFIXES:
        raise UserError(
            f"cannot write a picture to {Path(path).name!r}; use .png, .pdf or .svg, or another "
            "format of Matplotlib: "
            f".{', .'.join(SUFFIXES[len(COMMON) :])}"
        )


def plot_board(
    board: Scored,
    path: str | Path | None = None,
    x: str | None = None,
    *,
    panel: str | None = None,
    paper: bool = False,
    width: float | None = None,
) -> Figure:
    """Pulls beside the trade-off with communication; pulls alone where several panels are needed.

    Args:
        path: where to write it; the suffix decides the format.
        x: pulls are drawn against this varied setting, whose values are numbers (default: the one
            with most values). Where there is none, every trial is drawn.
        panel: "pulls", "communication" or "busiest": one panel only.
        paper: small type and no title, for a figure with a caption; "pulls" unless `panel` says
            otherwise.
        width: inches, e.g. 3.25 for a column of ICML.
    """
    _check(board)
    x = swept_setting(board.summary, board.varied, x)
    if panel is None and not paper:
        return _finish(_both_panels(board, x), board, path, width)
    measure = panel_measure(board.summary, panel or "pulls")
    panels = _panels(board, x)
    figure, axes = _grid(len(panels) if x is not None else 1)
    if x is None:
        _strips(axes[0], board, measure)
    else:
        for ax, (title, part) in zip(axes, panels, strict=True):
            _lines(ax, part, x, measure, _floor(board.summary, measure))
            ax.set_title(title, fontsize=9)
    return _finish(figure, board, path, width, paper)


def _both_panels(board: Scored, x: str | None) -> Figure:
    """Pulls, and the trade-off where one panel of each is enough."""
    panels = _panels(board, x)
    measure = measure_of(board.summary)
    floor = _floor(board.summary, measure)
    if len(panels) > 1:
        figure, axes = _grid(len(panels) if x is not None else 1)
    else:
        figure = _figure(2)
        axes = list(figure.subplots(1, 2))
    if x is None:
        _strips(axes[0], board, measure)
    elif len(panels) > 1:
        _sweep_panels(axes, panels, x, measure, floor)
    else:
        _lines(axes[0], board.summary, x, measure, floor)
    if len(panels) == 1:
        _scatter(axes[1], board.summary, x, measure)
    return figure


def plot_sweep(board: Scored, x: str | None = None, path: str | Path | None = None) -> Figure:
    """Pulls with their intervals against the setting `x`; one panel for each combination of other
    varied settings.
    """
    _check(board)
    x = swept_setting(board.summary, board.varied, x)
    if x is None:
        raise UserError(
            f"nothing to plot against: the board varies {', '.join(board.varied) or 'nothing'}"
        )
    panels = _panels(board, x)
    figure, axes = _grid(len(panels))
    measure = measure_of(board.summary)
    _sweep_panels(axes, panels, x, measure, _floor(board.summary, measure))
    return _finish(figure, board, path)


def _sweep_panels(
    axes: Sequence[Axes],
    panels: list[tuple[str, pd.DataFrame]],
    x: str,
    measure: Measure,
    floor: float,
) -> None:
    for ax, (title, part) in zip(axes, panels, strict=True):
        _lines(ax, part, x, measure, floor)
        ax.set_title(title, fontsize=9)
        if not ax.get_subplotspec().is_first_col():  # type: ignore[union-attr]
            ax.set_ylabel("")


def plot_tradeoff(board: Scored, path: str | Path | None = None, x: str | None = None) -> Figure:
    """Communication against pulls, a mark per policy and value of `x`, joined along `x`; panels as
    in `plot_sweep`.
    """
    _check(board)
    x = swept_setting(board.summary, board.varied, x)
    panels = _panels(board, x)
    figure, axes = _grid(len(panels))
    for ax, (title, part) in zip(axes, panels, strict=True):
        _scatter(ax, part, x, measure_of(board.summary))
        ax.set_title("\n".join(filter(None, [title, ax.get_title()])), fontsize=9)
        if not ax.get_subplotspec().is_first_col():  # type: ignore[union-attr]
            ax.set_ylabel("")
    return _finish(figure, board, path)


# --- what is drawn ---------------------------------------------------------------------------------------------------


def _check(board: Scored) -> None:
    if not len(board.trials):
        raise UserError("there is nothing to plot: no trials")


def _panels(board: Scored, x: str | None) -> list[tuple[str, pd.DataFrame]]:
    panels = panels_of(board.summary, board.varied, x)
    if len(panels) > MAX_PANELS:
        raise UserError(
            f"{len(panels)} combinations of settings are more than {MAX_PANELS} panels; sweep "
            "another setting along the"
            " axis (x, --x), or plot a part of the trials"
        )
    return panels


def _floor(summary: pd.DataFrame, measure: Measure) -> float:
    """Where bars end that reach down to zero: below all that is drawn on the log axis."""
    columns = [name for name in (measure.centre, measure.low) if name is not None]
    values = summary[columns].to_numpy(dtype=float)
    return float(values[values > 0].min(initial=np.inf)) / 1.5 if (values > 0).any() else 1.0


def _ends(
    own: pd.DataFrame, measure: Measure, floor: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends of the bars, and which reach zero.

    No bar where there is no interval or the centre is a lower bound.
    """
    centre = own[measure.centre].to_numpy(dtype=float)
    if measure.low is None or measure.high is None:
        return centre, centre, np.zeros(centre.shape, dtype=bool)
    missing = own[measure.low].isna().to_numpy() | (own["unfinished"] > 0).to_numpy()
    low = np.where(missing, centre, own[measure.low].to_numpy(dtype=float))
    high = np.where(missing, centre, own[measure.high].to_numpy(dtype=float))
    open_ended = low <= 0
    return np.where(open_ended, floor, low), high, open_ended


def _lines(ax: Axes, summary: pd.DataFrame, x: str, measure: Measure, floor: float) -> None:
    for policy, own in summary[summary[measure.centre] > 0].groupby("policy", sort=False):
        own = own.sort_values(x)
        look = style.style_of(str(policy))
        at, centre = own[x].to_numpy(dtype=float), own[measure.centre].to_numpy(dtype=float)
        low, high, open_ended = _ends(own, measure, floor)
        spread = np.stack([centre - low, high - centre])
        ax.errorbar(
            at,
            centre,
            yerr=spread,
            color=look.colour,
            ls=look.dashes,
            lw=1.5,
            capsize=2.5,
            zorder=2,
        )
        ax.plot(
            at[open_ended],
            low[open_ended],
            marker=CARETDOWN,
            color=look.colour,
            ls="",
            ms=6,
            zorder=3,
        )
        draw_marks(ax, at, centre, own, look, look.colour, 6)
    values = sorted(set(summary[x].astype(float)))
    if values[0] > 0 and values[-1] >= 3 * values[0]:
        ax.set_xscale("log")
    ax.set_yscale("log")
    if len(values) <= 8:
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.set_xticks([], minor=True)
    ax.set_xlabel(axis_name(x))
    ax.set_ylabel(measure.label, fontsize=9)
    if measure.row == "pulls" and summary["bound_median"].notna().any():
        bound = summary.groupby(x)["bound_median"].median()
        ax.plot(bound.index, bound, color=style.INK, ls=":", lw=1.2, zorder=1, label=BOUND)


def _strips(ax: Axes, board: Scored, measure: Measure) -> None:
    """Every trial a dot, wrong and unfinished ones crosses; above them the centre and its interval."""
    summary = board.summary
    drawn = board.trials[measure.row]
    floor = min(_floor(summary, measure), float(drawn[drawn > 0].min()))
    rng = np.random.default_rng(0)  # only shifts dots so that they do not hide each other
    cells = cells_of(board.trials)[0]
    groups = board.trials.groupby([cells, "policy"], sort=False)  # the order of the summary's rows
    names = []
    for place, ((_, policy), own) in enumerate(groups):
        row = summary.iloc[[place]]
        look = style.style_of(str(policy))
        shown = own[own[measure.row] > 0]
        height = place + rng.uniform(-0.28, 0.28, len(shown))
        solved = (shown["outcome"] == "solved").to_numpy()
        for chosen, mark, size in ((solved, ".", 4), (~solved, "x", 5)):
            ax.plot(
                shown[measure.row][chosen],
                height[chosen],
                mark,
                color=look.colour,
                alpha=0.4,
                ms=size,
                ls="",
                zorder=1,
            )
        centre = float(row[measure.centre].iloc[0])
        if centre > 0:
            (low,), (high,), (open_ended,) = _ends(row, measure, floor)
            ax.plot([low, high], [place, place], color=style.INK, lw=1.5, zorder=3)
            if open_ended:
                ax.plot(low, place, marker=CARETLEFT, color=style.INK, ls="", zorder=3)
            draw_marks(ax, np.array([centre]), np.array([float(place)]), row, look, style.INK, 7)
        where = ", ".join(setting(row[name].iloc[0]) for name in board.varied)
        names.append(f"{look.label} ({where})" if where else look.label)
    ax.set_xscale("log")
    ax.set_yticks(range(len(names)), [textwrap.fill(name, 30) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel(f"{measure.name} (dots: trials; mark: {measure.words})", fontsize=9)
    bound = summary["bound_median"].median()
    if measure.row == "pulls" and not board.varied and bound > 0:
        ax.axvline(bound, color=style.INK, ls=":", lw=1.2, zorder=1, label=BOUND)


def _scatter(ax: Axes, summary: pd.DataFrame, x: str | None, measure: Measure) -> None:
    for policy, own in summary.groupby("policy", sort=False):
        own = own.sort_values(x) if x is not None else own
        own = own[(own[measure.centre] > 0) & (own["cost_mean"] > 0)]
        look = style.style_of(str(policy))
        pulls, cost = (
            own[measure.centre].to_numpy(dtype=float),
            own["cost_mean"].to_numpy(dtype=float),
        )
        if x is not None:
            ax.plot(pulls, cost, ls=look.dashes, lw=0.8, color=look.colour, zorder=2)
        draw_marks(ax, pulls, cost, own, look, look.colour, 7)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(f"pulls ({measure.words.partition(';')[0]})", fontsize=9)
    ax.set_ylabel("communication cost (mean)", fontsize=9)
    if x is not None:
        ax.set_title(
            f"each line: {axis_name(x)} from {summary[x].min():g} to {summary[x].max():g}",
            fontsize=9,
        )


# --- common ----------------------------------------------------------------------------------------------------------


class Picture(Figure):
    """A figure that a notebook shows by itself; Matplotlib's own needs pyplot for that."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def _figure(columns: int, rows: int = 1) -> Figure:
    figure = Picture(figsize=(5.4 * columns + 0.4, 4.0 * rows + 1.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _grid(panels: int) -> tuple[Figure, Sequence[Axes]]:
    """A figure with this many axes, at most three in a row, that share the vertical axis."""
    columns = min(panels, 3)
    rows = -(-panels // columns)
    figure = _figure(columns, rows)
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=True).ravel())
    for ax in axes[panels:]:
        ax.remove()
    return figure, axes[:panels]


def _log_ticks(axis: Axis) -> None:
    """Labels at powers of ten, and at 2 and 5 where those are few; the automatic ones run into each
    other.
    """
    low, high = np.log10(axis.get_view_interval())
    axis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high - low < 1.6 else (1.0,), numticks=12)
    )
    axis.set_major_formatter(
        LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(np.inf, np.inf))
    )
    axis.set_minor_formatter(NullFormatter())


def _finish(
    figure: Figure,
    board: Scored,
    path: str | Path | None,
    width: float | None = None,
    paper: bool = False,
) -> Figure:
    """Title (environment, settings, δ, trials), legend and axes; written to `path`."""
    if width is not None:
        height = figure.get_figheight() / figure.get_figwidth() * width
        figure.set_size_inches(width, max(height, 0.85 * width))
    room = figure.get_figwidth()
    if not paper:
        counts = dict.fromkeys([board.summary["trials"].min(), board.summary["trials"].max()])
        trials = " to ".join(map(number, counts))
        title = f"{short_title(board.title)}, {trials} trials per mark"
        figure.suptitle(textwrap.fill(title, round(13 * room)), fontsize=10)
    entries = [
        legend_entry(str(policy), own)
        for policy, own in board.summary.groupby("policy", sort=False)
    ]
    entries += [line for ax in figure.axes for line in ax.lines if line.get_label() == BOUND][:1]
    entries += meanings(board.summary)
    longest = max(len(str(entry.get_label())) for entry in entries)
    figure.legend(
        handles=entries,
        loc="outside lower center",
        ncols=min(max(1, int(room * (20 if paper else 11) // (7 + longest))), len(entries)),
        fontsize=7 if paper else 9,
        frameon=False,
    )
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, which="major", color="#dddddd", lw=0.6, zorder=0)
        ax.set_axisbelow(True)
        for axis in (ax.xaxis, ax.yaxis):
            if axis.get_scale() == "log" and not isinstance(axis.get_major_locator(), FixedLocator):
                _log_ticks(axis)
            if paper:
                # What bars and dots are is for the caption to say.
                words = re.sub(r";? ?(bar|dots): [^;)]*;?| mark:", "", axis.get_label_text())
                axis.set_label_text(words.replace("( ", "("))
                axis.label.set_fontsize(8)
                ax.tick_params(labelsize=7)
    if path is not None:
        check_suffix(path)
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Type 42 (TrueType): conferences refuse Matplotlib's default, Type 3.
        with rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
            figure.savefig(target)
    return figure


def short_title(title: str) -> str:
    """`title` with environments by their short names: "PaperSmall" for ClusteredBAI-PaperSmall-v0."""
    return re.sub(r"ClusteredBAI-(?:([A-Za-z]+)-)?v\d+", r"\1", title).strip()
