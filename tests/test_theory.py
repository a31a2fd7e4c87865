from __future__ import annotations

from itertools import combinations
from math import ceil, exp, inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from clustered_bandit_gym import Bernoulli, Categorical, Federation, Gaussian, Instance, Problem, theory
from clustered_bandit_gym.generators import NearTie, PaperFlat, PaperRandom, PaperSmall, RandomFamily
from clustered_bandit_gym.policies import NaiveSE

DELTA = 1e-3
L = log(1 / (2.4 * DELTA))


def brute_force_bound(instance: Instance, delta: float, eta: float) -> float:
    """One linear program over the pulls of every agent and arm, written down agent by agent."""
    n, k_arms = instance.n_agents, instance.n_arms
    rows, needed = [], []
    level = log(1 / (2.4 * delta))
    for i in range(n):
        m = int(instance.clusters[i])
        for j in range(instance.n_clusters):
            if j != m:
                row = np.zeros((n, k_arms))
                row[i] = instance.rewards.kl(instance.means, m, j)
                if np.isfinite(row).all():
                    rows.append(row.ravel())
                    needed.append(level)
    for m in set(instance.clusters.tolist()):
        for k in range(k_arms):
            others = [j for j in range(instance.n_clusters) if j != m]
            if k == instance.best_arms[m]:
                continue
            if all(instance.means[j].max() - instance.means[j, k] >= eta - 1e-12 for j in others):
                row = np.zeros((n, k_arms))
                top = instance.means[m].max()
                row[instance.clusters == m, k] = instance.rewards.kl_to_mean(instance.means, m, k, top)
                if np.isfinite(row).all():
                    rows.append(row.ravel())
                    needed.append(level)
    if not rows:
        return 0.0
    found = optimize.linprog(np.ones(n * k_arms), A_ub=-np.array(rows), b_ub=-np.array(needed), method="highs")
    assert found.success
    return float(found.fun)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["gaussian", "bernoulli", "categorical"]),
    st.integers(1, 4),
    st.sampled_from(["equal", "uniform"]),
    st.floats(0.1, 1.0),
)
def test_bound_per_cluster_is_the_bound_over_all_agents(
    seed: int, rewards: str, n_clusters: int, sizes: str, share: float
) -> None:
    generate = RandomFamily(7, n_clusters, 5, eta=0.3, eta1=0.1, gap=0.05, rewards=rewards, sizes=sizes)
    instance = generate(np.random.default_rng(seed))
    eta = share * (instance.eta if n_clusters > 1 else 1.0)
    expected = brute_force_bound(instance, DELTA, eta)
    assert theory.instance_lower_bound(instance, DELTA, eta) == pytest.approx(expected, rel=1e-6)


def test_bound_solved_by_hand() -> None:
    # Two clusters, two arms: arm 0 differs by 1 and arm 1 by 2, so all pulls go to arm 1 (divergence 2): L/2 an agent.
    # No arm can become another best one: each is the best of the other cluster.
    instance = Instance([[1.0, -1.0], [0.0, 1.0]], [0, 0, 0, 1])
    assert theory.instance_lower_bound(instance, DELTA) == pytest.approx(4 * L / 2)
    assert theory.lower_bound_allocation(instance, DELTA) == pytest.approx(np.array([[0, L / 2], [0, L / 2]]))
    # σ² scales it.
    scaled = Instance([[1.0, -1.0], [0.0, 1.0]], [0, 0, 0, 1], Gaussian(3.0))
    assert theory.instance_lower_bound(scaled, DELTA) == pytest.approx(9 * 4 * L / 2)
    # One cluster: only best arms, each rival at distance g costs 2L/g².
    alone = Instance([[1.0, 0.5, 0.0]], [0, 0])
    assert theory.instance_lower_bound(alone, DELTA) == pytest.approx(L * (2 / 0.25 + 2))
    # Bernoulli: the best arm's constraint is the binary divergence.
    coins = Instance([[0.7, 0.4]], [0, 0], Bernoulli())
    kl = 0.4 * log(0.4 / 0.7) + 0.6 * log(0.6 / 0.3)
    assert theory.instance_lower_bound(coins, DELTA) == pytest.approx(L / kl)


