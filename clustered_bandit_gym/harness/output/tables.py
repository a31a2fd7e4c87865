"""Tables of texts, written for a terminal or a notebook."""

from __future__ import annotations

import html
import re
import shutil
import sys
import textwrap
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import pandas as pd

from clustered_bandit_gym.harness.output.escape import plain


class Table(NamedTuple):
    """A title and cells of text; the first `places` columns are settings that were varied."""

    title: str
    cells: pd.DataFrame
    places: int = 0


#: Title, tables and notes.
Content = tuple[str, list[Table], list[str]]


class Document(ABC):
    """Tables with a title above and notes below."""

    @abstractmethod
    def parts(self) -> Content:
        """Title, tables and notes."""

    def __str__(self) -> str:
        # Not what a notebook's kernel was started from, which may be a terminal.
        terminal = sys.stdout.isatty()
        return self.to_text(shutil.get_terminal_size().columns if terminal else 120)

    def to_text(self, width: int = 120) -> str:
        """Plain text of about `width` columns; a table that is wider continues below."""
        title, tables, notes = self.parts()
        texts = [textwrap.fill(title, width)]
        for table in tables:
            # What is left of the figures repeats where a table continues.
            left = list(table.cells)[: table.places + 1]
            shown = table.cells.map(plain).set_index(left).to_string(line_width=width)
            # pandas ends the lines of heads that continue with a backslash.
            shown = re.sub(r"(  \\)? *$", "", shown, flags=re.MULTILINE)
            texts.append(f"{table.title}\n{shown}")
        wrapper = textwrap.TextWrapper(width, initial_indent="• ", subsequent_indent="  ")
        return "\n\n".join([*texts, "\n".join(map(wrapper.fill, notes))]).rstrip()

    def _repr_html_(self) -> str:
        title, tables, notes = self.parts()
        page = [f"<p><b>{html.escape(title)}</b></p>"]
        for table in tables:
            page.append(f"<p><b>{html.escape(table.title)}</b></p>")
            page.append(table.cells.map(plain).to_html(index=False, border=0))
        items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
        return f"<div>{''.join(page)}<ul>{items}</ul></div>"


def setting(value: Any) -> str:
    """The value of a setting as text."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={setting(item)}" for key, item in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)
