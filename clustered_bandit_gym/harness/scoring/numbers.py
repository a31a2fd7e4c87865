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
    value = float(value)
    whole = round(value)
    # The form is chosen after rounding: 999.9 is 1,000 to three digits.
    full = abs(float(f"{value:.{digits - 1}e}")) >= 10 ** (digits - 1)
    if abs(whole) < 100_000 and (value == whole or full):
        text = f"{whole:,}"
    elif 0.001 <= abs(value) < 1000:
        text = f"{value:#.{digits}g}".rstrip(".")
    else:
        front, _, power = f"{value:.{digits - 1}e}".partition("e")
        text = f"{front}e{int(power)}"
    return mark + text


def interval(low: float, high: float, digits: int = 3) -> str:
    """“[low, high]”, or a dash where an end does not exist."""
    if math.isnan(low) or math.isnan(high):
        return DASH
    return f"[{number(low, digits=digits)}, {number(high, digits=digits)}]"


def counted(count: int, noun: str) -> str:
    """“1 trial”, “2,000 trials”."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
