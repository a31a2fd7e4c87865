"""How policies and verdicts look: one label, colour and marker per policy in every picture and on
every page.

A policy's look follows from its name alone, never from its position on a board. Colours are those
of Okabe and Ito, which stay distinct with any colour vision; markers and dashes tell policies apart
without colour.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

Dashes = str | tuple[int, tuple[int, ...]]


class Style(NamedTuple):
    """Look of one policy: its display name, colour, marker and line of Matplotlib."""

    label: str
    colour: str
    marker: str
    dashes: Dashes = "-"


#: Yellow, the eighth colour of the palette, is left out: it fades on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES: tuple[Dashes, ...] = ((0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))

_KNOWN = {
    "naive": Style("Naive", "#000000", "s"),
    "cl-bai": Style("Cl-BAI", "#D55E00", "^"),
    "bai-cl": Style("BAI-Cl", "#0072B2", "o"),
    "bai-cl++": Style("BAI-Cl++", "#009E73", "D"),
    "bai-cl++:verify=agent": Style("BAI-Cl++, check at agents", "#009E73", "v", (0, (3, 1))),
    "structured-bai": Style("StructuredBAI", "#E69F00", "P"),
    "frugal-bai": Style("FrugalBAI", "#CC79A7", "D"),
    "learned": Style("Learned", "#CC79A7", "v"),
    "uniform-glr": Style("Uniform GLR", "#56B4E9", "X"),
    "uniform": Style("Uniform", "#56B4E9", "v", (0, (1, 1))),
    "random": Style("Random", "#CC79A7", "X", (0, (1, 1))),
}

#: Pairs of colour and marker that no known policy has.
_FREE = [
    (colour, marker)
    for colour in COLOURS
    for marker in MARKERS
    if (colour, marker) not in {known[1:3] for known in _KNOWN.values()}
]

#: Colour of text. No text is written in a policy's colour: some of them are too pale on white.
INK = "#1d2733"
#: Colour of a FAIL.
FAIL = "#b3261e"
#: What the marks mean, in the words of every legend.
HOLLOW, CROSSED = "hollow: some trials unfinished", "crossed out: FAIL"


def style_of(policy: str) -> Style:
    """The look of `policy`. A policy with settings ("bai-cl++:verify=agent") keeps the colour of
    its family and gets another marker and dashes; a name that is not known gets a look from a
    checksum of the name."""
    if policy in _KNOWN:
        return _KNOWN[policy]
    family, _, settings = policy.partition(":")
    base = _KNOWN.get(family)
    code = zlib.crc32((settings if base else policy).encode())
    if base is None:
        colour, marker = _pick(_FREE, code)
        return Style(policy, colour, marker, _pick(("-", *_DASHES), code // len(_FREE)))
    others = [marker for marker in MARKERS if marker != base.marker]
    return Style(
        f"{base.label} ({settings})", base.colour, _pick(others, code), _pick(_DASHES, code // 7)
    )


def suffix_of(rows: pd.DataFrame) -> str:
    """What a legend adds to the name of a policy with these rows of a summary: ", FAIL", ", 3 of 50
    unfinished".
    """
    failed, unfinished = int((rows["verdict"] == "FAIL").sum()), int(rows["unfinished"].sum())
    parts = []
    if failed:
        parts.append("FAIL" if failed == len(rows) else f"FAIL at {failed} of {len(rows)}")
    if unfinished:
        parts.append(f"{unfinished:,} of {rows['trials'].sum():,} unfinished")
    if "pulls_mean" in rows and (rows["pulls_mean"] == 0).any():
        parts.append("zero pulls (not on a log axis)")
    return "".join(f", {part}" for part in parts)


def _pick(values: Sequence[Any], code: int) -> Any:
    return values[code % len(values)]
