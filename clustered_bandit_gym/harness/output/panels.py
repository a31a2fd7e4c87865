"""What pictures of a board draw, in Matplotlib and in the report: panels, the swept setting, mean
or median.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.tables import setting

_SYMBOLS = {
    "n_agents": "agents N",
    "n_arms": "arms K",
    "n_clusters": "clusters M",
    "delta": "δ",
    "eta": "η",
}


class Measure(NamedTuple):
    """What a picture draws: columns of the summary, a column of the rows, and what the axis says."""

    centre: str
    low: str | None
    high: str | None
    words: str
    row: str = "pulls"
    name: str = "pulls"

    @property
    def label(self) -> str:
        return f"{self.name} ({self.words})"


_MEAN = Measure("pulls_mean", "pulls_low", "pulls_high", "mean; bar: 95% t interval")
_MEDIAN = Measure(
    "pulls_median",
    "pulls_median_low",
    "pulls_median_high",
    "median; bar: 95% distribution-free interval",
)
#: Panels of one picture each.
PANELS = {
    "pulls": None,
    "communication": Measure("cost_mean", None, None, "mean", "cost", "communication cost"),
    "busiest": Measure(
        "pulls_max_agent", None, None, "mean", "pulls_max_agent", "pulls of the busiest agent"
    ),
}


def panel_measure(summary: pd.DataFrame, panel: str) -> Measure:
    """What the panel of that name draws."""
    check_panel(panel)
    return PANELS[panel] or measure_of(summary)


def check_panel(panel: str) -> None:
    """Refuse an unknown panel. Call it before trials are played."""
    if panel not in PANELS:
        raise UserError(f"unknown panel {panel!r}; choose one of {', '.join(PANELS)}")


def measure_of(summary: pd.DataFrame) -> Measure:
    """Medians as soon as one mean of the picture is not to be trusted, so that all its marks
    compare.
    """
    return _MEDIAN if summary["heavy_tail"].any() else _MEAN


def panels_of(
    summary: pd.DataFrame, varied: list[str], x: str | None
) -> list[tuple[str, pd.DataFrame]]:
    """(title, rows of the summary) for each combination of the varied settings other than `x`.

    Within a panel and a policy the rows differ in `x` alone, so a line may join them.
    """
    others = [name for name in varied if name != x]
    if not others:
        return [("", summary)]
    keys = summary[others].map(setting).agg(" · ".join, axis=1)
    return [
        (", ".join(f"{axis_name(name)} = {setting(part[name].iloc[0])}" for name in others), part)
        for _, part in summary.groupby(keys, sort=False)
    ]


def axis_name(name: str) -> str:
    """A setting as axes and titles call it."""
    return _SYMBOLS.get(name, name)
