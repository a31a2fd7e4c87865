from __future__ import annotations

from math import inf, log
from typing import Any

import numpy as np
import pytest
from bound_reference import enumerated_bound
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from clustered_bandit_gym import (
    Bernoulli,
    Categorical,
    Federation,
    Gaussian,
    Instance,
    Problem,
    theory,
)
from clustered_bandit_gym.generators import (
    NearTie,
    PaperRandom,
    PaperSmall,
    RandomFamily,
)
from clustered_bandit_gym.policies import NaiveSE
from clustered_bandit_gym.theory.alternatives import Truth, all_rows
from clustered_bandit_gym.theory.laws import laws_of
from clustered_bandit_gym.theory.lower_bound import Search

DELTA = 1e-3
L = float(rel_entr(DELTA, 1 - DELTA) + rel_entr(1 - DELTA, DELTA))


def test_information_needed() -> None:
    assert theory.information_needed(DELTA) == pytest.approx(L)
    assert theory.information_needed(1e-10) == pytest.approx(log(1e10), rel=1e-8)
    assert theory.information_needed(0.5) == theory.information_needed(0.9) == 0
    for delta in (0, 1, -0.1, float("nan")):
        with pytest.raises(ValueError, match="delta"):
            theory.information_needed(delta)


@pytest.mark.parametrize(
    ("means", "clusters", "eta", "model"),
    [
        ([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5]], [0, 1], 0.5, Gaussian()),
        ([[0.9, 0.3], [0.2, 0.7]], [0, 1], 0.3, Bernoulli()),
    ],
)
def test_families_against_all_alternatives(
    means: list, clusters: list, eta: float, model: Gaussian
) -> None:
    """Full enumeration of assignments and best arms with a general solver: the families give at
    least 97% of it.
    """
    instance = Instance(means, clusters, model)
    low, high = enumerated_bound(instance, eta, tolerance=0.04)
    assert high <= 1.04 * low
    found = theory.solve_lower_bound(instance, DELTA, eta, tolerance=1e-4)
    assert found.gap <= 1e-4
    assert found.value <= L * high * (1 + 1e-6)
    assert found.value >= 0.97 * L * low


@settings(max_examples=4)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["gaussian", "bernoulli", "categorical"]),
    st.integers(1, 3),
    st.sampled_from(["equal", "uniform"]),
    st.floats(0.0, 1.0),
)
def test_the_certificate(
    seed: int, rewards: str, n_clusters: int, sizes: str, share: float
) -> None:
    """The P inside satisfies every alternative and sums to `upper`; the value is within the
    tolerance of it. And a bound stopped early is below one that was not: every value is valid."""
    generate = RandomFamily(
        7, n_clusters, 4, eta=0.3, eta1=0.1, gap=0.05, rewards=rewards, sizes=sizes
    )
    instance = generate(np.random.default_rng(seed))
    eta = share * (instance.eta if n_clusters > 1 else 0.0)
    found = theory.solve_lower_bound(instance, DELTA, eta)
    counts = np.bincount(instance.clusters, minlength=n_clusters)
    order = np.argsort(counts == 0, kind="stable")
    truth = Truth(laws_of(instance)[order], counts[order], eta, bool((counts == 0).any()))
    search = Search(truth)
    search.run(0.01, 60)
    assert search.value <= search.upper <= 1.01 * search.value
    assert found == pytest.approx((L * search.value, search.upper / search.value - 1))
    pulls = search.inside
    assert pulls.sum() == pytest.approx(search.upper)
    least = min((rows @ pulls.ravel()).min(initial=np.inf) for rows in all_rows(truth, pulls))
    assert least >= 1 - 1e-9
    early = theory.solve_lower_bound(instance, DELTA, eta, max_programs=1)
    assert early.value <= L * search.upper * (1 + 1e-9)


