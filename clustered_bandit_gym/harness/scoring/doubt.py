"""Too good to be true: fewer pulls, or fewer bits from the agents, than a δ-correct policy can do with.

On an instance with lower bound b a policy that is δ-PC under Assumption 1 makes at least b pulls on average. Over
trials the ratio R of pulls to the bound of the trial's instance then has mean at least one. Significantly less means
that the policy is not δ-PC, that it knew something that no pull told it, or that it relies on Assumption 2, too.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from clustered_bandit_gym.harness.scoring.verdict import confidence_sequence

#: One-sided level of both tests. Far below what anybody calls noise, since a false alarm accuses.
LEVEL = 1e-6
#: Least number of trials for Student's t; with fewer, the mean is not tested.
FEWEST = 5
#: Where the largest ratio holds more than this share of the sum, the mean is not to be judged by Student's t.
HEAVY_SHARE = 0.5
#: What an unfinished trial counts as, since it might have gone on: enough for a policy that mostly runs out of budget,
#: and not so much that a few exceptions hide all other trials.
UNFINISHED_RATIO = 2.0


def needs_assumption_2(policy: object) -> bool:
    """Whether the policy says, in its `guarantee`, that it relies on Assumption 2. The lower bound does not hold for
    such policies where η1 is told."""
    return (
        re.search(r"Assumptions?\b[^.;:]*\b2\b", str(getattr(policy, "guarantee", ""))) is not None
    )


def too_good(pulls: ArrayLike, bounds: ArrayLike, finished: ArrayLike, delta: float) -> str:
    """What contradicts δ-correctness in these trials, in words; "" if nothing does.

    Args:
        pulls: (n,) of each trial.
        bounds: (n,) the lower bound on the mean number of pulls on its instance; NaN where there is none.
        finished: (n,) whether the trial ended with an answer.
        delta: the error rate that the policy was asked to keep.
    """
    made, least = np.asarray(pulls, dtype=float), np.asarray(bounds, dtype=float)
    ended = np.asarray(finished, dtype=bool)
    known = least > 0  # NaN is not
    # Without a pull an answer is a guess, and no guess is right about all instances that the learner was told of.
    guesses = int((known & ended & (made == 0)).sum())
    if guesses and confidence_sequence(guesses, int(known.sum()), LEVEL, delta)[0] > delta:
        return f"answers without a single pull in {guesses:,} of {int(known.sum()):,} trials, more often than δ"
    ratios = np.where(ended, made / np.where(known, least, 1.0), UNFINISHED_RATIO)[known]
    shown = ratios[ended[known]]
    if ratios.size < FEWEST or (shown.sum() > 0 and shown.max() > HEAVY_SHARE * shown.sum()):
        return ""
    mean, spread = float(ratios.mean()), float(ratios.std(ddof=1)) / np.sqrt(ratios.size)
    if mean + float(stats.t.isf(LEVEL, ratios.size - 1)) * spread < 1:
        return f"makes {mean:.3g} times the pulls of the lower bound, too few for any policy that is δ-PC by Assumption 1"
    return ""


def too_quiet(flags: ArrayLike) -> str:
    """What contradicts that the answers came through the channel, in words; "" if nothing does.

    A code that sends little in some cases must send more in others: less than half of the information in right answers
    (`play` marks such trials) cannot be the rule.

    Args:
        flags: (n,) `suspicious_communication` of each trial.
    """
    marked = np.asarray(flags, dtype=bool)
    count = int(marked.sum())
    if count and confidence_sequence(count, marked.size, LEVEL, 0.5)[0] > 0.5:
        return f"is right with less than half of the bits that its answers take, in {count:,} of {marked.size:,} trials"
    return ""
