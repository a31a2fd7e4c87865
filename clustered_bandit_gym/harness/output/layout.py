"""From a summary to the tables of a board, and to what pictures draw: panels, mean or median."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.tables import Table, setting
from clustered_bandit_gym.harness.scoring.numbers import interval, number

#: Heads and columns of means over trials: lower bounds where trials are unfinished.
_CHANNEL = {
    "busiest agent": "pulls_max_agent",
    "cost": "cost_mean",
    "bits up": "bits_up",
    "bits down": "bits_down",
    "reals up": "reals_up",
    "reals down": "reals_down",
    "rounds": "rounds",
}


def board_tables(summary: pd.DataFrame, varied: list[str]) -> list[Table]:
    """The two tables of a board: correctness and pulls, then busiest agent and communication. Where a tail is
    heavy the median leads."""
    pulls = ["median pulls", "mean"] if summary["heavy_tail"].any() else ["mean pulls", "median"]
    scores = ["policy", "wrong", "unfin.", "error rate", "verdict", *pulls, "vs bound"]
    if summary["vs_naive"].notna().any():
        scores.insert(-1, "vs naive")
    channel = ["policy", *_CHANNEL, "seconds"]
    if summary["suspicious_communication"].any():  # a note explains it
        channel.insert(-1, "too quiet")
    texts = [_texts(row, varied) for row in summary.to_dict("records")]
    tables = []
    for title, heads in (
        ("Correctness and pulls", [*varied, *scores]),
        ("Busiest agent's pulls, communication and time, means per trial", [*varied, *channel]),
    ):
        rows = [[row[head] for head in heads] for row in texts]
        tables.append(Table(title, heads, rows, len(varied)))
    return tables


def _texts(row: dict[Any, Any], varied: list[str]) -> dict[str, str]:
    """The cells of a row of the summary, by their heads."""
    mark = "≥" if row["unfinished"] else ""
    mean = number(row["pulls_mean"], mark)
    half = row["pulls_high"] - row["pulls_mean"]
    if not mark and not row["heavy_tail"] and half >= 0 and row["pulls_mean"] > 0:
        mean += f" ±{number(100 * half / row['pulls_mean'], digits=2)}%"
    median = number(row["pulls_median"], mark)
    texts = {name: setting(row[name]) for name in varied}
    texts |= {head: number(row[name], mark) for head, name in _CHANNEL.items()}
    return texts | {
        "policy": row["policy"],
        "wrong": f"{row['errors']}/{row['trials']}",
        "unfin.": str(row["unfinished"]),
        "error rate": interval(row["error_low"], row["error_high"], digits=2),
        "verdict": row["verdict"],
        "mean": mean,
        "mean pulls": mean,
        "median": median,
        "median pulls": median + _ends(row, "pulls_median"),
        "vs naive": number(row["vs_naive"], mark) + _ends(row, "vs_naive"),
        "vs bound": number(row["vs_bound"], mark),
        "too quiet": str(row["suspicious_communication"]),
        "seconds": number(row["seconds"]),
    }


def _ends(row: dict[Any, Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    shown = high > low and not row["unfinished"]
    return f" {interval(low, high)}" if shown else ""


# --- pictures ------------------------------------------------------------------------------------


class Measure(NamedTuple):
    """What a picture draws: columns of the summary, and what the axis says.

    `low` and `high` are "" where there is no interval.
    """

    centre: str
    low: str = ""
    high: str = ""
    words: str = "mean"
    name: str = "pulls"


def measure_of(summary: pd.DataFrame, panel: str = "pulls") -> Measure:
    """What a panel of that name draws.

    Medians of pulls as soon as one mean is not to be trusted, so that all marks compare.
    """
    if panel == "communication":
        return Measure("cost_mean", name="communication cost")
    if panel == "busiest":
        return Measure("pulls_max_agent", name="pulls of the busiest agent")
    if panel not in ("pulls", "tradeoff"):
        known = "pulls, communication, busiest, tradeoff"
        raise UserError(f"unknown panel {panel!r}; choose one of {known}")
    if summary["heavy_tail"].any():
        words = "median; bar: 95% distribution-free interval"
        return Measure("pulls_median", "pulls_median_low", "pulls_median_high", words)
    return Measure("pulls_mean", "pulls_low", "pulls_high", "mean; bar: 95% t interval")


def panels_of(
    summary: pd.DataFrame, varied: list[str], x: str | None
) -> list[tuple[str, pd.DataFrame]]:
    """(title, rows of the summary) for each combination of the varied settings other than `x`.

    Within a panel and a policy the rows differ in `x` alone, so a line may join them.
    """
    titles = []
    for row in summary.to_dict("records"):
        others = [f"{axis_name(name)} = {setting(row[name])}" for name in varied if name != x]
        titles.append(", ".join(others))
    return [(str(title), part) for title, part in summary.groupby(pd.Index(titles), sort=False)]


def axis_name(name: str) -> str:
    """A setting as axes and titles call it."""
    names = {"n_agents": "agents N", "n_arms": "arms K", "n_clusters": "clusters M"}
    return (names | {"delta": "δ", "eta": "η"}).get(name, name)
