"""From a summary to the tables of a board, and to what pictures draw: panels, mean or median, and
settings by their symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd

from clustered_bandit_gym.game.checks import check_choice
from clustered_bandit_gym.harness.output.tables import Table, setting
from clustered_bandit_gym.harness.scoring.numbers import DASH, interval, number

#: Heads and columns of the figures in the first and in the second table. Where trials are
#: unfinished they are lower bounds, marked by "≥".
_FIRST = {
    "mean pulls": "pulls_mean",
    "median": "pulls_median",
    "median pulls": "pulls_median",
    "vs naive": "vs_naive",
    "vs bound": "vs_bound",
}
_SECOND = {
    "busiest agent": "pulls_max_agent",
    "cost": "cost_mean",
    "bits up": "bits_up",
    "bits down": "bits_down",
    "reals up": "reals_up",
    "reals down": "reals_down",
    "rounds": "rounds",
    "too quiet": "suspicious_communication",
    "seconds": "seconds",
}


def board_tables(summary: pd.DataFrame, varied: list[str]) -> list[Table]:
    """The two tables of a board: correctness and pulls, then busiest agent and communication.
    Columns without a figure are left out. Where a tail is heavy the median replaces the mean. Where
    settings vary, one centre and no interval of the ratio are shown, so that the table fits into a
    terminal."""
    settings = summary[varied].map(setting).rename(columns=symbol)
    texts = settings.join(pd.DataFrame([_texts(row) for row in summary.to_dict("records")]))
    pulls = ["median pulls"] if summary["heavy_tail"].any() else ["mean pulls", "median"]
    if varied:
        texts["vs naive"] = texts["vs naive"].str.partition(" ")[0]
        pulls = pulls[:1]
    scores = ["wrong", "unfin.", "error rate", "verdict", *pulls, "vs naive", "vs bound"]
    tables = []
    for title, heads in (
        ("Correctness and pulls", scores),
        ("Busiest agent's pulls, communication and time, means per trial", _SECOND),
    ):
        cells = texts[[*settings, "policy", *heads]]
        tables.append(Table(title, cells.loc[:, (cells != DASH).any()], len(varied)))
    return tables


def _texts(row: dict[Any, Any]) -> dict[str, str]:
    """The cells of a row of the summary, by their heads."""
    mark = "≥" if row["unfinished"] else ""
    figures = {head: number(row[name], mark) for head, name in (_FIRST | _SECOND).items()}
    half = row["pulls_high"] - row["pulls_mean"]
    if not mark and half >= 0 and row["pulls_mean"] > 0:
        figures["mean pulls"] += f" ±{number(100 * half / row['pulls_mean'], digits=2)}%"
    for head, name in (("median pulls", "pulls_median"), ("vs naive", "vs_naive")):
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        if high > low and not mark:
            figures[head] += f" {interval(low, high)}"
    # The last two replace figures that are no lower bounds.
    return figures | {
        "policy": row["policy"],
        "wrong": f"{row['errors']}/{row['trials']}",
        "unfin.": str(row["unfinished"]),
        "error rate": interval(row["error_low"], row["error_high"], digits=2),
        "verdict": row["verdict"],
        "too quiet": str(row["suspicious_communication"] or DASH),  # a note explains it
        "seconds": number(row["seconds"]),
    }


# --- pictures ------------------------------------------------------------------------------------


class Measure(NamedTuple):
    """What a picture draws: columns of the summary, and what the axis says. `low` and `high` are ""
    where there is no interval."""

    centre: str
    low: str = ""
    high: str = ""
    words: str = "mean"
    name: str = "pulls"

    @property
    def short(self) -> str:
        """Mean or median, without the words on bars."""
        return self.words.partition(";")[0]


BAR = "visible bars: 95% interval"
_MEASURES = {
    "pulls": Measure("pulls_mean", "pulls_low", "pulls_high", f"mean; {BAR}"),
    "communication": Measure("cost_mean", name="communication cost"),
    "busiest": Measure("pulls_max_agent", name="pulls of the busiest agent"),
    "tradeoff": Measure("cost_mean", name="communication cost"),  # against pulls
}
_MEDIANS = {
    "pulls": Measure("pulls_median", "pulls_median_low", "pulls_median_high", f"median; {BAR}"),
    "busiest": Measure("busiest_median", words="median", name="pulls of the busiest agent"),
}


def measure_of(summary: pd.DataFrame, panel: str = "pulls") -> Measure:
    """What a panel of that name draws. Medians of pulls as soon as one mean is not to be trusted,
    so that all marks compare."""
    check_choice("panel", panel, tuple(_MEASURES))
    return (_MEASURES | _MEDIANS if summary["heavy_tail"].any() else _MEASURES)[panel]


def panels_of(
    summary: pd.DataFrame, varied: list[str], x: str | None
) -> list[tuple[Any, pd.DataFrame]]:
    """(title, rows of the summary) for each combination of the varied settings other than `x`.
    Within a panel and a policy the rows differ in `x` alone, so a line may join them."""
    titles = places(summary, [name for name in varied if name != x])
    return list(summary.groupby(titles, sort=False))


# --- settings ------------------------------------------------------------------------------------


def axis_name(name: str) -> str:
    """A setting as axes call it; the last word is its symbol."""
    names = {
        "n_agents": "agents N",
        "n_arms": "arms K",
        "n_clusters": "clusters M",
        "delta": "δ",
        "eta": "η",
    }
    return names.get(name, name)


def symbol(name: str) -> str:
    """A setting as a paper calls it: N for n_agents."""
    return axis_name(name).rpartition(" ")[2]


def equation(name: str, value: Any) -> str:
    """A setting as a title gives it: N = 4."""
    return f"{symbol(name)} = {setting(value)}"


def places(
    summary: pd.DataFrame, names: list[str], write: Callable[[str, Any], str] = equation
) -> pd.Series:
    """The settings `names` of each row as one text."""
    texts = [
        ", ".join(write(name, row[name]) for name in names) for row in summary.to_dict("records")
    ]
    return pd.Series(texts, summary.index, dtype=object)
