"""The stand-ins hold what is printed about the real data: checked against those tables, written out here again."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from clustered_bandit_gym import Instance
from clustered_bandit_gym.datasets import stand_ins
from clustered_bandit_gym.generators import make_generator

PUBLISHED = np.array(
    [
        [4.6808, 4.6746, 4.3636, 4.4729, 4.6049, 4.1014],
        [4.5524, 4.5877, 4.5166, 4.4853, 4.5495, 4.4190],
        [4.3909, 4.4875, 4.6116, 4.5103, 4.5329, 4.5859],
        [4.2404, 4.4813, 4.4138, 4.5915, 4.5417, 4.4950],
        [4.3429, 4.3510, 4.5102, 4.5655, 4.6571, 4.5510],
        [4.4314, 4.4257, 4.3529, 4.6204, 4.5135, 4.6232],
    ]
)
RANKS = np.array([2, 3, 5, 10, 30, 100, 200, 316])
GAPS = np.array(
    [
        [0.0062, 0.0759, 0.1590, 0.223, 0.312, 0.586, 0.915, 1.977],
        [0.0092, 0.0136, 0.0353, 0.116, 0.212, 0.481, 0.788, 1.894],
        [0.0257, 0.0696, 0.1010, 0.137, 0.280, 0.514, 0.756, 1.645],
        [0.0499, 0.0839, 0.1100, 0.148, 0.235, 0.480, 0.780, 1.530],
        [0.0625, 0.0892, 0.1060, 0.149, 0.271, 0.499, 0.763, 1.703],
        [0.0028, 0.0251, 0.0503, 0.106, 0.197, 0.428, 0.740, 1.936],
    ]
)
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
    np.testing.assert_allclose(2 * movies.means[:, columns], PUBLISHED, rtol=0, atol=1e-12)
    assert movies.best_arms.tolist() == columns


def test_gaps_follow_the_table(movies: Instance) -> None:
    raw = 2 * movies.means
    gaps = np.sort(raw.max(axis=1, keepdims=True) - raw, axis=1)
    assert np.all(np.diff(gaps, axis=1) > 0)
    found = gaps[:, RANKS - 1]
    # Exact but where the table's rank is one of the six movies, whose own (4-digit) means give the gap: there the two
    # tables agree within their rounding (3 digits from 0.1 on).
    shared = np.abs(found - GAPS) > 1e-9
    assert np.all(np.abs(found - GAPS)[shared] <= 5.1e-4)
    published = PUBLISHED.diagonal()[:, None] - PUBLISHED
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
    movies, yelp = stand_ins.load("movielens_like"), stand_ins.load("yelp_like")
    assert movies.best_arms.tolist() == FINGERPRINT["movies"]
    assert yelp.best_arms.tolist() == FINGERPRINT["yelp"]
    weights = np.sin(np.arange(316))
    assert float(movies.means[3] @ weights) == pytest.approx(FINGERPRINT["movies sum"], abs=1e-9)
    assert float(yelp.means[2] @ weights[:211]) == pytest.approx(FINGERPRINT["yelp sum"], abs=1e-9)
