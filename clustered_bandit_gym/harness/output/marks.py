"""Marks and legend entries of Matplotlib pictures: hollow where trials are unfinished, crossed out
at a FAIL.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from clustered_bandit_gym.harness.output import style


def draw_marks(
    ax: Axes,
    x: np.ndarray,
    y: np.ndarray,
    rows: pd.DataFrame,
    look: style.Style,
    edge: str,
    size: float,
) -> None:
    """Marks of one policy at (x, y); `rows` has `unfinished` and `verdict` for each of them."""
    cut = (rows["unfinished"] > 0).to_numpy()
    for chosen, face in ((~cut, look.colour), (cut, "white")):
        if chosen.any():
            ax.plot(
                x[chosen],
                y[chosen],
                look.marker,
                color=edge,
                markerfacecolor=face,
                ms=size,
                ls="",
                zorder=4,
            )
    failed = (rows["verdict"] == "FAIL").to_numpy()
    if failed.any():
        ax.plot(x[failed], y[failed], "x", color=style.FAIL, ms=1.9 * size, mew=2, ls="", zorder=5)


def legend_entry(policy: str, rows: pd.DataFrame) -> Line2D:
    """The entry of a policy with these rows (`trials`, `unfinished`, `verdict`): FAIL and
    unfinished in words.
    """
    look = style.style_of(policy)
    face = "white" if (rows["unfinished"] > 0).any() else look.colour
    label = look.label + style.suffix_of(rows)
    return Line2D(
        [],
        [],
        color=look.colour,
        ls=look.dashes,
        marker=look.marker,
        ms=6,
        markerfacecolor=face,
        label=label,
    )


def meanings(rows: pd.DataFrame) -> list[Line2D]:
    """Entries that say what hollow and crossed-out marks mean, where there are any."""
    entries = []
    if (rows["unfinished"] > 0).any():
        entries.append(
            Line2D(
                [], [], color=style.INK, ls="", marker="o", mfc="white", ms=6, label=style.HOLLOW
            )
        )
    if (rows["verdict"] == "FAIL").any():
        entries.append(
            Line2D([], [], color=style.FAIL, ls="", marker="x", ms=9, mew=2, label=style.CROSSED)
        )
    return entries
