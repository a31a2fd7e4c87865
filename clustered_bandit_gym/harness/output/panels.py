"""What pictures of a board draw, in Matplotlib and in the report: panels, mean or median, axes."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.tables import setting


class Measure(NamedTuple):
    """What a picture draws: columns of the summary, a column of the rows, and what the axis says.

    `low` and `high` are "" where there is no interval.
    """

    centre: str
    low: str = ""
    high: str = ""
    words: str = "mean"
    row: str = "pulls"
    name: str = "pulls"


def measure_of(summary: pd.DataFrame, panel: str = "pulls") -> Measure:
    """What a panel of that name draws.

    Medians of pulls as soon as one mean is not to be trusted, so that all marks compare.
    """
    check_panel(panel)
    if panel == "communication":
        return Measure("cost_mean", row="cost", name="communication cost")
    if panel == "busiest":
        column = "pulls_max_agent"
        return Measure(column, row=column, name="pulls of the busiest agent")
    if summary["heavy_tail"].any():
        words = "median; bar: 95% distribution-free interval"
        return Measure("pulls_median", "pulls_median_low", "pulls_median_high", words)
    return Measure("pulls_mean", "pulls_low", "pulls_high", "mean; bar: 95% t interval")


def check_panel(panel: str) -> None:
    """Refuse an unknown panel. Call it before trials are played."""
    known = ("pulls", "communication", "busiest", "tradeoff")
    if panel not in known:
        raise UserError(f"unknown panel {panel!r}; choose one of {', '.join(known)}")


def panels_of(
    summary: pd.DataFrame, varied: list[str], x: str | None
) -> list[tuple[str, pd.DataFrame]]:
    """(title, rows of the summary) for each combination of the varied settings other than `x`.

    Within a panel and a policy the rows differ in `x` alone, so a line may join them.
    """
    others = [name for name in varied if name != x]
    if not others:
        return [("", summary)]
    texts = summary[others].map(setting)
    titles = texts.apply(
        lambda row: ", ".join(f"{axis_name(name)} = {row[name]}" for name in others), axis=1
    )
    return [(str(title), part) for title, part in summary.groupby(titles, sort=False)]


def axis_name(name: str) -> str:
    """A setting as axes and titles call it."""
    names = {"n_agents": "agents N", "n_arms": "arms K", "n_clusters": "clusters M"}
    return (names | {"delta": "δ", "eta": "η"}).get(name, name)
