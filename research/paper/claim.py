"""A claim of the paper with its verdict, and how names and tables are written."""

from __future__ import annotations

from dataclasses import dataclass

from clustered_bandit_gym.reproduce.figures import OURS

HOLDS, FAILS, UNTESTED, OPEN = "holds", "does not hold", "cannot be tested here", "undecided"


@dataclass(frozen=True)
class Claim:
    """What the paper says, what came out, and one of the four verdicts."""

    figure: str
    text: str
    measured: str
    verdict: str


def judge(signs: list[int], wanted: int) -> str:
    """The verdict on a claim that every comparison has the sign `wanted`; 0 is an interval that
    settles nothing.
    """
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
    return NAMES[plain] + (
        f", {setting.replace('confidence=', '').replace('verify=', 'check at ')}" if setting else ""
    )
