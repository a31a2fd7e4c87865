"""The one table writer: tables of texts, written for a terminal, a notebook, Markdown or LaTeX."""

from __future__ import annotations

import html
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from clustered_bandit_gym.harness.output import escape
from clustered_bandit_gym.harness.output.style import style_of


class Table(NamedTuple):
    """A title, column heads and rows of texts; the first `places` columns say where: settings
    that were varied."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    places: int = 0


class Document(ABC):
    """Tables with a title above and notes below."""

    @abstractmethod
    def parts(self, columns: Sequence[str] | None = None) -> tuple[str, list[Table], list[str]]:
        """Title, tables and notes; `columns` replace the usual tables where there are such."""

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, columns: Sequence[str] | None = None, width: int = 120) -> str:
        """Plain text of about `width` columns; a table that is wider continues below."""
        title, tables, notes = self.parts(columns)
        texts = [textwrap.fill(title, width), *(to_text(table, width) for table in tables)]
        wrapper = textwrap.TextWrapper(width, initial_indent="• ", subsequent_indent="  ")
        return "\n\n".join([*texts, "\n".join(map(wrapper.fill, notes))]).rstrip()

    def to_markdown(self, columns: Sequence[str] | None = None) -> str:
        """The tables and the notes."""
        title, tables, notes = self.parts(columns)
        texts = [f"**{escape.markdown(title)}**"]
        for table in tables:
            texts += [f"*{escape.markdown(table.title)}*", to_markdown(table)]
        texts.append("\n".join(f"- {escape.markdown(note)}" for note in notes))
        return "\n\n".join(texts).rstrip() + "\n"

    def to_latex(self, columns: Sequence[str] | None = None) -> str:
        r"""`table` environments for ``\usepackage{booktabs}``, with display names of policies; the
        notes follow as comments."""
        return latex_page(*self.parts(columns))

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


def to_text(table: Table, width: int) -> str:
    """The table below its title, by pandas; what is left of the figures repeats if it continues."""
    rows = [[escape.plain(cell) for cell in row] for row in table.rows]
    left = table.heads[: table.places + 1]
    shown = pd.DataFrame(rows, columns=table.heads).set_index(left).to_string(line_width=width)
    return "\n".join([table.title, *(line.rstrip() for line in shown.splitlines())])


def to_markdown(table: Table) -> str:
    """A pipe table; the title is left to the caller."""
    rule = ["---" if head in _TEXT else "---:" for head in table.heads]
    cells = [[escape.markdown(cell) for cell in row] for row in (table.heads, *table.rows)]
    cells.insert(1, rule)
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def latex_page(title: str, tables: list[Table], notes: list[str]) -> str:
    """The tables for LaTeX, and the notes as comments."""
    shown = [to_latex(table, f"{table.title}. {title}.") for table in tables]
    lines = [r"% \usepackage{booktabs}", *shown, *(f"% {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def to_latex(table: Table, caption: str = "") -> str:
    r"""A `table` environment for ``\usepackage{booktabs}``, with `caption` or else the title."""
    columns = "".join("l" if head in _TEXT else "r" for head in table.heads)
    heads = " & ".join(map(_latex_head, table.heads))
    lines = [heads + r" \\", r"\midrule"]
    for row in table.rows:
        cells = [_latex_cell(*pair) for pair in zip(table.heads, row, strict=True)]
        lines.append(" & ".join(cells) + r" \\")
    body = "\n".join(f"    {line}" for line in [r"\toprule", *lines, r"\bottomrule"])
    title = escape.latex(caption or table.title)
    return (
        f"\\begin{{table}}\n  \\centering\n  \\caption{{{title}}}\n"
        f"  \\begin{{tabular}}{{{columns}}}\n{body}\n  \\end{{tabular}}\n\\end{{table}}"
    )


def _latex_head(head: str) -> str:
    """A setting as the symbol that a paper uses, with its value if there is one: $N=4$."""
    symbols = {
        "delta": r"\delta",
        "n_agents": "N",
        "n_clusters": "M",
        "n_arms": "K",
        "eta": r"\eta",
        "sigma": r"\sigma",
    }
    name, equals, value = head.partition("=")
    if name not in symbols:
        return escape.latex(head)
    return f"${symbols[name]}{equals}{escape.latex_number(value).strip('$')}$"


def _latex_cell(head: str, cell: str) -> str:
    if head == "policy":
        cell = style_of(cell).label
    if head in _TEXT:
        return escape.latex(cell)
    if cell.startswith("*"):  # bold
        return rf"\boldmath\textbf{{{escape.latex_number(cell.strip('*'))}}}"
    # A leading bracket after \\ would be read as its optional argument.
    return ("{}" if cell.startswith("[") else "") + escape.latex_number(cell)


def to_html(table: Table) -> str:
    """A `<table>` below its title."""
    rows = [[escape.plain(cell) for cell in row] for row in table.rows]
    body = pd.DataFrame(rows, columns=table.heads).to_html(index=False, border=0)
    return f"<p><b>{html.escape(escape.plain(table.title))}</b></p>{body}"
