"""Self-contained HTML pages: data, style and script are inside, so a page works offline, on a
phone, and in ten years."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import Any

import pandas as pd


def fill(template: str, data: dict[str, Any]) -> str:
    """The page of `template`: ``__STYLE__`` and ``__SCRIPT__`` become the style and the script
    that all pages share, and ``__DATA__`` becomes `data` as JSON."""
    # No "<" may occur in the script element: in a policy's message it could end the element early.
    text = json.dumps(_plain(data), allow_nan=False).replace("<", "\\u003c")
    here = files("clustered_bandit_gym.harness.output")
    for mark, name in (("__STYLE__", "page.css"), ("__SCRIPT__", "page.js")):
        template = template.replace(mark, here.joinpath(name).read_text(encoding="utf-8"))
    return template.replace("__DATA__", text)


def _plain(value: Any) -> Any:
    """JSON has no NaN, no infinity and no NumPy: missing and infinite numbers become null, the
    rest plain Python."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is pd.NA:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