def test_no_single_arm_separates_all_rivals() -> None:
    """Cluster 0 differs from cluster 1 at arm 1 only and from cluster 2 at arm 2 only: the minimum over single arms
    that the paper prints is infinite, and the two arms together cost L/2 each."""
    instance = Instance([[1.0, 0.0, 0.0], [1.0, 2.0, 0.0], [1.0, 0.0, 2.0]], [0, 1, 2])
    assert instance.eta == 1
    expected = np.array([[0, L / 2, L / 2], [0, L / 2, 0], [0, 0, L / 2]])
    assert theory.lower_bound_allocation(instance, DELTA) == pytest.approx(expected)


def test_bound_of_the_flat_instance() -> None:
    """Data set 3: an agent's own best arm separates it from all rivals at once, at η²/2 a pull."""
    instance = PaperFlat(1000)(np.random.default_rng(0))
    level = log(1 / (2.4e-10))
    per_agent = 2 * level / 0.15**2
    # The 80 arms that are best nowhere must be shown not to be the best: 2L/η² in each of 20 clusters.
    bound = theory.instance_lower_bound(instance, 1e-10)
    assert bound == pytest.approx((1000 + 20 * 80) * per_agent, rel=1e-6)


def test_a_bandit_without_agents_is_still_a_rival() -> None:
    means = [[1.0, 0.0, 0.2], [0.0, 1.0, 0.2]]
    both, one = Instance(means, [0, 1]), Instance(means, [0, 0])
    allocation = theory.lower_bound_allocation(one, DELTA)
    assert np.all(allocation[1] == 0)
    assert allocation[0, :2].sum() == pytest.approx(L / 0.5), "an agent could also play the empty bandit"
    assert theory.instance_lower_bound(one, DELTA) < theory.instance_lower_bound(both, DELTA) * 1.01


def test_bound_by_cluster_size_and_known_separation() -> None:
    rng = np.random.default_rng(2)
    instance = PaperRandom()(rng)
    bounds = [theory.instance_lower_bound(instance, 1e-10, eta) for eta in (instance.eta, 0.15, 0.05, 0.01)]
    assert bounds == sorted(bounds), "knowing less can only cost more"
    near = NearTie(gap=0.001)(rng)
    assert theory.instance_lower_bound(near, 1e-10) >= 3 * 2 * log(1 / 2.4e-10) / 0.001**2 * 0.999
    small, large = PaperFlat(10**3)(rng), PaperFlat(10**6)(rng)
    # 1600 best-arm constraints of the price of one agent each are shared by all agents.
    ratio = theory.instance_lower_bound(large, 1e-10) / theory.instance_lower_bound(small, 1e-10)
    assert ratio == pytest.approx((10**6 + 1600) / (10**3 + 1600), rel=1e-6)


def test_infinite_divergences_constrain_nothing() -> None:
    certain = Instance([[1.0, 0.0], [0.0, 1.0]], [0, 1], Gaussian(0.0))
    assert theory.instance_lower_bound(certain, DELTA) == 0
    coins = Instance([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]], [0, 1], Bernoulli())
    assert theory.instance_lower_bound(coins, DELTA) == 0, "no mean exceeds 1, and the clusters differ for sure"
    laws = np.array([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]])
    assert theory.instance_lower_bound(Instance(None, [0, 1], Categorical([0, 1, 2], laws)), DELTA) < inf


def test_where_there_is_no_bound() -> None:
    instance = PaperSmall()(np.random.default_rng(0))
    assert theory.instance_lower_bound(instance, 0.45) == 0
    assert theory.instance_lower_bound(instance, 0.41) > 0
    for delta in (0, 1, -0.1, float("nan")):
        with pytest.raises(ValueError, match="delta"):
            theory.instance_lower_bound(instance, delta)
    for eta in (0.0, 0.6):
        with pytest.raises(ValueError, match="eta"):
            theory.instance_lower_bound(instance, DELTA, eta)
    with pytest.raises(ValueError, match="Assumption 1"):
        theory.instance_lower_bound(Instance([[1.0, 0.0]] * 2, [0, 1], allow_overlap=True), DELTA)


def test_ties_do_not_make_it_infinite() -> None:
    tied = Instance([[0.5, 0.5, 0.1, 0.1], [0.1, 0.2, 0.9, 0.1]], [0, 1], allow_ties=True)
    assert 0 < theory.instance_lower_bound(tied, DELTA) < inf


def test_a_correct_policy_stays_above_the_bound() -> None:
    for seed in range(5):
        instance = RandomFamily()(np.random.default_rng(seed))
        federation = Federation(instance, Problem.of(instance, DELTA), seed)
        NaiveSE().solve(federation)
        assert federation.pulls > theory.instance_lower_bound(instance, DELTA)


