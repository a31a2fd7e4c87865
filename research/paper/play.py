"""The trials that claims need beyond those of the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from clustered_bandit_gym.reproduce import reproduce
from clustered_bandit_gym.reproduce.figures import Figure
from clustered_bandit_gym.reproduce.run import play_figure, with_settings

#: Played beside the printed schemes wherever pulls are plotted.
CERTIFIED = ("bai-cl:confidence=certified", "bai-cl++:confidence=certified")
#: Other readings of what the paper says: settings added to every cell of a figure. Data set 1: the
#: separations that the means have, instead of the printed 0.3. MovieLens: η and η1 of the raw
#: ratings 1 to 5, told of rewards that are half of them.
READINGS: dict[str, dict[str, Any]] = {
    "fig1a": {"told": {"eta": "truth", "eta1": "truth"}},
    "fig1f": {"told": {"eta": 0.0027, "eta1": 0.026}, "check": False},
}


@dataclass(frozen=True, eq=False)
class Played:
    """A figure and its rows: `rows` of the plotted settings, `readings` of the others."""

    figure: Figure
    rows: pd.DataFrame
    readings: pd.DataFrame


def play_figures(figures: Sequence[str], trials: int, out: Path, **how: Any) -> dict[str, Played]:
    """Reproduce figures, then play what the claims need besides; `how` as in `reproduce`."""
    data = how.pop("data", None)
    drawn = reproduce(figures, trials, out, data=data, **how)
    played = {}
    for name, one in drawn.items():
        figure = one.figure
        more = CERTIFIED if figure.measure == "pulls" else ()
        policies = (*figure.policies, *more)
        count = figure.trials(trials)
        rows = one.rows
        if more:
            certified = play_figure(figure, more, count, out, bound=False, **how)
            rows = with_settings(pd.concat([rows, certified], ignore_index=True))
        readings = rows.iloc[:0]
        if name in READINGS:
            cells = tuple(cell | READINGS[name] for cell in figure.cells)
            other = replace(figure, cells=cells)
            readings = with_settings(play_figure(other, policies, count, out, bound=False, **how))
        played[name] = Played(replace(figure, policies=policies), rows, readings)
    return played
