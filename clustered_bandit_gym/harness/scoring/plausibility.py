"""Implausible results: fewer pulls, or fewer bits from the agents, than a δ-PC policy can do with.

One rule for board, audit and suite. Both tests count trials by a confidence sequence, so each
raises a false alarm with probability at most `LEVEL`, whatever the law of the pulls, at all numbers
of trials together.

**Pulls.** Let b be the lower bound of a trial's instance, and call a trial *short* if it ends with
the right answer after at most c·b pulls. A policy that is δ-PC under Assumption 1 has

    P(short) ≤ p(c),  the largest p with kl(p, δ) ≤ c·kl(δ, 1 − δ),

where kl(p, q) = p ln(p/q) + (1 − p) ln((1 − p)/(1 − q)). docs/judging.md has the proof.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import rel_entr

from clustered_bandit_gym.harness.scoring.verdict import confidence_sequence

#: False-alarm probability of each of the two tests. Tiny, since an alarm accuses.
LEVEL = 1e-6


def short_probability(share: float, delta: float) -> float:
    """p(c): how often a δ-PC policy may be right within `share` times the lower bound, at most."""

    def divergence(p: float) -> float:
        return float(rel_entr(p, delta) + rel_entr(1 - p, 1 - delta))

    allowed = share * divergence(1 - delta)
    return float(brentq(lambda p: divergence(p) - allowed, delta, 1 - delta))


def too_few_pulls(rows: pd.DataFrame, delta: float) -> str:
    """What contradicts δ-correctness in the pulls of these trials, in words; "" if nothing does.
    `rows` has one per trial; `bound`, the lower bound on the mean number of pulls on its instance,
    is missing where there is none. `delta` is the error rate that the policy was asked to keep."""
    if delta >= 0.5:
        return ""
    bounded = rows[rows["bound"].astype(float) > 0]  # NaN is not
    right = bounded[bounded["outcome"] == "solved"]
    known = len(bounded)
    shares = (0.0, 0.02, 0.1, 0.3, 0.6)  # each has its part of the level
    for share in shares:
        short = (right["pulls"] <= share * right["bound"]).sum()
        allowed = short_probability(share, delta)
        low, _ = confidence_sequence(short, known, LEVEL / len(shares), allowed)
        if low > allowed:
            return (
                f"is right with at most {share:g} of the lower bound's pulls in {short:,} of "
                f"{known:,} trials, too often for a policy that is δ-PC under Assumption 1 (at "
                f"most {allowed:.2g} of them)"
            )
    return ""


def too_few_bits(flags: ArrayLike) -> str:
    """What contradicts that the answers came through the channel, in words; "" if nothing does. A
    code that sends little in some cases must send more in others: less than half of the information
    in right answers cannot be the rule. `flags`: (n,) `suspicious_communication` of each trial,
    which `play` marks."""
    marked = np.asarray(flags, dtype=bool)
    count = marked.sum()
    low, _ = confidence_sequence(count, marked.size, LEVEL, 0.5)
    if low > 0.5:
        return (
            "is right with less than half of the bits that its answers take, in "
            f"{count:,} of {marked.size:,} trials"
        )
    return ""


def implausible(rows: pd.DataFrame, delta: float, guarantee: str) -> str:
    """Why the trials of one policy on one environment are implausible; "" if they are not. `rows`
    has one row per trial. The test of pulls is for policies that rely on Assumption 1 alone: one
    whose `guarantee` names Assumption 2 is exempt."""
    exempt = re.search(r"Assumptions?\b[^.;:]*\b2\b", guarantee)
    few = "" if exempt else too_few_pulls(rows, delta)
    return few or too_few_bits(rows["suspicious_communication"])