def test_bound_solved_by_hand() -> None:
    # One cluster: each rival at distance g and the best arm must be told apart together. Two arms:
    # the means meet halfway, at g²/8 per pull of either, hence 8L/g² in all.
    alone = Instance([[1.0, 0.5]], [0, 0])
    assert theory.instance_lower_bound(alone, DELTA, tolerance=1e-4) == pytest.approx(
        8 * L / 0.25, rel=1e-4
    )
    scaled = Instance([[1.0, 0.5]], [0, 0], Gaussian(3.0))
    assert theory.instance_lower_bound(scaled, DELTA, tolerance=1e-4) == pytest.approx(
        9 * 8 * L / 0.25, rel=1e-4
    )
    # Bernoulli with means p and 1 − p: by symmetry both move to 1/2.
    coins = Instance([[0.7, 0.3]], [0, 0], Bernoulli())
    kl = 0.7 * log(0.7 / 0.5) + 0.3 * log(0.3 / 0.5)
    assert theory.instance_lower_bound(coins, DELTA, tolerance=1e-4) == pytest.approx(
        L / kl, rel=1e-4
    )
    # The same law, as a categorical one.
    laws = Categorical([0.0, 1.0], np.array([[[0.3, 0.7], [0.7, 0.3]]]))
    same = Instance(None, [0, 0], laws)
    assert theory.instance_lower_bound(same, DELTA, tolerance=1e-4) == pytest.approx(
        L / kl, rel=1e-4
    )


def test_one_cluster_is_best_arm_identification() -> None:
    """Garivier and Kaufmann 2016: 1/T* = max over w of min over k of w_1·w_k/(w_1 + w_k)·gap²/2,
    for unit Gaussians. With K − 1 rivals at one gap, w_k = w_1/√(K − 1), hence T* = 2(1 + √(K −
    1))²/gap²."""
    for rivals in (1, 4, 9):
        instance = Instance([[0.3, *[0.0] * rivals]], [0] * 5)
        expected = 2 * (1 + rivals**0.5) ** 2 / 0.3**2 * L
        found = theory.solve_lower_bound(instance, DELTA, 0.1, tolerance=1e-3)
        assert found.value <= expected * (1 + 1e-9)
        assert found.value == pytest.approx(expected, rel=1e-3)


def test_what_is_told_matters() -> None:
    instance = PaperSmall(9)(np.random.default_rng(0))
    told = [theory.solve_lower_bound(instance, 1e-10, eta).value for eta in (0.5, 0.3, 0.1, 0.0)]
    assert np.all(np.diff(told) > -0.01 * np.array(told[1:])), "knowing less can only cost more"
    assert told[-1] > 1.5 * told[0]
    many = PaperSmall(300)(np.random.default_rng(0))
    known, unknown = (
        theory.instance_lower_bound(many, 1e-10, 0.3, clusters_told=said) for said in (True, False)
    )
    assert unknown > 1.5 * known, "without M, every agent may be alone in a bandit of its own"


def test_a_cluster_without_agents() -> None:
    """Every agent may be alone in the empty bandit, whose means nobody has seen, with best arm 1 or
    2, η above arm 0: 50 problems of best arm identification with gap + η in place of the gap."""
    gap, eta, n = 0.6, 0.5, 50
    instance = Instance([[0.1, 0.9, 0.0], [gap, 0.0, 0.0]], [1] * n)
    found = theory.solve_lower_bound(instance, DELTA, eta, tolerance=1e-3)
    assert found.value == pytest.approx(n * 2 * (1 + 2**0.5) ** 2 / (gap + eta) ** 2 * L, rel=2e-3)
    # A learner that is not told M need not believe in bandit 0, but in some second bandit.
    same = theory.instance_lower_bound(instance, DELTA, eta, clusters_told=False, tolerance=1e-3)
    assert same == pytest.approx(found.value, rel=2e-3)


def test_near_ties_and_known_separation() -> None:
    near = NearTie(gap=0.001)(np.random.default_rng(2))
    # A runner-up 0.001 away in each of three clusters: 8L/gap² each, from the pulls of two arms.
    needed = theory.information_needed(1e-10)
    assert theory.instance_lower_bound(near, 1e-10) == pytest.approx(
        3 * 8 * needed / 0.001**2, rel=0.02
    )


def test_paper_random_is_reproducible_and_stops_early() -> None:
    instance = PaperRandom(40, 8, 40)(np.random.default_rng(2))
    found = theory.solve_lower_bound(instance, 1e-10, 0.15, max_programs=2)
    again = theory.solve_lower_bound(instance, 1e-10, 0.15, max_programs=2)
    assert found == again
    assert found.value > 0
    assert 0.01 < found.gap < inf, "stopped by the number of programs"


