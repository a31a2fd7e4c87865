"""How policies look: one label, colour and marker per policy in every picture and on every page.

A policy's look follows from its name, not from its position on a board; only the marker of a policy
that does not ship yields where it is taken. Policies that ship have the colours of Okabe and Ito,
variants of naive two warm greys, all others two colours of their own; they stay distinct with any
colour vision. Markers and dashes tell policies apart without colour.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from clustered_bandit_gym.errors import UserError


class Style(NamedTuple):
    """Look of one policy: its display name, colour, marker and line of Matplotlib."""

    label: str
    colour: str
    marker: str
    dashes: str | tuple[int, tuple[int, ...]] = "-"


#: Colours of policies that do not ship with the package.
OTHERS = ("#AA3377", "#B2182B")
#: Colours of naive with settings.
GREYS = ("#707048", "#A09058")
#: Of policies that do not ship: one of the first seven, or the first that is free.
MARKERS = "os^DvPX<>ph*"
#: Colour of text. No text is written in a policy's colour: some of them are too pale on white.
INK = "#1d2733"

_DASHED, _DOTTED = (0, (5, 2)), (0, (1, 1))
_KNOWN = {
    "naive": Style("Naive", "#000000", "s"),
    "naive:engine=top-two": Style("Naive (engine=top-two)", GREYS[0], ">", _DOTTED),
    "cl-bai": Style("Cl-BAI", "#D55E00", "^"),
    "bai-cl": Style("BAI-Cl", "#0072B2", "o"),
    # With gaps: its pulls are often those of BAI-Cl, whose line is beneath.
    "bai-cl++": Style("BAI-Cl++", "#009E73", "D", (0, (3, 3))),
    "bai-cl++:confidence=certified": Style(
        "BAI-Cl++ (confidence=certified)", "#009E73", "s", (0, (5, 1, 1, 1))
    ),
    "bai-cl++:verify=agent": Style("BAI-Cl++, check at agents", "#009E73", "v", (0, (3, 1))),
    "structured-bai": Style("StructuredBAI", "#E69F00", "P"),
    "frugal-bai": Style("FrugalBAI", "#CC79A7", "*"),
    "cluster-then-bai": Style("Cluster, then BAI", "#0072B2", ">", _DASHED),
    "collaborative": Style("Collaborative", "#009E73", "p", _DASHED),
    "learned": Style("Learned", "#CC79A7", "h"),
    "uniform-glr": Style("Uniform GLR", "#56B4E9", "X"),
    "uniform": Style("Uniform", "#56B4E9", "<", _DASHED),
    "random": Style("Random", "#CC79A7", "p", _DOTTED),
}


def style_of(policy: str) -> Style:
    """The look of `policy`. A policy with settings ("bai-cl++:verify=agent") keeps the colour of
    its family; the rest follows from a checksum of the name."""
    if policy in _KNOWN:
        return _KNOWN[policy]
    family, _, settings = policy.partition(":")
    code = zlib.crc32(policy.encode(errors="replace"))
    marker = MARKERS[code % 7]
    dashes = (_DASHED, _DOTTED, (0, (5, 1, 1, 1)))[code // 7 % 3]
    if family in _KNOWN:
        base = _KNOWN[family]
        colour = GREYS[code // 21 % 2] if family == "naive" else base.colour
        return Style(f"{base.label} ({settings})", colour, marker, dashes)
    return Style(policy, OTHERS[code // 21 % 2], marker, dashes)


def styles_of(policies: Iterable[str], labels: Mapping[str, str] | None = None) -> dict[str, Style]:
    """The looks of policies that share a picture; `labels` replaces the display names of some."""
    looks = {policy: style_of(policy) for policy in policies}
    for policy, label in (labels or {}).items():
        if policy not in looks:
            known = ", ".join(looks)
            raise UserError(f"label: no policy is called {policy!r} here; there are {known}")
        looks[policy] = looks[policy]._replace(label=label)
    own = [policy for policy in looks if policy.partition(":")[0] not in _KNOWN]
    taken = {look.marker for policy, look in looks.items() if policy not in own}
    for policy in own:
        free = [marker for marker in looks[policy].marker + MARKERS if marker not in taken]
        looks[policy] = looks[policy]._replace(marker=(free or MARKERS)[0])
        taken.add(looks[policy].marker)
    return looks
