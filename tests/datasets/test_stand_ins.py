"""The stand-ins hold what is printed about the real data: checked against the tables that they were made from."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from make_stand_ins import BEST_MEANS, GAP_RANKS, GAPS

from clustered_bandit_gym import Instance
from clustered_bandit_gym.datasets.generators import stand_in
from clustered_bandit_gym.generators import make_generator

FINGERPRINT: dict = {
    "movies": [82, 134, 77, 212, 45, 130],
    "yelp": [70, 130, 59, 199],
    "movies sum": -0.066357068928,
    "yelp sum": 12.694101030449,
}


@pytest.fixture(scope="module")
def movies() -> Instance:
    return make_generator("movielens-like", n_agents=12)(np.random.default_rng(0))


def test_the_six_best_movies_have_exactly_the_published_means(movies: Instance) -> None:
    assert (movies.n_arms, movies.n_clusters) == (316, 6)
    names = ["movie 50", "movie 318", "movie 922", "movie 527", "movie 2019", "movie 1207"]
    columns = [movies.arm_names.index(name) for name in names]  # type: ignore[union-attr]
    np.testing.assert_allclose(2 * movies.means[:, columns], BEST_MEANS, rtol=0, atol=1e-12)
    assert movies.best_arms.tolist() == columns


def test_gaps_follow_the_table(movies: Instance) -> None:
    raw = 2 * movies.means
    gaps = np.sort(raw.max(axis=1, keepdims=True) - raw, axis=1)
    assert np.all(np.diff(gaps, axis=1) > 0)
    found = gaps[:, np.array(GAP_RANKS) - 1]
    # Exact but where the table's rank is one of the six movies, whose own (4-digit) means give the gap: there the two
    # tables agree within their rounding (3 digits from 0.1 on).
    shared = np.abs(found - GAPS) > 1e-9
    assert np.all(np.abs(found - GAPS)[shared] <= 5.1e-4)
    published = BEST_MEANS.diagonal()[:, None] - BEST_MEANS
    for group, rank in np.argwhere(shared):
        assert np.min(np.abs(published[group] - found[group, rank])) < 1e-9
    assert shared.sum() == 5


def test_separations_are_those_of_the_published_table(movies: Instance) -> None:
    # 56+: 4.6232 − 4.6204 = 0.0028; movie 527: 4.5915 − 4.5655 = 0.0260; rewards are half a rating.
    assert movies.eta == pytest.approx(0.0014, abs=1e-12)
    assert movies.eta1 == pytest.approx(0.0130, abs=1e-12)
    assert movies.rewards.sigma == 1.0


def test_groups_correlate_and_ratings_spread_as_stated(movies: Instance) -> None:
    raw = 2 * movies.means
    correlation = np.corrcoef(raw)
    assert correlation[0, 1] == pytest.approx(0.92, abs=0.01)
    assert correlation[0, 5] == pytest.approx(0.63, abs=0.02)
    assert correlation.min() == pytest.approx(correlation[0, 5], abs=1e-12)
    pairs = np.triu_indices(6, 1)
    assert np.abs(raw[pairs[0]] - raw[pairs[1]]).mean() == pytest.approx(0.14, abs=0.03)
    p = movies.rewards.probabilities  # type: ignore[attr-defined]
    ratings = np.arange(1, 6)
    deviation = np.sqrt((p * (ratings - raw[..., None]) ** 2).sum(axis=2))
    assert deviation.min() == pytest.approx(0.57, abs=1e-6)
    assert np.median(deviation) == pytest.approx(0.90, abs=1e-3)
    assert deviation.max() == pytest.approx(1.38, abs=1e-6)
    assert p.min() > 0


def test_yelp_like_has_the_published_numbers() -> None:
    instance = make_generator("yelp-like", n_agents=8)(np.random.default_rng(0))
    assert (instance.n_arms, instance.n_clusters) == (211, 4)
    assert instance.eta == 0.375
    assert instance.eta1 == pytest.approx(1 / 6, abs=1e-15)
    assert instance.rewards.to_dict() == {"kind": "gaussian", "sigma": 1.0}
    assert instance.gaps.min() >= 0.125
    assert instance.means.min() >= 1
    assert instance.means.max() <= 5
    # Averages of half stars over at most 20 branches: 2·mean·n is whole for some n.
    doubled = 2 * instance.means[..., None] * np.arange(1, 21)
    assert np.all(np.abs(doubled - np.round(doubled)).min(axis=2) < 1e-9)


@pytest.mark.parametrize("name", ["movielens-like", "yelp-like"])
def test_the_bandits_are_fixed_and_the_agents_are_drawn(name: str) -> None:
    one, two = (make_generator(name, n_agents=40)(np.random.default_rng(seed)) for seed in (1, 2))
    np.testing.assert_array_equal(one.means, two.means)
    assert np.any(one.clusters != two.clusters)
    assert np.ptp(np.bincount(one.clusters)) <= 1
    skewed = make_generator(name, n_agents=4000, sizes="power", alpha=2.0)(np.random.default_rng(1))
    assert np.all(np.diff(np.bincount(skewed.clusters)) > 0)


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ("ClusteredBAI-MovieLensLike-v0", (316, 6, 0.0014, 0.013)),
        ("ClusteredBAI-YelpLike-v0", (211, 4, 0.375, 1 / 6)),
    ],
)
def test_the_environments_tell_the_true_separations(env: str, told: tuple[float, ...]) -> None:
    _, info = gym.make(env, n_agents=12).reset(seed=0)
    assert (info["n_arms"], info["n_clusters"]) == told[:2]
    assert (info["eta"], info["eta1"]) == pytest.approx(told[2:], abs=1e-12)


def test_the_stand_ins_are_the_same_for_everybody() -> None:
    """A change here is a change of everybody's results: it needs a new environment version."""
    movies, yelp = stand_in("movielens_like"), stand_in("yelp_like")
    assert movies.best_arms.tolist() == FINGERPRINT["movies"]
    assert yelp.best_arms.tolist() == FINGERPRINT["yelp"]
    weights = np.sin(np.arange(316))
    assert float(movies.means[3] @ weights) == pytest.approx(FINGERPRINT["movies sum"], abs=1e-9)
    assert float(yelp.means[2] @ weights[:211]) == pytest.approx(FINGERPRINT["yelp sum"], abs=1e-9)