def test_minimax_bound() -> None:
    unit = L / 0.2**2
    assert theory.minimax_lower_bound(10, 3, 100, 0.2, DELTA) == pytest.approx(3 * 97 * unit / 2)
    assert theory.minimax_lower_bound(10**4, 3, 100, 0.2, DELTA) == pytest.approx(2e4 * unit)
    assert theory.minimax_lower_bound(10**4, 3, 100, 0.2, DELTA, sigma=0.5) == pytest.approx(2e4 * unit / 4)
    assert theory.minimax_lower_bound(2, 3, 100, 0.2, DELTA) == pytest.approx(2 * 97 * unit / 2), "2 agents, 2 clusters"
    assert theory.minimax_lower_bound(10, 1, 1, 0.2, DELTA) == 0, "nothing to find out"
    assert theory.minimax_lower_bound(10, 3, 10, 0.2, 0.5) == 0
    for bad in ((0, 3, 10, 0.2), (10, 3, 2, 0.2), (10, 3, 10, 0.0)):
        with pytest.raises(ValueError):
            theory.minimax_lower_bound(*bad, DELTA)


def test_minimax_bound_stays_below_that_of_its_instance() -> None:
    """The instance of the theorem is the flat one. Its class asks for gaps ≥ Δ, so an arm must be lifted by 2Δ."""
    for n_agents in (20, 200, 5000):
        instance = PaperFlat(n_agents)(np.random.default_rng(0))
        minimax = theory.minimax_lower_bound(n_agents, 20, 100, 0.15, 1e-10)
        assert minimax <= theory.instance_lower_bound(instance, 1e-10) * (1 + 1e-6)


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
    assert terms.second == pytest.approx(m * k * gap**-2 * (log(k) + log(m) + log(2) + log(1 / delta)))
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
    assert terms.second == pytest.approx(n * m * eta**-2 * log(m) + n * eta**-2 * (log(n) + log(1 / delta)))
    double = theory.bai_cl_pp_terms(instance, delta, eta, eta, sigma=2.0)
    assert double.total == pytest.approx(4 * terms.total)


def test_theorem_terms_are_finite_at_the_corners() -> None:
    alone = Instance([[1.0, 0.5]], [0, 0])
    empty = Instance([[1.0, 0.5, 0.2], [0.0, 1.0, 0.1]], [0, 0])
    for instance in (alone, empty):
        for terms in (theory.cl_bai_terms, theory.bai_cl_terms, theory.bai_cl_pp_terms, theory.naive_terms):
            assert 0 <= terms(instance, 0.1).total < inf
    full = Instance(empty.means, [0, 1])
    assert theory.cl_bai_terms(empty, 0.1).second < theory.cl_bai_terms(full, 0.1).second


@pytest.mark.parametrize("m", [1, 2, 20, 500])
def test_coupon_collector_of_equal_types(m: int) -> None:
    expected = m * sum(1 / i for i in range(1, m + 1))
    assert theory.coupon_collector(np.full(m, 1 / m)) == pytest.approx(expected, rel=1e-8)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6))
def test_coupon_collector_by_inclusion_and_exclusion(weights: list[int]) -> None:
    p = np.array(weights) / sum(weights)
    expected = sum(
        (-1) ** (size + 1) / sum(chosen) for size in range(1, len(p) + 1) for chosen in combinations(p, size)
    )
    assert theory.coupon_collector(p) == pytest.approx(expected, rel=1e-7)


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
    assert theory.coupon_collector([0.5, 0.5, 0.0]) == inf
    assert theory.coupon_collector_without_replacement([3, 0]) == 3
    assert theory.coupon_collector_without_replacement([1] * 50) == pytest.approx(50, rel=1e-8)
    assert theory.coupon_collector_without_replacement([10**6] * 20) == pytest.approx(
        theory.coupon_collector(np.full(20, 0.05)), rel=1e-4
    )
    for bad in ([0.5, 0.6], [-0.5, 1.5], [], [[1.0]]):
        with pytest.raises(ValueError, match="probabilities"):
            theory.coupon_collector(bad)
    for bad in ([0.5], [-1, 2], [], [0, 0]):
        with pytest.raises(ValueError, match="sizes"):
            theory.coupon_collector_without_replacement(bad)
