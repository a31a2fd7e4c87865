"""Griffe extension: a line of a docstring that describes several arguments becomes one line for each of them.

"c_b, c_r: prices" is read as one argument with that odd name; its types and defaults are then missing on the site.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

#: Indented names with commas, a colon, and a text that may go on in lines that are indented further.
SEVERAL = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +\S.*)*)", re.M)


class SplitNames(griffe.Extension):
    """Splits such lines in every docstring of the package."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that Griffe has loaded."""
        if obj.docstring:
            obj.docstring.value = split_names(obj.docstring.value)


def split_names(docstring: str) -> str:
    """The docstring with one line per argument."""
    return SEVERAL.sub(
        lambda m: "\n".join(f"{m[1]}{name}: {m[3]}" for name in m[2].split(", ")), docstring
    )
