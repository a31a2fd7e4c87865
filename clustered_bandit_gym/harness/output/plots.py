"""Pictures of a board: pulls against what was swept, pulls of every trial, and the trade-off between pulls and
communication. Figures are made without pyplot, so that no window or global state is touched.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogFormatterSciNotation, LogLocator, NullFormatter

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.tables import setting
from clustered_bandit_gym.harness.scoring.summary import cell_labels

if TYPE_CHECKING:
    from clustered_bandit_gym.harness.output.board import Board

#: Okabe and Ito's colours, distinct for colour-blind readers; yellow is left out, since it fades on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_SYMBOLS = {"n_agents": "agents N", "n_arms": "arms K", "n_clusters": "clusters M", "delta": "δ", "eta": "η"}
_MAX_PANELS = 6


def plot_board(board: Board, path: str | Path | None = None) -> Figure:
    """The picture that suits the board: for a sweep over numbers, pulls against them; else the pulls of every trial.
    Beside it the trade-off between pulls and communication."""
    if not len(board.trials):
        raise UserError("there is nothing to plot: no trials")
    swept = numeric_settings(board)
    others = [name for name in board.varied if swept and name != swept[0]]
    if swept and others:
        return plot_sweep(board, swept[0], path)
    figure = _figure(2)
    left, right = figure.subplots(1, 2)
    if swept:
        _lines(left, board.summary, swept[0], _styles(board))
    else:
        _strips(left, board)
    _scatter(right, board.summary, _styles(board), swept[0] if swept else None)
    return _finish(figure, board.title, path)


def plot_sweep(board: Board, x: str | None = None, path: str | Path | None = None) -> Figure:
    """Mean pulls with their 95% intervals against the setting `x`, on log axes; a panel for each combination of
    whatever else was varied. Hollow marks: some trials are unfinished, the true mean is higher."""
    swept = numeric_settings(board)
    x = x or (swept[0] if swept else None)
    if x is None or x not in swept:
        raise UserError(f"nothing to plot against: the board varies {', '.join(board.varied) or 'nothing'}")
    others = [name for name in board.varied if name != x]
    summary = board.summary
    keys = (
        summary[others].map(lambda value: json.dumps(value, sort_keys=True)).agg(" ".join, axis=1) if others else None
    )
    panels = list(summary.groupby(keys, sort=False)) if keys is not None else [("", summary)]
    if len(panels) > _MAX_PANELS:
        raise UserError(
            f"{len(panels)} combinations of {', '.join(others)} are too many panels; plot a part of the trials"
        )
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = _figure(columns, rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for ax, (_, part) in zip(axes, panels, strict=False):
        _lines(ax, part, x, _styles(board))
        if others:
            ax.set_title(", ".join(f"{_name(name)} = {setting(part[name].iloc[0])}" for name in others), fontsize=9)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    return _finish(figure, board.title, path)


def plot_tradeoff(board: Board, path: str | Path | None = None) -> Figure:
    """Mean communication cost against mean pulls, a mark per policy; in a sweep a policy's marks are joined."""
    figure = _figure(1)
    swept = numeric_settings(board)
    _scatter(figure.subplots(), board.summary, _styles(board), swept[0] if swept else None)
    return _finish(figure, board.title, path)


def numeric_settings(board: Board) -> list[str]:
    """The varied settings whose values are all numbers."""
    return [
        name
        for name in board.varied
        if all(
            isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in board.summary[name]
        )
        and board.summary[name].notna().all()
    ]


# --- panels ----------------------------------------------------------------------------------------------------------


def _lines(ax: Axes, summary: pd.DataFrame, x: str, styles: dict[str, tuple[str, str]]) -> None:
    ends = []
    for policy, own in summary.groupby("policy", sort=False):
        own = own.sort_values(x)
        colour, marker = styles[str(policy)]
        at, mean = own[x].to_numpy(dtype=float), own["pulls_mean"].to_numpy(dtype=float)
        if not (mean > 0).all():
            continue
        low = np.maximum(own["pulls_low"].fillna(own["pulls_mean"]).to_numpy(dtype=float), mean * 1e-2)
        high = own["pulls_high"].fillna(own["pulls_mean"]).to_numpy(dtype=float)
        ax.errorbar(at, mean, yerr=[mean - low, high - mean], color=colour, lw=1.5, capsize=2.5, zorder=2)
        cut = own["unfinished"].to_numpy() > 0
        for chosen, face in ((~cut, colour), (cut, "white")):
            ax.plot(at[chosen], mean[chosen], marker, color=colour, markerfacecolor=face, ms=6, zorder=3)
        ends.append((at[-1], mean[-1], str(policy), colour))
    ax.set_xscale("log")
    ax.set_yscale("log")
    values = sorted(set(summary[x].astype(float)))
    if len(values) <= 8:
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.set_xticks([], minor=True)
    ax.set_xlabel(_name(x))
    cut_any = bool((summary["unfinished"] > 0).any())
    ax.set_ylabel("pulls (mean, 95% interval" + ("; hollow: at least)" if cut_any else ")"))
    _label_ends(ax, ends)


