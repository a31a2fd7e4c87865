"""A claim of the paper with its verdict, and how names and numbers are written."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clustered_bandit_gym.experiments.figures import OURS

HOLDS, FAILS, UNTESTED, OPEN = "holds", "does not hold", "cannot be tested here", "undecided"


@dataclass(frozen=True)
class Claim:
    """What the paper says, what came out, and one of the four verdicts."""

    figure: str
    text: str
    measured: str
    verdict: str


def judge(signs: list[int], wanted: int) -> str:
    """The verdict on a claim that every comparison has the sign `wanted`; 0 is an interval that settles nothing."""
    if any(sign == -wanted for sign in signs):
        return FAILS
    return OPEN if 0 in signs else HOLDS


#: Names as the paper writes them.
NAMES = {
    "naive": "naive",
    "cl-bai": "Cl-BAI",
    "bai-cl": "BAI-Cl",
    "bai-cl++": "BAI-Cl++",
    OURS: "StructuredBAI (ours)",
}
SIGNS = {"n_agents": "N", "n_clusters": "M", "eta": "η", "alpha": "α"}


def name_of(policy: str) -> str:
    """“BAI-Cl, certified” for ``bai-cl:confidence=certified``."""
    plain, _, setting = policy.partition(":")
    return NAMES[plain] + (f", {setting.replace('confidence=', '').replace('verify=', 'check at ')}" if setting else "")


def table(header: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def short(value: float) -> str:
    """Three digits: 1.61e9, 524, 0.0123."""
    if not math.isfinite(value):
        return str(float(value))
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"
