r"""Text from policies and files made safe for each output. Names and error messages may hold anything.

`plain` comes first everywhere: control characters, line breaks, bidirectional overrides and lone surrogates become
visible escapes such as ``\x1b``. Markdown, LaTeX and CSV then escape their own markup; HTML has `html.escape`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

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
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "∞": r"$\infty$",
    "·": r"$\cdot$",
    "–": "--",
    "…": r"\dots{}",
    "“": "``",
    "”": "''",
    "±": r"$\pm$",
    "α": r"$\alpha$",
    "δ": r"$\delta$",
    "η": r"$\eta$",
    "σ": r"$\sigma$",
}


def plain(text: str) -> str:
    r"""`text` on one line with nothing that acts: ``"a\x1b[2Jb"`` shows its escape and does not clear the screen."""
    # Categories that a terminal or browser may act on: controls, formats, surrogates, breaks.
    active = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        repr(sign)[1:-1] if unicodedata.category(sign) in active else sign for sign in text
    )


def markdown(text: str) -> str:
    """`text` for a Markdown page or cell: markup shows as it is written."""
    return re.sub(r"([\\`*_|<>#~])|(?<=\])(\()", r"\\\g<0>", plain(text))


def latex(text: str) -> str:
    """`text` for LaTeX."""
    return "".join(_LATEX.get(sign, sign) for sign in plain(text))


def latex_number(text: str) -> str:
    r"""A cell of numbers for LaTeX: “6.44e7” becomes ``$6.44\times10^{7}$``, “1e-10” becomes ``$10^{-10}$``."""
    powers = re.sub(r"(\d(?:\.\d+)?)e(-?\d+)", r"$\1\\times10^{\2}$", latex(text))
    return powers.replace(r"$1\times10^", "$10^")


def csv_cell(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula gets an apostrophe in front; anything
    else is unchanged."""
    if not isinstance(value, str):
        return value
    value = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
