"""Up to how many agents BAI-Cl and BAI-Cl++ as printed are known to be δ-PC."""

from __future__ import annotations

import math


def bai_cl_gamma(n_clusters: int, delta: float) -> float:
    """γ of BAI-Cl's first phase (Algorithm 3): δ·ln(M/(M−1))/ln(3M/δ), and δ/3 for M = 1."""
    if n_clusters == 1:
        return delta / 3
    return delta * math.log(n_clusters / (n_clusters - 1)) / math.log(3 * n_clusters / delta)


def se_error(n_arms: int, gamma: float) -> float:
    """Bound on the probability that a call SE(A, γ, R) drops its best arm or, in round r, keeps an
    arm 2ε_r worse.

    Either needs the difference between the averages of the best arm and of one of the |A| − 1
    others to be off by ε_r in some round r. Each is the average of n_r ≥ 8σ² ln(4|A|r²/γ)/ε_r²
    rewards, so this has probability at most exp(−n_r ε_r²/4σ²) ≤ (γ/(4|A|r²))². Summed over arms
    and rounds: γ²·(|A| − 1)/(16|A|²)·ζ(4) ≤ 0.017 γ².
    """
    return gamma**2 * (n_arms - 1) / (16 * n_arms**2) * math.pi**4 / 90


def bai_cl_most_agents(n_clusters: int, delta: float) -> int:
    """The most agents for which BAI-Cl and BAI-Cl++ as printed, with elimination, are known to be
    δ-PC.

    Two calls at each of at most N agents must fail with probability at most 2δ/3 in all; the second
    phase needs less than δ/3. About 19 δ/γ² with the printed γ of `bai_cl_gamma`.
    """
    per_agent = 2 * se_error(2, bai_cl_gamma(n_clusters, delta))  # |A| = 2 is the largest case
    return math.floor(2 * delta / 3 / per_agent)