def test_no_bound() -> None:
    instance = PaperSmall()(np.random.default_rng(0))
    assert theory.instance_lower_bound(instance, 0.5) == 0
    assert theory.instance_lower_bound(instance, 0.49) > 0
    for eta in (-0.1, 0.6):
        with pytest.raises(ValueError, match="eta"):
            theory.instance_lower_bound(instance, DELTA, eta)
    with pytest.raises(ValueError, match="max_programs"):
        theory.instance_lower_bound(instance, DELTA, max_programs=0)
    with pytest.raises(ValueError, match="Assumption 1"):
        theory.instance_lower_bound(Instance([[1.0, 0.0]] * 2, [0, 1], allow_overlap=True), DELTA)
    certain = Instance([[1.0, 0.0], [0.0, 1.0]], [0, 1], Gaussian(0.0))
    assert theory.instance_lower_bound(certain, DELTA) == 0, (
        "noiseless rewards tell any two instances apart"
    )
    assert theory.instance_lower_bound(Instance([[1.0]], [0]), DELTA) == 0, "nothing to find out"


def test_ties_do_not_make_it_infinite() -> None:
    tied = Instance([[0.5, 0.5, 0.1, 0.1], [0.1, 0.2, 0.9, 0.1]], [0, 1], allow_ties=True)
    found = theory.solve_lower_bound(tied, DELTA)
    assert found.value > 0
    assert 0 <= found.gap < inf


def test_certain_arms() -> None:
    """Arms at the ends of the support.

    If η takes up all of it, no other instance has these certain arms.
    """
    coins = Instance([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]], [0, 1], Bernoulli())
    laws = np.array([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]])
    for instance in (coins, Instance(None, [0, 1], Categorical([0, 1, 2], laws))):
        found = theory.solve_lower_bound(instance, DELTA, 0.5 * instance.eta, tolerance=0.05)
        assert found.value > 0
        assert 0 <= found.gap <= 0.05
    assert theory.instance_lower_bound(coins, DELTA, 1.0) == 0


def test_a_correct_policy_stays_above_the_bound() -> None:
    for seed in range(5):
        instance = RandomFamily()(np.random.default_rng(seed))
        federation = Federation(instance, Problem.of(instance, DELTA), seed)
        NaiveSE().solve(federation)
        assert federation.pulls > theory.instance_lower_bound(instance, DELTA)


@pytest.mark.parametrize("n_agents", [8, 1000])
def test_one_cluster_whose_eta_is_told_excludes_a_second_one(n_agents: int) -> None:
    """η = ∞ tells as much as M = 1: nothing has to be found out about each agent, so N does not
    matter.
    """
    one = Instance([[1.0, 0.5, 0.0]], np.zeros(n_agents, dtype=int))
    alone = theory.instance_lower_bound(Instance([[1.0, 0.5, 0.0]], [0]), 0.05)
    for eta in (None, np.inf):
        assert theory.instance_lower_bound(one, 0.05, eta, clusters_told=False) == pytest.approx(
            alone, rel=0.02
        )
    # Not told η either, every agent may be of a cluster of its own.
    assert theory.instance_lower_bound(one, 0.05, 0.0, clusters_told=False) > n_agents * alone / 20


def test_alternatives_are_worked_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory grows with M·K: the parts have at most `_NUMBERS` numbers, and change no digit that
    counts.
    """
    from clustered_bandit_gym.theory import alternatives

    rng = np.random.default_rng(1)
    means = 0.5 * rng.random((3, 20))
    means[np.arange(3), np.arange(3)] = 1.0
    instance = Instance(means, np.repeat(np.arange(3), 4))
    whole = theory.solve_lower_bound(instance, 0.05, clusters_told=False)
    sizes = []
    closest = alternatives.closest

    def watched(laws: Any, weights: Any, *others: Any) -> Any:
        sizes.append(weights.size)
        return closest(laws, weights, *others)

    monkeypatch.setattr(alternatives, "_NUMBERS", 200)
    monkeypatch.setattr(alternatives, "closest", watched)
    parts = theory.solve_lower_bound(instance, 0.05, clusters_told=False)
    assert max(sizes) <= 200
    assert parts.value == pytest.approx(whole.value, rel=1e-9)
    assert parts.gap == pytest.approx(whole.gap, abs=1e-9)
