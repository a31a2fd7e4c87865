"""Sample sizes and the terms of the paper's theorems as formulas, to be set against what is
measured.

The terms are orders of magnitude: the constant that the paper hides is taken as 1, log γ is read as
log(1/γ), and log log x as max(0, ln ln x). Sample sizes of σ-sub-Gaussian rewards are σ² times
those of the paper, which sets σ = 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance


class Terms(NamedTuple):
    """Pulls of the first and of the second phase, in order of magnitude."""

    first: float
    second: float

    @property
    def total(self) -> float:
        return self.first + self.second


# --- the theorems' terms ---------------------------------------------------------------------------------------------


def se_round_size(n_arms: int, gamma: float, r: int, sigma: float = 1.0) -> int:
    """Pulls of an active arm in round r ≥ 1 of SE: ⌈8σ² ln(4·n_arms·r²/γ)/ε_r²⌉, ε_r = 2^−r
    (Algorithm 2, line 4).
    """
    return math.ceil(8 * sigma**2 * math.log(4 * n_arms * r**2 / gamma) * 4.0**r)


def naive_terms(instance: Instance, delta: float, sigma: float | None = None) -> Terms:
    """Every agent alone: Σ over agents and arms of Δ⁻²(log K + log N + log log Δ⁻¹ + log 1/δ) (the
    remark that compares Cl-BAI with it)."""
    logs = math.log(instance.n_arms) + math.log(instance.n_agents) - math.log(delta)
    return Terms(
        _variance(instance, sigma) * float(_sizes(instance) @ _per_cluster(instance.gaps, logs)),
        0.0,
    )


def cl_bai_terms(
    instance: Instance, delta: float, eta: float | None = None, sigma: float | None = None
) -> Terms:
    """T1 and T2 of Cl-BAI's sample complexity.

    Clusters without agents have no representative and no part in T2.
    """
    eta, variance = _told(eta, instance.eta), _variance(instance, sigma)
    log_k = math.log(instance.n_arms) - math.log(delta)
    first = _sizes(instance) @ _per_cluster(
        np.maximum(instance.gaps, eta), log_k + math.log(instance.n_agents)
    )
    second = _per_cluster(instance.gaps, log_k + math.log(instance.n_clusters))[
        _sizes(instance) > 0
    ].sum()
    return Terms(variance * float(first), variance * float(second))


def bai_cl_gamma(n_clusters: int, delta: float) -> float:
    """γ of BAI-Cl's first phase: δ·ln(M/(M−1))/ln(3M/δ), as printed (Algorithm 3); δ/3 for a single
    cluster.
    """
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


def bai_cl_terms(
    instance: Instance, delta: float, eta: float | None = None, sigma: float | None = None
) -> Terms:
    """T1 and T2 of BAI-Cl's sample complexity, which assumes that agents fall into clusters
    uniformly at random.
    """
    eta, variance = _told(eta, instance.eta), _variance(instance, sigma)
    n, m = instance.n_agents, instance.n_clusters
    second = (
        n * m * _inverse_square(eta) * (math.log(m) - math.log(delta) + math.log(n) + _log_log(eta))
    )
    return Terms(variance * _discovery(instance, delta, eta), variance * second)


def bai_cl_pp_terms(
    instance: Instance,
    delta: float,
    eta: float | None = None,
    eta1: float | None = None,
    sigma: float | None = None,
) -> Terms:
    """T1 and T2 of BAI-Cl++'s sample complexity, which assumes that agents fall into clusters
    uniformly at random.
    """
    eta = _told(eta, instance.eta)
    eta1 = _told(eta1, instance.eta1)
    variance = _variance(instance, sigma)
    n, m = instance.n_agents, instance.n_clusters
    first = _discovery(instance, delta, eta) + m * _inverse_square(eta1) * (
        math.log(m) - math.log(delta)
    )
    tries = n * m * _inverse_square(eta) * (math.log(m) + _log_log(eta))
    checks = n * _inverse_square(eta1) * (math.log(n) - math.log(delta))
    return Terms(variance * first, variance * (tries + checks))


def _discovery(instance: Instance, delta: float, eta: float) -> float:
    m = instance.n_clusters
    logs = math.log(instance.n_arms) - math.log(bai_cl_gamma(m, delta))
    new = _per_cluster(instance.gaps, logs).sum()
    known = m * math.log(3 * m / delta) * _per_cluster(np.maximum(instance.gaps, eta), logs).max()
    return float(new + known)


def _per_cluster(gaps: Floats, logs: float) -> Floats:
    """(M,) Σ over arms of gap⁻²(logs + log log gap⁻¹)."""
    with np.errstate(divide="ignore"):
        return (gaps**-2.0 * (logs + np.log(np.maximum(-np.log(gaps), 1)))).sum(axis=1)


def _log_log(gap: float) -> float:
    return math.log(max(1.0, -math.log(gap))) if gap < 1 else 0.0


def _inverse_square(gap: float) -> float:
    return gap**-2.0 if gap > 0 else math.inf


def _told(value: float | None, truth: float) -> float:
    return truth if value is None else float(value)


def _variance(instance: Instance, sigma: float | None) -> float:
    return float(instance.rewards.sigma if sigma is None else sigma) ** 2


def _sizes(instance: Instance) -> np.ndarray:
    return np.bincount(instance.clusters, minlength=instance.n_clusters)


# --- how many agents until every cluster was met ---------------------------------------------------------------------


def coupon_collector_without_replacement(sizes: ArrayLike) -> float:
    """Expected agents drawn, without replacement, until every cluster was met; all N if a cluster
    is empty.

    `sizes` (M,): agents of each cluster. Let each agent arrive at a uniform time in (0, 1). The
    arrival that completes the collection is the T-th, ranks are independent of the times, so its
    time has mean E[T]/(N + 1); it comes after u with probability 1 − Π_m (1 − (1 − u)^n_m). With u
    = 1 − e^−t this is E[T] = (N + 1)·∫₀^∞ (1 − Π_m (1 − e^(−n_m t))) e^−t dt.
    """
    n = np.asarray(sizes)
    if n.ndim != 1 or n.size == 0 or n.dtype.kind not in "iu" or np.any(n < 0) or n.sum() == 0:
        raise UserError("sizes must be a vector of whole numbers >= 0, not all of them 0")
    if np.any(n == 0):
        return float(n.sum())
    from scipy.integrate import quad

    def some_missing(t: float) -> float:
        """(1 − Π_m (1 − e^(−n_m t)))·e^−t."""
        return -math.expm1(float(np.log(-np.expm1(-n * t)).sum())) * math.exp(-t)

    # On a logarithmic scale, where any sizes look alike, from a start before which nothing counts.
    start = 1e-18
    end = 1.0
    while some_missing(end) > 1e-30:
        end *= 2
    value, _ = quad(
        lambda s: some_missing(math.exp(s)) * math.exp(s),
        math.log(start),
        math.log(end),
        epsabs=0,
        limit=500,
    )
    return float(n.sum() + 1) * (float(value) + start)
