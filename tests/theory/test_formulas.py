from __future__ import annotations

from itertools import combinations
from math import ceil, exp, inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clustered_bandit_gym import Instance, theory


def test_round_sizes() -> None:
    assert theory.se_round_size(10, 0.1, 1) == ceil(8 * log(400) * 4) == 192
    assert theory.se_round_size(10, 0.1, 3) == ceil(8 * log(3600) * 64)
    assert theory.se_round_size(10, 0.1, 3, sigma=0.5) == ceil(2 * log(3600) * 64)
    assert theory.se_round_size(100, 1e-12, 40) > 2**63, "whole numbers do not overflow"


def test_theorem_terms_by_hand() -> None:
    """Two clusters, two arms, all gaps e^-2 (so log log of the inverse is ln 2), η = η1 = e^-1."""
    gap, eta, delta = exp(-2), exp(-1), 0.01
    instance = Instance([[gap, 0.0], [0.0, gap]], [0, 0, 1])
    n, m, k = 3, 2, 2
    alone = gap**-2 * (log(k) + log(n) + log(2) + log(1 / delta))
    assert theory.naive_terms(instance, delta).total == pytest.approx(n * k * alone)
    terms = theory.cl_bai_terms(instance, delta, eta)
    assert terms.first == pytest.approx(n * k * eta**-2 * (log(k) + log(n) + log(1 / delta)))
    assert terms.second == pytest.approx(
        m * k * gap**-2 * (log(k) + log(m) + log(2) + log(1 / delta))
    )
    assert terms.total == terms.first + terms.second
    gamma = delta * log(2) / log(6 / delta)
    assert theory.bai_cl_gamma(2, delta) == pytest.approx(gamma)
    assert theory.bai_cl_gamma(1, delta) == delta / 3
    discovery = m * k * gap**-2 * (log(k) + log(1 / gamma) + log(2))
    discovery += m * log(6 / delta) * k * eta**-2 * (log(k) + log(1 / gamma))
    terms = theory.bai_cl_terms(instance, delta, eta)
    assert terms.first == pytest.approx(discovery)
    assert terms.second == pytest.approx(n * m * eta**-2 * (log(m) + log(1 / delta) + log(n)))
    terms = theory.bai_cl_pp_terms(instance, delta, eta, eta1=eta)
    assert terms.first == pytest.approx(discovery + m * eta**-2 * (log(m) + log(1 / delta)))
    assert terms.second == pytest.approx(
        n * m * eta**-2 * log(m) + n * eta**-2 * (log(n) + log(1 / delta))
    )
    double = theory.bai_cl_pp_terms(instance, delta, eta, eta, sigma=2.0)
    assert double.total == pytest.approx(4 * terms.total)


def test_theorem_terms_are_finite_at_the_corners() -> None:
    alone = Instance([[1.0, 0.5]], [0, 0])
    empty = Instance([[1.0, 0.5, 0.2], [0.0, 1.0, 0.1]], [0, 0])
    for instance in (alone, empty):
        for terms in (
            theory.cl_bai_terms,
            theory.bai_cl_terms,
            theory.bai_cl_pp_terms,
            theory.naive_terms,
        ):
            assert 0 <= terms(instance, 0.1).total < inf
    full = Instance(empty.means, [0, 1])
    assert theory.cl_bai_terms(empty, 0.1).second < theory.cl_bai_terms(full, 0.1).second


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_agents_drawn_by_inclusion_and_exclusion(sizes: list[int]) -> None:
    """The first of n marked among N drawn without replacement has mean rank (N + 1)/(n + 1)."""
    total = sum(sizes)
    expected = sum(
        (-1) ** (size + 1) * (total + 1) / (sum(chosen) + 1)
        for size in range(1, len(sizes) + 1)
        for chosen in combinations(sizes, size)
    )
    assert theory.coupon_collector_without_replacement(sizes) == pytest.approx(expected, rel=1e-7)


def test_coupon_collector_corners() -> None:
    assert theory.coupon_collector_without_replacement([3, 0]) == 3
    assert theory.coupon_collector_without_replacement([1] * 50) == pytest.approx(50, rel=1e-8)
    # Large clusters are as good as draws with replacement: M·(1 + 1/2 + ... + 1/M).
    expected = 20 * sum(1 / i for i in range(1, 21))
    found = theory.coupon_collector_without_replacement([10**6] * 20)
    assert found == pytest.approx(expected, rel=1e-4)
    for bad in ([0.5], [-1, 2], [], [0, 0]):
        with pytest.raises(ValueError, match="sizes"):
            theory.coupon_collector_without_replacement(bad)


@pytest.mark.parametrize("gamma", [0.3, 0.01, 1e-12])
def test_an_elimination_errs_far_less_than_its_level(gamma: float) -> None:
    """With Gaussian rewards the difference of two averages of n is N(0, 2σ²/n): its tail beyond
    ε_r, summed exactly.
    """
    for n_arms in (2, 3, 100):
        exact = 0.0
        for r in range(1, 60):
            deviation = (2 / theory.se_round_size(n_arms, gamma, r)) ** 0.5
            exact += (n_arms - 1) * stats.norm.sf(2.0**-r / deviation)
        bound = theory.se_error(n_arms, gamma)
        assert exact <= bound <= 0.017 * gamma**2


@pytest.mark.parametrize("m", [1, 2, 20, 100])
@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-10])
def test_printed_budgets_of_bai_cl_add_up(m: int, delta: float) -> None:
    """Phase 1: two calls at each agent. Phase 2 of BAI-Cl: one call at δ/(3N). BAI-Cl++ instead has
    M stored averages and all checks of SE-hat, each an average of 32 ln(1/level)/η1² rewards that
    must be within η1/4."""
    gamma, n = theory.bai_cl_gamma(m, delta), theory.bai_cl_most_agents(m, delta)
    assert n >= 19 * delta / gamma**2
    phase_1 = n * 2 * max(theory.se_error(k, gamma) for k in range(2, 50))
    assert phase_1 <= 2 * delta / 3
    assert phase_1 + n * theory.se_error(max(m, 2), delta / (3 * n)) <= delta

    def check(level: float) -> float:
        """P(|average − mean| > η1/4) for ⌈32 ln(1/level)/η1²⌉ rewards: 2·exp(−n(η1/4)²/2) =
        2·level.
        """
        return 2 * exp(-(32 * log(1 / level)) / 16 / 2)

    stored = m * check(delta / (12 * m))
    tries = (
        n * sum(check(delta / (6 * n) / (4 * k**2)) for k in range(1, 200))
        + n * 2 * delta / (24 * n) / 200
    )
    assert stored + tries <= delta / 3
    assert phase_1 + stored + tries <= delta
