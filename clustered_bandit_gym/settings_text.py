"""Settings written as text, KEY=VALUE: in policy specifications and on the command line."""

from __future__ import annotations

import json
from typing import Any

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.errors import UserError

_WORDS = {"true": True, "false": False, "none": None}


def parse_value(text: str) -> Any:
    """true, false, none (in any case), JSON, a number of Python, or else the text itself."""
    word = text.lower()
    if word in _WORDS:
        return _WORDS[word]
    for read in (json.loads, int, float):  # int and float also take 1_000, .5 and inf
        try:
            return read(text)
        except ValueError:
            continue
    return text


def parse_pair(text: str) -> tuple[str, Any] | None:
    """("key", value) of KEY=VALUE with a Python name as key; else None, since paths contain "="."""
    key, equals, value = text.partition("=")
    key = key.strip()
    return (key, parse_value(value.strip())) if equals and key.isidentifier() else None


def parse_pairs(texts: list[str], option: str) -> Values:
    """Several KEY=VALUE, each key once. `option` names their origin in error messages."""
    found: Values = {}
    for text in texts:
        key, value = parse_pair(text) or ("", None)
        if not key or key in found:
            raise UserError(f"{option} takes KEY=VALUE, each key once; got {text!r}")
        found[key] = value
    return found
