"""The one table writer: tables of texts, written for a terminal, a notebook, Markdown or LaTeX."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd

from clustered_bandit_gym.harness.output import escape


class Table(NamedTuple):
    """A title, column heads and rows of texts; the first `places` columns say where: settings
    that were varied."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    places: int = 0


class Document:
    """Tables with a title above and notes below. Subclasses say by `parts` what they are."""

    def parts(self, columns: Sequence[str] | None = None) -> tuple[str, list[Table], list[str]]:
        """Title, tables and notes; `columns` replace the usual tables where there are such."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int = 120, columns: Sequence[str] | None = None) -> str:
        """Plain text of at most `width` columns."""
        from rich.console import Console

        file = io.StringIO()
        self.print(Console(file=file, width=width, color_system=None), columns)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines())

    def print(self, console: Any = None, columns: Sequence[str] | None = None) -> None:
        """Print to a `rich.console.Console`; default the terminal."""
        from rich.console import Console
        from rich.text import Text

        console = console or Console()
        title, tables, notes = self.parts(columns)
        console.print(Text(title, style="bold"))
        for table in tables:
            console.print(to_rich(table, console.width))
        for note in notes:
            console.print(Text(f"• {note}"))

    def to_markdown(self, columns: Sequence[str] | None = None) -> str:
        """The tables and the notes."""
        title, tables, notes = self.parts(columns)
        texts = [f"**{escape.markdown(title)}**"]
        for table in tables:
            texts += [f"*{escape.markdown(table.title)}*", to_markdown(table)]
        texts.append("\n".join(f"- {escape.markdown(note)}" for note in notes))
        return "\n\n".join(texts).rstrip() + "\n"

    def _repr_html_(self) -> str:
        title, tables, notes = self.parts()
        items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
        body = "".join(map(to_html, tables))
        return f"<div><p><b>{html.escape(title)}</b></p>{body}<ul>{items}</ul></div>"


#: Columns that hold text and are aligned to the left.
_TEXT = {
    *("policy", "verdict", "reason", "env", "environment", "cell", "what"),
    *("figure", "claim", "measured", "scheme", "setting", "first phase", "second phase"),
}


def setting(value: Any) -> str:
    """The value of a setting as text."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={setting(item)}" for key, item in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def to_markdown(table: Table) -> str:
    """A pipe table; the title is left to the caller."""
    rule = ["---" if head in _TEXT else "---:" for head in table.heads]
    cells = [[escape.markdown(cell) for cell in row] for row in (table.heads, *table.rows)]
    cells.insert(1, rule)
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def to_latex(table: Table, caption: str = "") -> str:
    r"""A `table` environment for ``\usepackage{booktabs}``, with `caption` or else the title."""
    columns = "".join("l" if head in _TEXT else "r" for head in table.heads)
    heads = " & ".join(map(_latex_head, table.heads))
    lines = [heads + r" \\", r"\midrule"]
    for row in table.rows:
        cells = [_latex_cell(*pair) for pair in zip(table.heads, row, strict=True)]
        # A leading bracket after \\ would be read as its optional argument.
        cells = ["{}" + cell if cell.startswith("[") else cell for cell in cells]
        lines.append(" & ".join(cells) + r" \\")
    body = "\n".join(f"    {line}" for line in [r"\toprule", *lines, r"\bottomrule"])
    title = escape.latex(caption or table.title)
    return (
        f"\\begin{{table}}\n  \\centering\n  \\caption{{{title}}}\n"
        f"  \\begin{{tabular}}{{{columns}}}\n{body}\n  \\end{{tabular}}\n\\end{{table}}"
    )


def _latex_head(head: str) -> str:
    """A setting as the symbol that a paper uses, with its value if there is one: $N$$=$4."""
    symbols = {
        "delta": r"$\delta$",
        "n_agents": "$N$",
        "n_clusters": "$M$",
        "n_arms": "$K$",
        "eta": r"$\eta$",
        "sigma": r"$\sigma$",
    }
    name, equals, value = head.partition("=")
    if name not in symbols:
        return escape.latex(head)
    return f"{symbols[name]}$=${escape.latex_number(value)}" if equals else symbols[name]


def _latex_cell(head: str, cell: str) -> str:
    if head in _TEXT:
        return escape.latex(cell)
    if cell.startswith("*"):  # bold
        return rf"\boldmath\textbf{{{escape.latex_number(cell.strip('*'))}}}"
    return escape.latex_number(cell)


def to_html(table: Table) -> str:
    """A `<table>` below its title."""
    rows = [[escape.plain(cell) for cell in row] for row in table.rows]
    body = pd.DataFrame(rows, columns=table.heads).to_html(index=False, border=0)
    return f"<p><b>{html.escape(escape.plain(table.title))}</b></p>{body}"


def to_rich(table: Table, width: int = 120) -> Any:
    """Something for `rich.console.Console.print` at `width` columns.

    Varied settings become headings between the rows. In the first column a name of more than 20
    letters is folded; only where the figures themselves do not fit do columns go to a second table
    below, since a figure without its last digits is wrong.
    """
    from rich.console import Group
    from rich.text import Text

    rows = [[escape.plain(cell) for cell in row] for row in table.rows]
    start = table.places
    widths = [max(map(len, column)) for column in zip(table.heads, *rows, strict=True)]
    figures = sum(widths[start + 1 :]) + 2 * (len(widths) - start)
    widths[start] = min(widths[start], max(20, width - figures))
    parts: list[Any] = []
    title = table.title
    for columns in _packs(widths, start, width):
        first = True
        for place, own in groupby(rows, lambda row: row[:start]):
            pairs = zip(table.heads, place, strict=False)
            where = ", ".join(f"{name} = {value}" for name, value in pairs)
            if first:
                parts.append(Text(": ".join(filter(None, [title, where])), style="bold"))
            else:
                parts.append(Text(where, style="italic"))
            parts.append(_view(table.heads, list(own), columns, widths, first))
            first = False
        title = f"{table.title} (continued)"
    return Group(*parts)


def _view(
    heads: list[str], rows: list[list[str]], columns: list[int], widths: list[int], head: bool
) -> Any:
    """These columns of the rows as a table of rich."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    styles = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}
    view = RichTable(box=box.SIMPLE_HEAD, show_header=head, pad_edge=False, padding=(0, 1, 0, 0))
    for i in columns:
        side: Any = "left" if heads[i] in _TEXT else "right"
        view.add_column(Text(heads[i]), justify=side, width=widths[i], overflow="fold")
    for row in rows:
        view.add_row(*(Text(row[i], style=styles.get(row[i], "")) for i in columns))
    return view


def _packs(widths: list[int], start: int, width: int) -> list[list[int]]:
    """Columns from `start` on in groups that fit `width`, each led by column `start`."""
    packs: list[list[int]] = []
    room = 0
    for i in range(start + 1, len(widths)):
        if not packs or widths[i] + 2 > room:
            packs.append([start])
            room = width - widths[start] - 2
        packs[-1].append(i)
        room -= widths[i] + 2
    return packs
