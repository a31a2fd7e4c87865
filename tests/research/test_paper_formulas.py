from __future__ import annotations

from itertools import combinations
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustered_bandit_gym import Instance, theory
from clustered_bandit_gym.generators import PaperRandom, PaperSmall
from research.paper import formulas


def test_theorem_terms_by_hand() -> None:
    """Two clusters, two arms, all gaps e^-2 (so log log of the inverse is ln 2), η = η1 = e^-1."""
    gap, eta, delta = exp(-2), exp(-1), 0.01
    instance = Instance([[gap, 0.0], [0.0, gap]], [0, 0, 1])
    n, m, k = 3, 2, 2
    alone = gap**-2 * (log(k) + log(n) + log(2) + log(1 / delta))
    assert formulas.naive_terms(instance, delta).total == pytest.approx(n * k * alone)
    terms = formulas.cl_bai_terms(instance, delta, eta)
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
    terms = formulas.bai_cl_terms(instance, delta, eta)
    assert terms.first == pytest.approx(discovery)
    assert terms.second == pytest.approx(n * m * eta**-2 * (log(m) + log(1 / delta) + log(n)))
    terms = formulas.bai_cl_pp_terms(instance, delta, eta, eta1=eta)
    assert terms.first == pytest.approx(discovery + m * eta**-2 * (log(m) + log(1 / delta)))
    assert terms.second == pytest.approx(
        n * m * eta**-2 * log(m) + n * eta**-2 * (log(n) + log(1 / delta))
    )
    double = formulas.bai_cl_pp_terms(instance, delta, eta, eta, sigma=2.0)
    assert double.total == pytest.approx(4 * terms.total)


def test_theorem_terms_are_finite_at_the_corners() -> None:
    alone = Instance([[1.0, 0.5]], [0, 0])
    empty = Instance([[1.0, 0.5, 0.2], [0.0, 1.0, 0.1]], [0, 0])
    for instance in (alone, empty):
        for terms in (
            formulas.cl_bai_terms,
            formulas.bai_cl_terms,
            formulas.bai_cl_pp_terms,
            formulas.naive_terms,
        ):
            assert 0 <= terms(instance, 0.1).total < inf
    full = Instance(empty.means, [0, 1])
    assert formulas.cl_bai_terms(empty, 0.1).second < formulas.cl_bai_terms(full, 0.1).second


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_agents_drawn_by_inclusion_and_exclusion(sizes: list[int]) -> None:
    """The first of n marked among N drawn without replacement has mean rank (N + 1)/(n + 1)."""
    total = sum(sizes)
    expected = sum(
        (-1) ** (size + 1) * (total + 1) / (sum(chosen) + 1)
        for size in range(1, len(sizes) + 1)
        for chosen in combinations(sizes, size)
    )
    assert formulas.coupon_collector_without_replacement(sizes) == pytest.approx(expected, rel=1e-7)


def test_coupon_collector_corners() -> None:
    assert formulas.coupon_collector_without_replacement([3, 0]) == 3
    assert formulas.coupon_collector_without_replacement([1] * 50) == pytest.approx(50, rel=1e-8)
    # Large clusters are as good as draws with replacement: M·(1 + 1/2 + ... + 1/M).
    expected = 20 * sum(1 / i for i in range(1, 21))
    found = formulas.coupon_collector_without_replacement([10**6] * 20)
    assert found == pytest.approx(expected, rel=1e-4)
    for bad in ([0.5], [-1, 2], [], [0, 0]):
        with pytest.raises(ValueError, match="sizes"):
            formulas.coupon_collector_without_replacement(bad)


def test_the_papers_own_bounds() -> None:
    """Data set 1 by hand: arms that are η worse in both other bandits, and the best single arm of
    each agent.
    """
    level = log(1 / 2.4e-10)
    assert formulas.paper_minimax_bound(10, 3, 100, 0.2, 1e-10) == pytest.approx(
        3 * 97 / 4 * level / 0.04
    )
    assert formulas.paper_minimax_bound(10**4, 3, 100, 0.2, 1e-10) == pytest.approx(
        10**4 * level / 0.04
    )
    instance = PaperSmall(3)(np.random.default_rng(0))
    mu, best = instance.means, instance.best_arms
    arms = single = 0.0
    for m in range(3):
        others = [j for j in range(3) if j != m]
        for k in range(10):
            if k != best[m] and all(mu[j].max() - mu[j, k] >= 0.3 for j in others):
                arms += level / (mu[m].max() - mu[m, k]) ** 2
        single += min(
            max(level / (mu[m, k] - mu[j, k]) ** 2 for j in others)
            for k in range(10)
            if k not in (7,)
        )
    assert formulas.paper_instance_bound(instance, 1e-10, 0.3) == pytest.approx(max(arms, single))
    # No single arm separates agent 0 from both rivals: what is printed is infinite, what is needed
    # is not.
    apart = Instance([[1.0, 0.0, 0.0], [1.0, 2.0, 0.0], [1.0, 0.0, 2.0]], [0, 1, 2])
    assert formulas.paper_instance_bound(apart, 1e-10, 1.0) == np.inf
    assert theory.instance_lower_bound(apart, 1e-10) < np.inf


def test_the_papers_instance_bound_is_smaller_on_its_own_data() -> None:
    instance = PaperRandom()(np.random.default_rng(0))
    paper = formulas.paper_instance_bound(instance, 1e-10, 0.15)
    assert theory.instance_lower_bound(instance, 1e-10, 0.15, max_programs=1) > paper
