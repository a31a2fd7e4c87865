"""The one table writer: a table of texts, written for a terminal, a notebook, Markdown or LaTeX."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any, NamedTuple

from clustered_bandit_gym.harness.output import escape


class Table(NamedTuple):
    """A title, column heads and rows of texts; the first `places` columns say where: settings that
    were varied.
    """

    title: str
    heads: list[str]
    rows: list[list[str]]
    places: int = 0

    def renamed(self, head: str, name: Callable[[str], str]) -> Table:
        """The table with `name` applied to every cell of the column `head`."""
        at = self.heads.index(head)
        return self._replace(rows=[[*row[:at], name(row[at]), *row[at + 1 :]] for row in self.rows])


#: Settings that a paper writes as symbols.
_SYMBOLS = {
    "delta": r"$\delta$",
    "n_agents": "$N$",
    "n_clusters": "$M$",
    "n_arms": "$K$",
    "eta": r"$\eta$",
    "sigma": r"$\sigma$",
}
#: Columns that hold text and are aligned to the left.
_TEXT = {
    *("policy", "verdict", "reason", "env", "environment", "cell", "what", "what it tests"),
    *("figure", "claim", "measured", "scheme", "setting", "first phase", "second phase"),
}
_STYLES = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}
#: A folded column of names is never narrower than this.
_NAME = 12
#: Columns between two columns in a terminal.
_GAP = 2


def setting(value: Any) -> str:
    """The value of a setting as text."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={setting(item)}" for key, item in value.items())
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return str(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def to_markdown(table: Table) -> str:
    """A pipe table; the title is left to the caller."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    rule = ["---" if head in _TEXT else "---:" for head in table.heads]
    body = [line([escape.markdown(cell) for cell in row]) for row in table.rows]
    return "\n".join([line([escape.markdown(head) for head in table.heads]), line(rule), *body])


def to_latex(table: Table, caption: str = "") -> str:
    r"""A `table` environment for ``\usepackage{booktabs}``, with `caption` or else the title as its caption."""
    columns = "".join("l" if head in _TEXT else "r" for head in table.heads)

    def line(cells: list[str]) -> str:
        # A leading bracket after \\ would be read as its optional argument.
        return (
            "    "
            + " & ".join("{}" + text if text.startswith("[") else text for text in cells)
            + r" \\"
        )

    def cell_of(head: str, cell: str) -> str:
        if head in _TEXT:
            return escape.latex(cell)
        if cell.startswith("*") and cell.endswith("*"):
            return rf"\boldmath\textbf{{{escape.latex_number(cell[1:-1])}}}"
        return escape.latex_number(cell)

    def head_of(head: str) -> str:
        name, equals, value = head.partition("=")
        if not equals or name not in _SYMBOLS:
            return _SYMBOLS.get(head) or escape.latex(head)
        return _SYMBOLS[name] + "$=$" + escape.latex_number(value)

    rows = [
        line([cell_of(*pair) for pair in zip(table.heads, row, strict=True)]) for row in table.rows
    ]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{escape.latex(caption or table.title)}}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            line([head_of(head) for head in table.heads]),
            r"    \midrule",
            *rows,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def to_html(table: Table) -> str:
    """A `<table>` with its title as caption."""

    def cells(kind: str, values: list[str]) -> str:
        return "".join(
            f'<{kind} style="text-align:{"left" if head in _TEXT else "right"}">'
            f"{html.escape(escape.plain(value))}</{kind}>"
            for head, value in zip(table.heads, values, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    title = html.escape(escape.plain(table.title))
    caption = f'<caption style="text-align:left;font-weight:bold">{title}</caption>'
    return f"<table>{caption}<thead><tr>{cells('th', table.heads)}</tr></thead><tbody>{body}</tbody></table>"


def to_rich(table: Table, width: int = 120) -> Any:
    """Something for `rich.console.Console.print` at `width` columns.

    Varied settings become headings between the rows. A long name in the first column is folded;
    only where the figures themselves do not fit do columns go to a second table below, since a
    figure without its last digits is wrong.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    table = table._replace(rows=[[escape.plain(cell) for cell in row] for row in table.rows])
    start = table.places
    widths = [max(map(len, column)) for column in zip(table.heads, *table.rows, strict=True)]
    room = width - sum(widths[start + 1 :]) - _GAP * (len(widths) - start)
    widths[start] = min(widths[start], max(_NAME, room))
    parts: list[Any] = []
    for pack, columns in enumerate(_packs(widths, start, width)):
        before: list[str] | None = None
        for row in table.rows:
            place = row[:start]
            if place != before:
                where = ", ".join(
                    f"{name} = {value}"
                    for name, value in zip(table.heads[:start], place, strict=True)
                )
                if before is None:
                    title = table.title + (" (continued)" if pack else "")
                    parts.append(Text(f"{title}: {where}" if where else title, style="bold"))
                else:
                    parts.append(Text(where, style="italic"))
                view = RichTable(
                    box=box.SIMPLE_HEAD,
                    show_header=before is None,
                    pad_edge=False,
                    padding=(0, 1, 0, 0),
                )
                for i in columns:
                    side: Any = "left" if table.heads[i] in _TEXT else "right"
                    view.add_column(
                        Text(table.heads[i]), justify=side, width=widths[i], overflow="fold"
                    )
                parts.append(view)
                before = place
            view.add_row(*(Text(row[i], style=_STYLES.get(row[i], "")) for i in columns))
    return Group(*parts)


def _packs(widths: list[int], start: int, width: int) -> list[list[int]]:
    """Columns from `start` on in groups that fit `width`, each led by column `start`."""
    packs: list[list[int]] = []
    room = 0
    for i in range(start + 1, len(widths)):
        if not packs or widths[i] + _GAP > room:
            packs.append([start])
            room = width - widths[start] - _GAP
        packs[-1].append(i)
        room -= widths[i] + _GAP
    return packs
