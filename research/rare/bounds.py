"""Certified bounds on the mean of non-negative weights, valid at any number of plays.

X_1, X_2, ... ≥ 0 are independent with mean p: the weights of the plays, 0 for a play without an
error. For a stake λ in [0, 1] fixed beforehand, the wealth

    W_n(m) = Π_{i ≤ n} (1 − λ + λ·X_i/m)

is a supermartingale that starts at 1 whenever p ≤ m: an e-process against "p ≤ m". By Ville's
inequality it ever reaches 1/α with probability at most α. So does an average of wealths over
stakes, or over several independent searches. W_n(m) falls in m, hence the m with sup W_n(m) ≥ 1/α
lie below a number, the lower confidence bound. Weights may be heavy-tailed: nothing but X ≥ 0 is
used. docs/rare.md has the proofs.
"""

from __future__ import annotations

import math

import numpy as np

from clustered_bandit_gym._types import Floats

#: Stakes whose wealths are averaged: one for each order of magnitude of the weights' spread.
STAKES = 0.5 ** np.arange(1, 15)


def log_wealth(log_weights: Floats, log_mean: float) -> Floats:
    """(n,) log of the averaged wealth against "p ≤ exp(log_mean)" after each play; −inf is a weight
    of 0.
    """
    ratios = np.exp(np.minimum(log_weights - log_mean, 700.0))
    paths = np.log1p(STAKES[:, None] * (ratios - 1)).cumsum(axis=1)
    return np.logaddexp.reduce(paths, axis=0) - math.log(STAKES.size)


def log_lower_bound(sequences: list[Floats], shares: list[float], alpha: float = 0.05) -> float:
    """Log of the lower 1 − alpha confidence bound on p; −inf if no weight is positive.

    Args:
        sequences: log weights of the plays, several sequences for one p. Each must have mean p
            given the plays before. A sequence may leave out plays that belong to others: it just
            does not bet on them. All have the same length n, with NaN for plays that were left out.
        shares: of the initial wealth bet on each sequence; they sum to 1.
    """
    positive = [s[np.isfinite(s)] for s in sequences]
    if not any(s.size for s in positive):
        return -math.inf
    goal = math.log(1 / alpha)

    def reached(log_mean: float) -> bool:
        total = np.full(sequences[0].size, -np.inf)
        for logs, share in zip(sequences, shares, strict=True):
            played = ~np.isnan(logs)
            wealth = np.zeros(logs.size)
            if played.any():
                # Wealth stays what it was through plays that a sequence leaves out.
                last = np.cumsum(played) - 1
                path = np.append(log_wealth(logs[played], log_mean), 0.0)
                wealth = path[last]
            total = np.logaddexp(total, math.log(share) + wealth)
        return bool(total.max() >= goal)

    # No bound can exceed the largest weight: no bet wins there.
    high = max(float(s.max()) for s in positive if s.size)
    low = high - 5.0
    while not reached(low):
        low -= 5.0 + 0.5 * (high - low)
        if low < high - 2000:
            return -math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low


def upper_bound(weights: Floats, largest: float, alpha: float = 0.05) -> float:
    """Upper 1 − alpha confidence bound on p for weights that cannot exceed `largest`, valid at any
    number of plays.

    The same bets, on largest − X: they are non-negative, with mean largest − p. Only a bound that
    is *proved* for the policy makes this certified; docs/rare.md says for which policies there is
    one.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if not largest > 0 or np.any(weights > largest * (1 + 1e-9)) or np.any(weights < 0):
        raise ValueError(
            f"weights must lie in [0, largest = {largest:.3g}], got up to "
            f"{weights.max(initial=0):.3g}"
        )
    if not weights.size:
        return largest
    below = np.maximum(1 - weights / largest, 0.0)

    def rejected(p: float) -> bool:
        """Enough wealth against "the mean is at least p", 0 < p < 1 in units of `largest`."""
        # Bets on Y = 1 − X/largest ≥ 0 against E Y ≤ 1 − p: factors 1 + λ(Y/(1 − p) − 1), any λ in
        # [0, 1].
        stakes = np.append(STAKES, 1.0)
        with np.errstate(divide="ignore"):  # everything staked and lost: −inf
            paths = np.log1p(stakes[:, None] * (below / (1 - p) - 1)).cumsum(axis=1)
        wealth = np.logaddexp.reduce(paths, axis=0) - math.log(stakes.size)
        return bool(wealth.max() >= math.log(1 / alpha))

    low, high = 0.0, 1.0
    for _ in range(50):  # short of 2⁻⁵³, below which 1 − p cannot be told from 0
        middle = (low + high) / 2
        low, high = (low, middle) if rejected(middle) else (middle, high)
    return float(high * largest)
