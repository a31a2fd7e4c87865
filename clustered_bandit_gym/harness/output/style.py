"""How policies look: one label, colour and marker per policy in every picture and on every page.

A policy's look follows from its name alone, never from its position on a board. Policies that ship
have the colours of Okabe and Ito, all others two colours of their own; they stay distinct with any
colour vision. Markers and dashes tell policies apart without colour.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple


class Style(NamedTuple):
    """Look of one policy: its display name, colour, marker and line of Matplotlib."""

    label: str
    colour: str
    marker: str
    dashes: str | tuple[int, tuple[int, ...]] = "-"


#: Colours of policies that do not ship with the package.
OTHERS = ("#AA3377", "#B2182B")
#: Colour of text. No text is written in a policy's colour: some of them are too pale on white.
INK = "#1d2733"

_KNOWN = {
    "naive": Style("Naive", "#000000", "s"),
    "naive:engine=top-two": Style("Naive (engine=top-two)", "#000000", "o", (0, (1, 1))),
    "cl-bai": Style("Cl-BAI", "#D55E00", "^"),
    "bai-cl": Style("BAI-Cl", "#0072B2", "o"),
    "bai-cl++": Style("BAI-Cl++", "#009E73", "D"),
    "bai-cl++:verify=agent": Style("BAI-Cl++, check at agents", "#009E73", "v", (0, (3, 1))),
    "structured-bai": Style("StructuredBAI", "#E69F00", "P"),
    "frugal-bai": Style("FrugalBAI", "#CC79A7", "D"),
    "cluster-then-bai": Style("Cluster, then BAI", "#0072B2", "^", (0, (5, 2))),
    "collaborative": Style("Collaborative", "#009E73", "X", (0, (5, 2))),
    "learned": Style("Learned", "#CC79A7", "v"),
    "uniform-glr": Style("Uniform GLR", "#56B4E9", "X"),
    "uniform": Style("Uniform", "#56B4E9", "v", (0, (1, 1))),
    "random": Style("Random", "#CC79A7", "X", (0, (1, 1))),
}


def style_of(policy: str) -> Style:
    """The look of `policy`. A policy with settings ("bai-cl++:verify=agent") keeps the colour of
    its family; the rest follows from a checksum of the name."""
    if policy in _KNOWN:
        return _KNOWN[policy]
    family, _, settings = policy.partition(":")
    code = zlib.crc32(policy.encode(errors="replace"))
    marker = "os^DvPX"[code % 7]
    dashes = ((0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))[code // 7 % 3]
    if family in _KNOWN:
        base = _KNOWN[family]
        return Style(f"{base.label} ({settings})", base.colour, marker, dashes)
    return Style(policy, OTHERS[code // 21 % 2], marker, dashes)
