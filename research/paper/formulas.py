"""The terms of the paper's theorems, its bounds as printed, and the agents drawn until every cluster
was met.

The terms are orders of magnitude: the constant that the paper hides is taken as 1, log γ is read as
log(1/γ), and log log x as max(0, ln ln x). Sample sizes of σ-sub-Gaussian rewards are σ² times
those of the paper, which sets σ = 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad

from clustered_bandit_gym import Instance
from clustered_bandit_gym.theory import bai_cl_gamma

Floats = np.ndarray


class Terms(NamedTuple):
    """Pulls of the first and of the second phase, in order of magnitude."""

    first: float
    second: float

    @property
    def total(self) -> float:
        return self.first + self.second


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
        raise ValueError("sizes must be a vector of whole numbers >= 0, not all of them 0")
    if np.any(n == 0):
        return float(n.sum())

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


def paper_minimax_bound(
    n_agents: int, n_clusters: int, n_arms: int, gap: float, delta: float
) -> float:
    """The paper's minimax bound with the constants of its proof: max{M(K − M)/4, N}·ln(1/2.4δ)/Δ²,
    for σ = 1.

    For N ≥ M it is valid, and smaller than `minimax_lower_bound`; with fewer agents than bandits it
    is too large, since it charges for bandits that nobody plays. The proof takes (a − b)² for the
    divergence of unit Gaussians, which is (a − b)²/2, and the larger of two terms that may be
    added.
    """
    return (
        max(n_clusters * (n_arms - n_clusters) / 4, n_agents)
        * max(0.0, -math.log(2.4 * delta))
        / gap**2
    )


def paper_instance_bound(instance: Instance, delta: float, eta: float) -> float:
    """The paper's instance-dependent bound (its appendix) as printed, with D(a, b) = (a − b)²; for
    σ = 1.

    Not a lower bound in general: its second term lets an agent use a single arm against all rivals,
    where a mix of arms may need fewer pulls. Infinite where no single arm separates an agent from
    all rivals.
    """
    needed = max(0.0, -math.log(2.4 * delta))
    means, best = instance.means, instance.best_arms
    top = means.max(axis=1, keepdims=True)
    far = top - means >= eta * (1 - 1e-9) - 1e-12
    sizes = np.bincount(instance.clusters, minlength=instance.n_clusters)
    best_arms = assignment = 0.0
    played = np.flatnonzero(sizes)
    with np.errstate(divide="ignore"):
        for m in played:
            others = np.arange(instance.n_clusters) != m
            free = far[others].all(axis=0)
            free[best[m]] = False
            best_arms += float((needed / (top[m] - means[m, free]) ** 2).sum())
            rivals = played[played != m]
            if rivals.size:
                assignment += sizes[m] * float(
                    (needed / (means[m] - means[rivals]) ** 2).max(axis=0).min()
                )
    return max(best_arms, assignment)
