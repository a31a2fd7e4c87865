"""Self-contained HTML pages: data, style and script are inside, so a page works offline, on a
phone, and in ten years."""

from __future__ import annotations

import json
from importlib.resources import files

import pandas as pd

from clustered_bandit_gym._types import Values


def fill(template: str, data: Values) -> str:
    """The page of the file `template` of this package: ``__STYLE__`` and ``__SCRIPT__`` become the
    style and the script that all pages share, and ``__DATA__`` becomes `data` as JSON."""
    # JSON has no NaN and no infinity: Python reads what it has written for them as null.
    # Numbers of NumPy become those of Python, missing ones null.
    known = json.dumps(data, default=lambda value: None if value is pd.NA else value.item())
    data = json.loads(known, parse_constant=lambda name: None)
    # No "<" may occur in the script element: in a policy's message it could end the element early.
    text = json.dumps(data).replace("<", "\\u003c")
    page, style, script = (
        files("clustered_bandit_gym").joinpath(name).read_text(encoding="utf-8")
        for name in (template, "harness/output/page.css", "harness/output/page.js")
    )
    page = page.replace("__STYLE__", style).replace("__SCRIPT__", script)
    return page.replace("__DATA__", text)
