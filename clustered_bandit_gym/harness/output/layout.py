"""From a summary to tables of texts, and to what pictures draw: panels, mean or median, axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.tables import Table, setting
from clustered_bandit_gym.harness.scoring.numbers import DASH, interval, number

#: Heads that are not the column's own name.
_HEADS = {
    "pulls_mean": "mean pulls",
    "pulls_median": "median pulls",
    "vs_bound": "vs bound",
    "cost_mean": "cost",
    "bits_up": "bits up",
    "bits_down": "bits down",
    "reals_up": "reals up",
    "reals_down": "reals down",
    "pulls_max_agent": "busiest agent",
    "suspicious_communication": "too quiet",
}
#: Means over trials: lower bounds where trials are unfinished.
_CHANNEL = (
    "pulls_max_agent",
    "cost_mean",
    "bits_up",
    "bits_down",
    "reals_up",
    "reals_down",
    "rounds",
)
_CUT = ("pulls_mean", "pulls_median", "vs_bound", *_CHANNEL)


def check_columns(summary: pd.DataFrame, columns: Sequence[str]) -> None:
    """Refuse columns that a summary does not have."""
    unknown = [repr(name) for name in columns if name not in summary]
    if unknown:
        raise UserError(
            f"unknown column {', '.join(unknown)}; known: {', '.join(map(str, summary))}"
        )


def chosen(summary: pd.DataFrame, varied: list[str], columns: Sequence[str]) -> Table:
    """One table of `columns` of the summary, after the varied settings that are not among them."""
    check_columns(summary, columns)
    return _table("Scores", summary, [name for name in varied if name not in columns], columns)


def board_tables(summary: pd.DataFrame, varied: list[str]) -> list[Table]:
    """The two tables of a board: correctness and pulls, then busiest agent and communication. Where a tail is
    heavy the median leads."""
    heavy = summary["heavy_tail"].any()
    pulls = ["median pulls", "mean"] if heavy else ["mean pulls", "median"]
    scores = ["policy", "wrong", "unfin.", "error rate", "verdict", *pulls, "vs_bound"]
    if summary["vs_naive"].notna().any():
        scores.insert(-1, "vs naive")
    channel = ["policy", *_CHANNEL, "seconds"]
    if summary["suspicious_communication"].any():  # a note explains it
        channel.insert(-1, "suspicious_communication")
    return [
        _table("Correctness and pulls", summary, varied, scores),
        _table(
            "Busiest agent's pulls, communication and time, means per trial",
            summary,
            varied,
            channel,
        ),
    ]


def _table(title: str, summary: pd.DataFrame, places: list[str], columns: Sequence[str]) -> Table:
    rows = []
    for row in summary.to_dict("records"):
        where = [setting(row[name]) for name in places]
        rows.append(where + [_text(name, row) for name in columns])
    heads = [_HEADS.get(name, name) for name in columns]
    return Table(title, [*places, *heads], rows, len(places))


def _text(name: str, row: dict[Any, Any]) -> str:
    """The text of a column of the summary, of a varied setting, or of what a board's table has."""
    mark = "≥" if row["unfinished"] else ""
    if name == "wrong":
        return f"{row['errors']}/{row['trials']}"
    if name == "unfin.":
        return str(row["unfinished"])
    if name == "error rate":
        return interval(row["error_low"], row["error_high"], digits=2)
    if name == "median":
        return number(row["pulls_median"], mark)
    if name == "median pulls":
        ends = interval(row["pulls_median_low"], row["pulls_median_high"])
        return number(row["pulls_median"], mark) + ("" if mark or ends == DASH else f" {ends}")
    if name in ("mean pulls", "mean"):
        mean = row["pulls_mean"]
        half = 100 * (row["pulls_high"] - mean) / mean if mean > 0 else math.nan
        if mark or row["heavy_tail"] or math.isnan(half):
            return number(mean, mark)
        return f"{number(mean)} ±{number(half, digits=2)}%"
    if name == "vs naive":
        low, high = row["vs_naive_low"], row["vs_naive_high"]
        ends = "" if row["vs_naive_mark"] or low == high else interval(low, high).strip(DASH)
        return f"{number(row['vs_naive'], row['vs_naive_mark'])} {ends}".strip()
    value = row[name]
    if isinstance(value, bool | str | dict):
        return setting(value)
    return number(value, mark if name in _CUT else "")


def pivoted(
    summary: pd.DataFrame, varied: list[str], pivot: str, ci: bool, bold_best: bool
) -> Table:
    """Pulls in one table: a row per policy, a column per value of the varied setting `pivot`.

    Medians where a tail is heavy. In a bold cell the text stands between two asterisks.
    """
    if varied != [pivot]:
        raise UserError(
            f"pivot must be the one setting that varies; here {', '.join(varied) or 'none'} varies"
        )
    measure = measure_of(summary)
    least = summary.groupby(pivot)[measure.centre].min()
    cells = {}
    for row in summary.to_dict("records"):
        value, low, high = row[measure.centre], row[measure.low], row[measure.high]
        text = _power(value, 2)
        if row["unfinished"]:
            text = f"≥{text}"
        elif ci and not math.isnan(low):
            # The interval of a median is not symmetric around it.
            median = measure.centre == "pulls_median"
            half = (high - low) / 2
            text += f" [{_power(low, 2)}, {_power(high, 2)}]" if median else f" ± {_power(half, 1)}"
        if bold_best and value == least[row[pivot]] and not row["unfinished"]:
            text = f"*{text}*"
        cells[row["policy"], row[pivot]] = text
    values = list(dict.fromkeys(summary[pivot]))
    rows = []
    for name in dict.fromkeys(summary["policy"]):
        rows.append([name, *(cells.get((name, one), DASH) for one in values)])
    kind = measure.words.partition(";")[0].capitalize()
    title = f"{kind} pulls by {pivot}" + (", 95% intervals" if ci else "")
    return Table(title, ["policy", *(f"{pivot}={setting(value)}" for value in values)], rows)


def _power(value: float, digits: int) -> str:
    """1.23e4: one format for all cells of a column."""
    front, _, power = f"{value:.{digits}e}".partition("e")
    return f"{front}e{int(power)}"


# --- pictures ------------------------------------------------------------------------------------


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
    if panel == "communication":
        return Measure("cost_mean", row="cost", name="communication cost")
    if panel == "busiest":
        column = "pulls_max_agent"
        return Measure(column, row=column, name="pulls of the busiest agent")
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
