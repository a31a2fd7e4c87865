"""From a summary to tables of texts: the two tables of a board, or the columns that somebody asked
for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.output.tables import Table, setting
from clustered_bandit_gym.harness.scoring.numbers import DASH, interval, number

#: Heads of the summary's columns, for tables of chosen columns.
HEADS = {
    "policy": "policy",
    "verdict": "verdict",
    "verdict_reason": "reason",
    "verdict_hopeless": "no PASS in reach",
    "more_for_pass": "trials to PASS",
    "trials": "trials",
    "errors": "wrong",
    "unfinished": "unfinished",
    "crashed": "crashed",
    "error_low": "error rate from",
    "error_high": "error rate to",
    "pulls_mean": "mean pulls",
    "pulls_low": "mean from",
    "pulls_high": "mean to",
    "pulls_median": "median pulls",
    "pulls_median_low": "median from",
    "pulls_median_high": "median to",
    "largest_share": "largest share",
    "heavy_tail": "heavy tail",
    "vs_naive": "vs naive",
    "vs_naive_low": "vs naive from",
    "vs_naive_high": "vs naive to",
    "vs_bound": "vs bound",
    "bound_median": "lower bound",
    "cost_mean": "cost",
    "bits_up": "bits up",
    "bits_down": "bits down",
    "reals_up": "reals up",
    "reals_down": "reals down",
    "rounds": "rounds",
    "seconds": "seconds",
    "pulls_max_agent": "pulls of busiest agent",
    "wrong_agents": "wrong agents",
    "clustering_errors": "clustering errors",
    "arm_errors": "arm errors",
    "suspicious_communication": "too quiet",
    "retried": "retried",
    "doubt": "implausible because it",
    "delta": "δ",
}
#: Means over trials: lower bounds where trials are unfinished.
_CUT = {
    "pulls_mean",
    "pulls_median",
    "vs_bound",
    "cost_mean",
    "bits_up",
    "bits_down",
    "reals_up",
    "reals_down",
    "rounds",
}


def check_columns(columns: Sequence[str], varied: Sequence[str] = ()) -> None:
    """Refuse columns that a summary with these varied settings does not have.

    Call it before trials are played.
    """
    unknown = [name for name in columns if name not in HEADS and name not in varied]
    if unknown or not columns:
        raise UserError(
            f"unknown column {', '.join(map(repr, unknown)) or '(none)'}; known: "
            f"{', '.join(HEADS)}, and settings that "
            f"vary (here {', '.join(varied) or 'none'}), which come first if they are not listed"
        )


def chosen(
    summary: pd.DataFrame, varied: list[str], columns: Sequence[str], display_names: bool = False
) -> Table:
    """One table of `columns` of the summary, after the varied settings that are not among them."""
    check_columns(columns, varied)
    rows = []
    for row in summary.to_dict("records"):
        mark = _mark(row)
        cells = [setting(row[name]) for name in varied if name not in columns]
        for name in columns:
            value = row[name]
            if name == "policy":
                cells.append(style_of(str(value)).label if display_names else str(value))
            elif name not in HEADS:
                cells.append(setting(value))
            elif isinstance(value, str | bool):
                cells.append(
                    {True: "yes", False: "no"}.get(value, str(value))
                    if isinstance(value, bool)
                    else value
                )
            else:
                cells.append(number(value, mark if name in _CUT else ""))
        rows.append(cells)
    places = [name for name in varied if name not in columns]
    return Table(
        "Scores", [*places, *(HEADS.get(name, name) for name in columns)], rows, len(places)
    )


def board_tables(summary: pd.DataFrame, varied: list[str]) -> list[Table]:
    """The two tables of a board: correctness and pulls, then communication. Where a tail is heavy
    the median leads.
    """
    heavy = bool(summary["heavy_tail"].any())
    # An empty column says nothing; where it is not empty, a note explains it.
    quiet = bool((summary["suspicious_communication"] > 0).any())
    scores, channel = [], []
    for row in summary.to_dict("records"):
        mark = _mark(row)
        place = [setting(row[name]) for name in varied] + [str(row["policy"])]
        mean = number(row["pulls_mean"], mark) if row["heavy_tail"] else _with_spread(row, mark)
        pulls = [_median(row, mark), mean] if heavy else [mean, number(row["pulls_median"], mark)]
        scores.append(
            [
                *place,
                f"{row['errors']}/{row['trials']}",
                str(row["unfinished"]),
                interval(row["error_low"], row["error_high"], digits=2),
                str(row["verdict"]),
                *pulls,
                _ratio(
                    row["vs_naive"], row["vs_naive_low"], row["vs_naive_high"], row["vs_naive_mark"]
                ),
                number(row["vs_bound"], mark),
            ]
        )
        channel.append(
            [
                *place,
                number(row["cost_mean"], mark),
                *(
                    number(row[name], mark)
                    for name in ("bits_up", "bits_down", "reals_up", "reals_down", "rounds")
                ),
                *([f"{row['suspicious_communication']}"] if quiet else []),
                number(row["seconds"]),
            ]
        )
    heads = ["wrong", "unfin.", "error rate", "verdict"]
    heads += ["median pulls", "mean"] if heavy else ["mean pulls", "median"]
    heads += ["vs naive", "vs bound"]
    more = [
        "cost",
        "bits up",
        "bits down",
        "reals up",
        "reals down",
        "rounds",
        *(["too quiet"] if quiet else []),
    ]
    return [
        Table("Correctness and pulls", [*varied, "policy", *heads], scores, len(varied)),
        Table(
            "Communication and time, means per trial",
            [*varied, "policy", *more, "seconds"],
            channel,
            len(varied),
        ),
    ]


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
    heavy = bool(summary["heavy_tail"].any())
    centre = "pulls_median" if heavy else "pulls_mean"
    low, high = (f"{centre}_low", f"{centre}_high") if heavy else ("pulls_low", "pulls_high")
    values = list(dict.fromkeys(summary[pivot]))
    policies = list(dict.fromkeys(summary["policy"]))
    best = summary.groupby(pivot, sort=False)[centre].transform("min")
    cells: dict[tuple[str, Any], str] = {}
    for row, least in zip(summary.to_dict("records"), best, strict=True):
        mark = _mark(row)
        text = f"{row[centre]:.2e}".replace("e+0", "e").replace("e+", "e")
        if ci and not mark and not math.isnan(row[low]):
            spread = (row[high] - row[low]) / 2
            text += f" ± {spread:.1e}".replace("e+0", "e").replace("e+", "e")
        bold = bold_best and row[centre] == least and not mark
        cells[str(row["policy"]), row[pivot]] = f"*{mark}{text}*" if bold else mark + text
    rows = [
        [style_of(name).label, *(cells.get((name, value), DASH) for value in values)]
        for name in policies
    ]
    title = f"{'Median' if heavy else 'Mean'} pulls by {pivot}" + (", 95% intervals" if ci else "")
    return Table(title, ["policy", *(f"{pivot}={setting(value)}" for value in values)], rows)


def _mark(row: dict[Any, Any]) -> str:
    return "≥" if row["unfinished"] else ""


def _with_spread(row: dict[Any, Any], mark: str) -> str:
    """A mean and the half-width of its interval in per cent; no interval where the mean is but a
    lower bound.
    """
    mean, high = row["pulls_mean"], row["pulls_high"]
    if mark or math.isnan(high) or not mean > 0:
        return number(mean, mark)
    return f"{number(mean)} ±{number(100 * (high - mean) / mean, digits=2)}%"


def _median(row: dict[Any, Any], mark: str) -> str:
    """A median with its distribution-free interval, which heavy tails do not touch."""
    ends = interval(row["pulls_median_low"], row["pulls_median_high"])
    return number(row["pulls_median"], mark) + ("" if mark or ends == DASH else f" {ends}")


def _ratio(value: float, low: float, high: float, mark: str) -> str:
    if mark or math.isnan(low) or low == high:
        return number(value, mark)
    return f"{number(value)} {interval(low, high)}"
