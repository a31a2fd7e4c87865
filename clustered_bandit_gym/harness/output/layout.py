"""From a summary to tables of texts: the two tables of a board, or the columns that somebody
asked for."""

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
_CHANNEL = ("cost_mean", "bits_up", "bits_down", "reals_up", "reals_down", "rounds")
_CUT = ("pulls_mean", "pulls_median", "vs_bound", *_CHANNEL)


def check_columns(columns: Sequence[str], varied: Sequence[str] = ()) -> None:
    """Refuse columns that a summary with these varied settings does not have.

    Call it before trials are played.
    """
    unknown = [repr(name) for name in columns if name not in HEADS and name not in varied]
    if unknown or not columns:
        raise UserError(
            f"unknown column {', '.join(unknown) or '(none)'}; known: {', '.join(HEADS)}, and "
            f"settings that vary (here {', '.join(varied) or 'none'}), which come first if they "
            "are not listed"
        )


def chosen(summary: pd.DataFrame, varied: list[str], columns: Sequence[str]) -> Table:
    """One table of `columns` of the summary, after the varied settings that are not among them."""
    check_columns(columns, varied)
    places = [name for name in varied if name not in columns]
    rows = []
    for row in summary.to_dict("records"):
        where = [setting(row[name]) for name in places]
        rows.append(where + [_text(name, row) for name in columns])
    heads = [*places, *(HEADS.get(name, name) for name in columns)]
    return Table("Scores", heads, rows, len(places))


def _text(name: str, row: dict[Any, Any]) -> str:
    value = row[name]
    if name not in HEADS:
        return setting(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return number(value, _mark(row) if name in _CUT else "")


def board_tables(summary: pd.DataFrame, varied: list[str]) -> list[Table]:
    """The two tables of a board: correctness and pulls, then communication. Where a tail is
    heavy the median leads."""
    heavy = bool(summary["heavy_tail"].any())
    # An empty column says nothing; where it is not empty, a note explains it.
    quiet = bool((summary["suspicious_communication"] > 0).any())
    last = ["suspicious_communication", "seconds"] if quiet else ["seconds"]
    scores, channel = [], []
    for row in summary.to_dict("records"):
        mark = _mark(row)
        place = [*(setting(row[name]) for name in varied), str(row["policy"])]
        mean = number(row["pulls_mean"], mark) if row["heavy_tail"] else _with_spread(row, mark)
        pulls = [_median(row, mark), mean] if heavy else [mean, number(row["pulls_median"], mark)]
        wrong = f"{row['errors']}/{row['trials']}"
        rate = interval(row["error_low"], row["error_high"], digits=2)
        judged = [wrong, str(row["unfinished"]), rate, str(row["verdict"])]
        scores.append([*place, *judged, *pulls, _ratio(row), number(row["vs_bound"], mark)])
        channel.append([*place, *(_text(name, row) for name in (*_CHANNEL, *last))])
    heads = [*varied, "policy", "wrong", "unfin.", "error rate", "verdict"]
    heads += ["median pulls", "mean"] if heavy else ["mean pulls", "median"]
    heads += ["vs naive", "vs bound"]
    more = [*varied, "policy", *(HEADS[name] for name in (*_CHANNEL, *last))]
    return [
        Table("Correctness and pulls", heads, scores, len(varied)),
        Table("Communication and time, means per trial", more, channel, len(varied)),
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
    ends = "pulls_median" if heavy else "pulls"
    best = summary.groupby(pivot, sort=False)[centre].transform("min")
    texts = []
    for row, least in zip(summary.to_dict("records"), best, strict=True):
        mark = _mark(row)
        text = mark + _power(row[centre], 2)
        half = (row[f"{ends}_high"] - row[f"{ends}_low"]) / 2
        if ci and not mark and not math.isnan(half):
            text += f" ± {_power(half, 1)}"
        bold = bold_best and row[centre] == least and not mark
        texts.append(f"*{text}*" if bold else text)
    table = summary.assign(text=texts).pivot(index="policy", columns=pivot, values="text")
    table = table.fillna(DASH)
    values = list(dict.fromkeys(summary[pivot]))
    rows = []
    for name in dict.fromkeys(summary["policy"]):
        rows.append([style_of(name).label, *(str(table.loc[name, value]) for value in values)])
    title = f"{'Median' if heavy else 'Mean'} pulls by {pivot}" + (", 95% intervals" if ci else "")
    return Table(title, ["policy", *(f"{pivot}={setting(value)}" for value in values)], rows)


def _power(value: float, digits: int) -> str:
    """1.23e4: one format for all cells of a column."""
    front, _, power = f"{value:.{digits}e}".partition("e")
    return f"{front}e{int(power)}"


def _mark(row: dict[Any, Any]) -> str:
    return "≥" if row["unfinished"] else ""


def _with_spread(row: dict[Any, Any], mark: str) -> str:
    """A mean and the half-width of its interval in per cent; no interval where the mean is but a
    lower bound."""
    mean, high = row["pulls_mean"], row["pulls_high"]
    if mark or math.isnan(high) or not mean > 0:
        return number(mean, mark)
    return f"{number(mean)} ±{number(100 * (high - mean) / mean, digits=2)}%"


def _median(row: dict[Any, Any], mark: str) -> str:
    """A median with its distribution-free interval, which heavy tails do not touch."""
    ends = interval(row["pulls_median_low"], row["pulls_median_high"])
    return number(row["pulls_median"], mark) + ("" if mark or ends == DASH else f" {ends}")


def _ratio(row: dict[Any, Any]) -> str:
    value, low, high = row["vs_naive"], row["vs_naive_low"], row["vs_naive_high"]
    if row["vs_naive_mark"] or math.isnan(low) or low == high:
        return number(value, row["vs_naive_mark"])
    return f"{number(value)} {interval(low, high)}"
