r"""Text from policies and files made safe for each output. Names and error messages may hold anything.

`plain` comes first everywhere: control characters, line breaks, bidirectional overrides and lone surrogates become
visible escapes such as ``\x1b``. Markdown, LaTeX and CSV then escape their own markup; HTML has `html.escape`.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pandas as pd

from clustered_bandit_gym.harness.settings import writable

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}"}
)


def plain(text: str) -> str:
    r"""`text` on one line with nothing that acts: ``"a\x1b[2Jb"`` shows its escape and does not
    clear the screen."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def markdown(text: str) -> str:
    """`text` for a Markdown page or cell: markup shows as it is written."""
    return re.sub(r"([\\`*_|<>#~])|(?<=\])(\()", r"\\\g<0>", plain(text))


def latex(text: str) -> str:
    """`text` for LaTeX."""
    return plain(text).translate(_LATEX)


def csv_text(table: pd.DataFrame) -> str:
    """`table` as CSV, nested values as JSON text. A text that a spreadsheet would run as a formula
    gets an apostrophe in front."""
    return str(table.astype(object).map(_csv_cell).to_csv(index=False))


def _csv_cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return value
    value = writable(value)
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
