"""Tables of a board: one layout of texts, written for a terminal, a notebook, Markdown or LaTeX."""

from __future__ import annotations

import html
import math
from typing import Any, NamedTuple

import pandas as pd

from clustered_bandit_gym.harness.scoring.numbers import interval, number


class Table(NamedTuple):
    """A title, column heads and rows of texts; the first `places` columns say where: settings that were varied."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    places: int = 0


#: Columns that hold text and stand to the left.
_TEXT = {"policy", "verdict", "env", "what"}


def with_spread(mean: float, high: float, mark: str) -> str:
    """A mean and the half-width of its interval in per cent of it; no interval where the mean is but a lower bound."""
    if mark or math.isnan(high) or not mean > 0:
        return number(mean, mark)
    return f"{number(mean, mark)} ±{number(100 * (high - mean) / mean, digits=2)}%"


def ratio(value: float, low: float, high: float, mark: str) -> str:
    if mark or math.isnan(low) or low == high:
        return number(value, mark)
    return f"{number(value)} {interval(low, high)}"


def layout(summary: pd.DataFrame, varied: list[str]) -> list[Table]:
    """The two tables of a board: correctness and pulls, then communication."""
    scores, channel = [], []
    # An empty column says nothing; where it is not, a note explains it.
    quiet = bool((summary["suspicious_communication"] > 0).any())
    for row in summary.to_dict("records"):
        mark = "≥" if row["unfinished"] else ""
        place = [setting(row[name]) for name in varied] + [str(row["policy"])]
        scores.append(
            [
                *place,
                f"{row['errors']}/{row['trials']}",
                str(row["unfinished"]),
                interval(row["error_low"], row["error_high"], digits=2),
                str(row["verdict"]),
                with_spread(row["pulls_mean"], row["pulls_high"], mark),
                number(row["pulls_median"], mark),
                ratio(row["vs_naive"], row["vs_naive_low"], row["vs_naive_high"], row["vs_naive_mark"]),
                number(row["vs_bound"], mark),
            ]
        )
        channel.append(
            [
                *place,
                number(row["cost_mean"], mark),
                *(number(row[name], mark) for name in ("bits_up", "bits_down", "reals_up", "reals_down", "rounds")),
                *([f"{row['suspicious_communication']}"] if quiet else []),
                number(row["seconds"]),
            ]
        )
    return [
        Table(
            "Correctness and pulls",
            [
                *varied,
                "policy",
                "wrong",
                "unfin.",
                "error rate",
                "verdict",
                "mean pulls",
                "median",
                "vs naive",
                "vs bound",
            ],
            scores,
            len(varied),
        ),
        Table(
            "Communication and time, means per trial",
            [
                *varied,
                "policy",
                "cost",
                "bits up",
                "bits down",
                "reals up",
                "reals down",
                "rounds",
                *(["too quiet"] if quiet else []),
                "seconds",
            ],
            channel,
            len(varied),
        ),
    ]


def setting(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={setting(item)}" for key, item in value.items())
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return str(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _is_text(head: str, varied: bool = False) -> bool:
    return varied or head in _TEXT


def to_markdown(table: Table) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = ["---" if _is_text(head) else "---:" for head in table.heads]
    return "\n".join([line(table.heads), line(rule), *(line(row) for row in table.rows)])


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "–": "--",
    "±": r"$\pm$",
    "δ": r"$\delta$",
    "η": r"$\eta$",
    "σ": r"$\sigma$",
}


def escape_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def to_latex(table: Table) -> str:
    r"""A `tabular` for ``\usepackage{booktabs}``."""
    columns = "".join("l" if _is_text(head) else "r" for head in table.heads)

    def line(cells: list[str]) -> str:
        # A leading bracket after \\ would be read as its optional argument.
        return (
            "  "
            + " & ".join("{}" + text if text.startswith("[") else text for text in map(escape_latex, cells))
            + r" \\"
        )

    body = "\n".join(line(row) for row in table.rows)
    head = line(table.heads)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n  \\toprule\n{head}\n  \\midrule\n{body}\n  \\bottomrule\n\\end{{tabular}}"
    )


def to_html(table: Table) -> str:
    def cells(kind: str, values: list[str]) -> str:
        return "".join(
            f'<{kind} style="text-align:{"left" if _is_text(head) else "right"}">{html.escape(value)}</{kind}>'
            for head, value in zip(table.heads, values, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    caption = f'<caption style="text-align:left;font-weight:bold">{html.escape(table.title)}</caption>'
    return f"<table>{caption}<thead><tr>{cells('th', table.heads)}</tr></thead><tbody>{body}</tbody></table>"


_COLOURS = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}


#: Longest name of a policy that stands on one line in a terminal.
_NAME = 28


def to_rich(table: Table, width: int = 120) -> Any:
    """Something for `rich.console.Console.print` at `width` columns.

    Varied settings become headings between the rows. Columns that do not fit go to a second table below: a figure
    without its last digits is a wrong figure.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    start = table.places
    widths = [max(map(len, column)) for column in zip(table.heads, *table.rows, strict=True)]
    if table.heads[start] == "policy":
        widths[start] = min(widths[start], _NAME)
    parts: list[Any] = []
    for number_, columns in enumerate(_packs(widths, start, width)):
        before: list[str] | None = None
        for row in table.rows:
            place = row[:start]
            if place != before:
                where = ", ".join(f"{name} = {value}" for name, value in zip(table.heads[:start], place, strict=True))
                if before is None:
                    title = table.title + (" (continued)" if number_ else "")
                    parts.append(Text(f"{title}: {where}" if where else title, style="bold"))
                else:
                    parts.append(Text(where, style="italic"))
                view = RichTable(box=box.SIMPLE_HEAD, show_header=before is None, pad_edge=False, padding=(0, 1, 0, 0))
                for i in columns:
                    side: Any = "left" if _is_text(table.heads[i]) else "right"
                    view.add_column(Text(table.heads[i]), justify=side, width=widths[i], overflow="fold")
                parts.append(view)
                before = place
            view.add_row(*(Text(row[i], style=_COLOURS.get(row[i], "")) for i in columns))
    return Group(*parts)


def _packs(widths: list[int], start: int, width: int) -> list[list[int]]:
    """Columns from `start` on in groups that fit `width`, each led by column `start`."""
    gap = 2
    packs: list[list[int]] = []
    room = 0
    for i in range(start + 1, len(widths)):
        if not packs or widths[i] + gap > room:
            packs.append([start])
            room = width - widths[start] - gap
        packs[-1].append(i)
        room -= widths[i] + gap
    return packs
