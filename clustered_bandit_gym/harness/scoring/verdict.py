"""Is the error rate at most δ? A verdict that holds however often one looks and however many trials are added later.

`errors` among `trials` independent plays are Bernoulli with an unknown rate p. For a law π of p fixed before the data,

    W(p) = ∫ q^S (1 − q)^(n − S) dπ(q)  /  (p^S (1 − p)^(n − S)),     S errors in n trials,

is a martingale with mean one if p is the true rate, so by Ville's inequality it ever reaches 1/α with probability at
most α. The rates with W(p) < 1/α are therefore a *confidence sequence*: with probability 1 − α the truth lies in it at
all n at once. log W is convex in p, hence the set is an interval; it holds S/n, since no average of likelihoods exceeds
the largest.

π is 0.9·Beta(1/2, (1/δ − 1)/2) + 0.1·Beta(1/2, 1/2). The first part has mean δ, so that the interval is sharp where the
question is asked: a PASS without a single error takes 41, 83 and 420 trials at δ = 0.1, 0.05 and 0.01 (53, 116 and 680
with Beta(1/2, 1/2) alone; 29, 59 and 299 with a test that may look once, at a number fixed beforehand). The second part
keeps rates far from δ in sight: one error in 50 trials is a FAIL at δ = 1e-10. Both parts together cost ln(10/9) in the
exponent. δ is fixed before the data, and so is π: the interval is valid for any true rate, and it depends on the δ it
was made for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, expit

from clustered_bandit_gym._types import Floats

Word = Literal["PASS", "FAIL", "INCONCLUSIVE"]

#: Weight of the part of the mixture that has mean δ; the rest is Beta(1/2, 1/2).
WEIGHT_AT_DELTA = 0.9
#: A PASS that needs more error-free trials than this is called out of reach of simulation in the text.
MANY_TRIALS = 10**7


@dataclass(frozen=True)
class Verdict:
    """What so many errors in so many trials say about "the error rate is at most δ".

    Attributes:
        word: PASS if the interval ends at or below δ, FAIL if it begins above δ, else INCONCLUSIVE.
        low, high: the confidence sequence at this number of trials.
        more: further error-free trials that a PASS would need (0 after a PASS, None after a FAIL).
        text: the same in one sentence.
    """

    word: Word
    low: float
    high: float
    more: int | None
    text: str

    def __str__(self) -> str:
        return self.text


@overload
def confidence_sequence(
    errors: int, trials: int, alpha: float = 0.05, delta: float | None = None
) -> tuple[float, float]: ...
@overload
def confidence_sequence(
    errors: ArrayLike, trials: ArrayLike, alpha: float = 0.05, delta: float | None = None
) -> tuple[Floats, Floats]: ...
def confidence_sequence(
    errors: ArrayLike, trials: ArrayLike, alpha: float = 0.05, delta: float | None = None
) -> tuple[float, float] | tuple[Floats, Floats]:
    """Ends of the level 1 − alpha confidence sequence for the error rate, valid at all numbers of trials at once.

    Args:
        errors, trials: whole numbers, or arrays of them that broadcast: one interval for each pair.
        alpha: probability that the sequence ever misses the true rate, at most.
        delta: the rate that the question is about, fixed before the data; makes the interval sharp there. None mixes
            over Beta(1/2, 1/2) alone.

    Returns:
        (low, high): two floats for whole numbers, two float arrays for arrays. (0, 1) where there are no trials.
    """
    s, n = _counts(errors, trials)
    _check_level(alpha, delta)
    # W(p) < 1/alpha  <=>  log-likelihood of p > floor.
    floor = _log_mixture(s, n, delta) + np.log(alpha)
    low = np.where(s > 0, expit(_lower_log_odds(s, n, floor)), 0.0)
    # The upper end is the lower end for the successes, mirrored.
    high = np.where(s < n, expit(-_lower_log_odds(n - s, n, floor)), 1.0)
    return (float(low), float(high)) if s.ndim == 0 else (low, high)


def verdict(errors: int, trials: int, delta: float, alpha: float = 0.05) -> Verdict:
    """PASS, FAIL or INCONCLUSIVE on "the error rate is at most `delta`", wrong with probability at most `alpha` even if
    it is asked after every trial.

    `trials` counts the unfinished ones too: δ-correctness bounds P(stopped and wrong).
    """
    low, high = confidence_sequence(errors, trials, alpha, delta)
    word: Word = "PASS" if high <= delta else "FAIL" if low > delta else "INCONCLUSIVE"
    more = None if word == "FAIL" else 0 if word == "PASS" else _more(errors, trials, delta, alpha)
    return Verdict(word, low, high, more, _sentence(word, errors, trials, low, high, more, delta, alpha))


def _log_mixture(s: Floats, n: Floats, delta: float | None) -> Floats:
    """log ∫ q^S (1 − q)^(n − S) dπ(q)."""
    jeffreys = betaln(0.5 + s, 0.5 + n - s) - betaln(0.5, 0.5)
    if delta is None:
        return jeffreys
    b = (1 / delta - 1) / 2
    sharp = betaln(0.5 + s, b + n - s) - betaln(0.5, b)
    return np.logaddexp(np.log(WEIGHT_AT_DELTA) + sharp, np.log1p(-WEIGHT_AT_DELTA) + jeffreys)


def _lower_log_odds(s: Floats, n: Floats, floor: Floats) -> Floats:
    """The x < logit(S/n) at which the log-likelihood at log-odds x equals `floor`, for S > 0.

    The log-likelihood is concave in x and lies below S·x: Newton's steps from the root of S·x = floor increase towards
    the solution and never pass it, so that an early end errs on the wide side. Log-odds keep the relative precision of
    rates near 0 and near 1.
    """
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


def _more(errors: int, trials: int, delta: float, alpha: float) -> int:
    """Least m such that m further error-free trials give a PASS.

    With S fixed the upper end falls with n once S/n ≤ δ, where alone a PASS is possible: search by
    doubling, then halve.
    """

    def passes(m: int) -> bool:
        return confidence_sequence(errors, trials + m, alpha, delta)[1] <= delta

    start = max(0, int(np.ceil(errors / delta)) - trials)
    step = 1
    while not passes(start + step):
        step *= 2
    low, high = start, start + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _sentence(
    word: Word, errors: int, trials: int, low: float, high: float, more: int | None, delta: float, alpha: float
) -> str:
    count = f"{errors:,} error{'' if errors == 1 else 's'} in {trials:,} trial{'' if trials == 1 else 's'}"
    band = f"error rate in [{low:.3g}, {high:.3g}] at confidence {1 - alpha:.4g}, valid at any number of trials"
    if word == "PASS":
        return f"PASS: {count}; {band}: at most δ = {delta:g}"
    if word == "FAIL":
        return f"FAIL: {count}; {band}: above δ = {delta:g}"
    assert more is not None
    if more > MANY_TRIALS:
        need = (
            f"a PASS at δ = {delta:g} would take {more:.2g} further error-free trials, out of reach of simulation: "
            f"these trials can show a broken policy, or that the error rate is below {high:.2g}, and no more"
        )
    else:
        need = f"{more:,} further error-free trial{'' if more == 1 else 's'} would give a PASS at δ = {delta:g}"
    return f"INCONCLUSIVE: {count}; {band}; {need}"


def _counts(errors: ArrayLike, trials: ArrayLike) -> tuple[Floats, Floats]:
    s, n = np.broadcast_arrays(np.asarray(errors), np.asarray(trials))
    for name, values in (("errors", s), ("trials", n)):
        if values.dtype.kind not in "iu":
            raise ValueError(f"{name} must be whole numbers, got {values.dtype}")
    if np.any(s < 0) or np.any(s > n):
        raise ValueError("errors must lie between 0 and the number of trials")
    return s.astype(np.float64), n.astype(np.float64)


def _check_level(alpha: float, delta: float | None) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    if delta is not None and not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
