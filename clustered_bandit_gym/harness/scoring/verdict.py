"""The one rule for verdicts: is P(stopped and wrong) at most δ?

`verdict` is called by the board, the report, the audit and the demo. Of n independent trials some
stopped with a wrong answer and some are unfinished (out of budget or of time, raised, or ended
their process). Two rates are bounded:

* **FAIL** if the confidence sequence of P(stopped and wrong) lies above δ;
* **PASS** if the confidence sequence of P(wrong or unfinished) lies at or below δ;
* **INCONCLUSIVE** otherwise, with a sentence that says what would change it.

Unfinished trials alone cannot FAIL a policy. Each sequence misses its rate with probability at most
α, at all numbers of trials at once, so one may look after every trial and add trials later.

**The confidence sequence.** S events in n trials are Bernoulli with unknown rate p. For a law π
fixed before the data,

    W(p) = ∫ q^S (1 − q)^(n − S) dπ(q)  /  (p^S (1 − p)^(n − S))

is a martingale with mean one if p is the true rate, and by Ville's inequality it ever reaches 1/α
with probability at most α. The rates with W(p) < 1/α form the confidence sequence: an interval
around S/n, since log W is convex in p.

**The mixture.** π = 0.9·Beta(1/2, (1/δ − 1)/2) + 0.1·Beta(1/2, 1/2). The first part has mean δ and
makes the interval sharp there, the second keeps rates far from δ in reach; docs/judging.md has
examples.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, expit

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.harness.scoring.numbers import counted, number

Word = Literal["PASS", "FAIL", "INCONCLUSIVE"]

#: A PASS that needs more trials than this is called out of reach of simulation.
MANY_TRIALS = 10**6


class Verdict(NamedTuple):
    """What the trials say about "P(stopped and wrong) is at most δ".

    Attributes:
        word: PASS, FAIL or INCONCLUSIVE.
        low: lower end of the confidence sequence of P(stopped and wrong).
        high: upper end of the confidence sequence of P(wrong or unfinished), hence a bound on
            P(stopped and wrong).
        more: further trials, all finished and right, that a PASS would need, counted up to
            10^6 + 1; 0 after a PASS. None where more trials of this kind cannot give one: after a
            FAIL, and where P(wrong or unfinished) is above δ with confidence 1 − α.
        reason: in a sentence, counts, interval, and what would change an INCONCLUSIVE.
    """

    word: Word
    low: float
    high: float
    more: int | None
    reason: str


def confidence_sequence(
    errors: ArrayLike, trials: ArrayLike, alpha: float = 0.05, delta: float = 0.5
) -> tuple[Any, Any]:
    """Ends of the level 1 − alpha confidence sequence for the error rate, valid at all numbers of
    trials at once.

    Args:
        errors, trials: whole numbers, or arrays of them that broadcast: one interval for each pair.
        alpha: probability that the sequence ever misses the true rate, at most.
        delta: the rate that the question is about, fixed before the data; makes the interval sharp
            there. At 0.5 both parts of the mixture are Beta(1/2, 1/2).

    Returns:
        The ends (low, high), floats for whole numbers and float arrays for arrays; (0, 1) where
        there are no trials.
    """
    s, n = np.broadcast_arrays(errors, trials)
    # The mixture, log ∫ q^S (1 − q)^(n − S) dπ(q).
    jeffreys = betaln(0.5 + s, 0.5 + n - s) - betaln(0.5, 0.5)
    # Any parameter fixed before the data is valid; the limit keeps it finite for subnormal δ.
    b = (1 / max(delta, 1e-300) - 1) / 2
    sharp = betaln(0.5 + s, b + n - s) - betaln(0.5, b)
    mixed = np.logaddexp(np.log(0.9) + sharp, np.log(0.1) + jeffreys)
    # W(p) < 1/alpha  <=>  log-likelihood of p > floor.
    floor = mixed + np.log(alpha)
    low = np.where(s > 0, expit(_lower_log_odds(s, n, floor)), 0.0)
    # The upper end is the lower end for the successes, mirrored.
    high = np.where(s < n, expit(-_lower_log_odds(n - s, n, floor)), 1.0)
    return low[()], high[()]  # numbers where there are no axes


def verdict(
    errors: int, trials: int, delta: float, alpha: float = 0.05, *, unfinished: int = 0
) -> Verdict:
    """Judge one policy on one environment; wrong about δ-correctness with probability at most
    `alpha`, even if it is asked after every trial.

    Args:
        errors: trials that stopped with a wrong answer.
        trials: all trials, the unfinished ones included.
        delta: the error rate that the policy was asked to keep, fixed before the data.
        alpha: probability that the sequence behind a FAIL, or the one behind a PASS, ever misses
            its rate.
        unfinished: trials without an answer: they count against a PASS, and cannot FAIL a policy.
    """
    against = errors + unfinished
    low, _ = confidence_sequence(errors, trials, alpha, delta)
    against_low, high = confidence_sequence(against, trials, alpha, delta)
    above = f"P(stopped and wrong) ≥ {number(low)}"
    below = f"P({'wrong or unfinished' if unfinished else 'wrong'}) ≤ {number(high)}"
    word: Word = "INCONCLUSIVE"
    more = None
    advice = ""
    if low > delta:
        word = "FAIL"
        shown = f"{above}, more than"
    elif high <= delta:
        word = "PASS"
        shown = f"{below}, at most"
        more = 0
    else:
        shown = f"{above} and {below}, which does not decide on"
        advice = "; but no PASS is possible: it is wrong or unfinished more often than δ"
        if against_low <= delta:
            # The upper end falls with n once S/n ≤ δ, where alone a PASS is possible.
            more = bisect_left(
                range(MANY_TRIALS + 1),
                True,
                key=lambda m: confidence_sequence(against, trials + m, alpha, delta)[1] <= delta,
            )
            kind = "finished and right" if unfinished else "right"
            advice = f"; {counted(more, 'further trial')}, all {kind}, would give a PASS"
            if more > MANY_TRIALS:
                advice = (
                    f"; a PASS would take more than {MANY_TRIALS:,} further trials, all {kind}: "
                    f"these bound the error rate by {number(high)}, and no simulation can confirm δ"
                )
    reason = (
        f"{errors:,} wrong and {unfinished:,} unfinished in {counted(trials, 'trial')}; {shown} "
        f"δ = {delta:g} (confidence {1 - alpha:.4g} at any number of trials){advice}"
    )
    return Verdict(word, low, high, more, reason)


def _lower_log_odds(s: Floats, n: Floats, floor: Floats) -> Floats:
    """The x < logit(S/n) at which the log-likelihood at log-odds x equals `floor`, for S > 0. The
    log-likelihood is concave in x and lies below S·x: Newton's steps from the root of S·x = floor
    increase towards the solution and never pass it, so that an early end errs on the wide side.
    Log-odds keep the relative precision of rates near 0 and near 1."""
    s = np.maximum(s, 1.0)
    x = floor / s
    for _ in range(1000):
        value = -(n - s) * np.logaddexp(0, x) - s * np.logaddexp(0, -x)
        slope = s * expit(-x) - (n - s) * expit(x)
        step = np.maximum((floor - value) / slope, 0)
        x = x + step
        if np.all(step <= 1e-14 * (1 + np.abs(x))):
            break
    return x
