"""How numbers are written for people: one format for boards, plots, reports and sentences."""

from __future__ import annotations

import math
from typing import Any

#: Stands for a number that does not exist.
DASH = "–"


def number(value: Any, mark: str = "", digits: int = 3) -> str:
    """`value` as text: whole numbers below 100,000 in full ("12,345"), else `digits` significant
    ones ("6.42e7")."""
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return f"{mark}∞"
    whole = round(value)
    # The form is chosen after rounding: 999.9 is 1,000 to three digits.
    front, _, power = f"{value:.{digits - 1}e}".partition("e")
    if abs(whole) < 100_000 and (value == whole or int(power) >= digits - 1):
        return f"{mark}{whole:,}"
    if 0.001 <= abs(value) < 1000:
        return f"{mark}{value:#.{digits}g}"
    return f"{mark}{front}e{int(power)}"


def interval(low: float, high: float, digits: int = 3) -> str:
    """“[low, high]”."""
    return f"[{number(low, digits=digits)}, {number(high, digits=digits)}]"


def counted(count: int, noun: str) -> str:
    """“1 trial”, “2,000 trials”."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