def _strips(ax: Axes, board: Board) -> None:
    """Every trial a dot, the mean and its interval above them; policies from top to bottom."""
    summary, styles = board.summary, _styles(board)
    several = bool(board.varied)
    names = []
    rng = np.random.default_rng(0)  # only shifts dots so that they do not hide each other
    cells = cell_labels(board.trials)[0]
    groups = board.trials.groupby([cells, "policy"], sort=False)  # the order of the summary's rows
    for place, ((_, policy), own) in enumerate(groups):
        colour, marker = styles[str(policy)]
        pulls = own["pulls"].to_numpy(dtype=float)
        shown = pulls[pulls > 0]
        ax.plot(shown, place + rng.uniform(-0.28, 0.28, shown.size), ".", color=colour, alpha=0.35, ms=4, zorder=1)
        row = summary.iloc[place]
        if row["pulls_mean"] > 0:
            low = max(row["pulls_low"], row["pulls_mean"] * 1e-2) if pd.notna(row["pulls_low"]) else row["pulls_mean"]
            high = row["pulls_high"] if pd.notna(row["pulls_high"]) else row["pulls_mean"]
            ax.plot([low, high], [place, place], color="black", lw=1.5, zorder=3)
            face = "white" if row["unfinished"] else colour
            ax.plot(row["pulls_mean"], place, marker, color="black", markerfacecolor=face, ms=7, zorder=4)
        where = ", ".join(setting(row[name]) for name in board.varied)
        names.append(f"{policy} ({where})" if several else str(policy))
    ax.set_xscale("log")
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("pulls (dots: trials; mark: mean, 95% interval)")


def _scatter(ax: Axes, summary: pd.DataFrame, styles: dict[str, tuple[str, str]], x: str | None) -> None:
    ends = []
    for policy, own in summary.groupby("policy", sort=False):
        own = own.sort_values(x) if x is not None else own
        own = own[(own["pulls_mean"] > 0) & (own["cost_mean"] > 0)]
        if own.empty:
            continue
        colour, marker = styles[str(policy)]
        pulls, cost = own["pulls_mean"].to_numpy(dtype=float), own["cost_mean"].to_numpy(dtype=float)
        ax.plot(pulls, cost, marker, ls="-" if x is not None else "", lw=0.8, color=colour, ms=7)
        right = int(pulls.argmax())
        ends.append((pulls[right], cost[right], str(policy), colour))
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("pulls (mean)")
    ax.set_ylabel("communication cost (mean)")
    _label_ends(ax, ends)
    if x is not None:
        ax.set_title(f"each line: {_name(x)} from {summary[x].min():g} to {summary[x].max():g}", fontsize=9)


def _label_ends(ax: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Names beside the points (x, y), moved apart vertically so that none covers another."""
    if not ends:
        return
    ax.margins(x=0.08, y=0.12)
    ax.autoscale_view()
    (x_low, x_high), (y_low, y_high) = np.log10(ax.get_xlim()), np.log10(ax.get_ylim())
    longest = max(len(name) for _, _, name, _ in ends)
    ax.set_xlim(right=10 ** (x_high + (x_high - x_low) * min(0.6, 0.028 * longest)))
    gap = 0.055 * (y_high - y_low)
    previous = -np.inf
    for x, y, name, colour in sorted(ends, key=lambda end: end[1]):
        height = max(float(np.log10(y)), previous + gap)
        previous = height
        ax.annotate(
            name,
            (x, y),
            xytext=(8, (height - np.log10(y)) / (y_high - y_low) * ax.bbox.height * 72 / ax.get_figure().dpi),  # type: ignore[union-attr]
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=colour,
        )


# --- common ----------------------------------------------------------------------------------------------------------


def _styles(board: Board) -> dict[str, tuple[str, str]]:
    names = list(dict.fromkeys(board.trials["policy"]))
    return {str(name): (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)}


def _name(name: str) -> str:
    return _SYMBOLS.get(name, name)


class Picture(Figure):
    """A figure that a notebook shows by itself; matplotlib's own needs pyplot for that."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def _figure(columns: int, rows: int = 1) -> Figure:
    figure = Picture(figsize=(5.4 * columns + 0.4, 4.0 * rows + 0.4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _log_ticks(axis: Axis) -> None:
    """Labels at powers of ten, and at 2 and 5 where those are few; the automatic ones run into each other."""
    low, high = np.log10(axis.get_view_interval())
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high - low < 1.6 else (1.0,), numticks=12))
    axis.set_major_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(np.inf, np.inf)))
    axis.set_minor_formatter(NullFormatter())


def _finish(figure: Figure, title: str, path: str | Path | None) -> Figure:
    figure.suptitle(title, fontsize=10)
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, which="major", color="#dddddd", lw=0.6, zorder=0)
        ax.set_axisbelow(True)
        for axis in (ax.xaxis, ax.yaxis):
            if axis.get_scale() == "log" and not isinstance(axis.get_major_locator(), FixedLocator):
                _log_ticks(axis)
    if path is not None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        kinds: Any = figure.canvas.get_supported_filetypes()
        if target.suffix[1:].lower() not in kinds:
            raise UserError(f"cannot write a picture to {target.name!r}; use one of {', '.join(sorted(kinds))}")
        figure.savefig(target)
    return figure
