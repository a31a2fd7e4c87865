"""Normal-mixture boundaries against integrals and roots computed independently."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from clustered_bandit_gym.policies.sequential.boundaries import (
    pair_evidence,
    radius,
    tuned_rho,
)


def mixture(s: float, v: float, rho: float, half: bool) -> float:
    """∫ exp(λs − λ²v/2) dF(λ), F normal with variance 1/ρ (or its positive half), by quadrature
    around the peak.
    """
    peak = s / (v + rho)
    width = 1 / np.sqrt(v + rho)
    low = max(0.0, peak - 12 * width) if half else peak - 12 * width

    def integrand(x: float) -> float:
        return (
            np.exp(x * s - x * x * v / 2) * norm.pdf(x, scale=1 / np.sqrt(rho)) * (2 if half else 1)
        )

    return quad(integrand, low, peak + 12 * width, limit=200, epsabs=0, epsrel=1e-11)[0]


@pytest.mark.parametrize("n", [1, 30, 10**5])
@pytest.mark.parametrize("alpha", [0.1, 1e-10])
def test_radius_is_where_the_two_sided_mixture_reaches_one_over_alpha(n: int, alpha: float) -> None:
    rho = 7.0
    found = brentq(
        lambda s: np.log(mixture(s, n, rho, half=False) * alpha), 1e-9, 12 * np.sqrt(n + rho)
    )
    assert radius(n, alpha, rho) == pytest.approx(found / n, rel=1e-7)


def test_pair_evidence_is_the_smallest_product_over_common_means() -> None:
    rho, n_a, n_b, mean_a, mean_b = 3.0, 40, 900, 0.61, 0.35

    def log_product(mu: float) -> float:
        return sum(
            np.log(mixture(abs(n * (mean - mu)), n, rho, half=False))
            for n, mean in ((n_a, mean_a), (n_b, mean_b))
        )

    least = minimize_scalar(
        log_product, bounds=(0.2, 0.8), method="bounded", options={"xatol": 1e-10}
    ).fun
    assert pair_evidence(mean_a - mean_b, n_a, n_b, rho) == pytest.approx(least, abs=1e-7)


def test_tuned_rho_is_near_the_tightest() -> None:
    n, alpha = 1000, 1e-8
    best = minimize_scalar(
        lambda x: float(radius(n, alpha, np.exp(x))), bounds=(-5, 12), method="bounded"
    ).fun
    assert radius(n, alpha, tuned_rho(n, alpha)) < 1.001 * best
