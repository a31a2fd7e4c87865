"""Features of learned players: soft clustering against posteriors computed by other means, and their symmetries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from clustered_bandit_gym.policies.learned.beliefs import Beliefs, infer
from clustered_bandit_gym.policies.learned.features import SIZE, Features


def plays(
    rng: np.random.Generator, e: int, n: int, k: int, low: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(low, 9, (e, n, k)), rng.normal(0, 0.7, (e, n, k))


def beliefs(pulls: np.ndarray, means: np.ndarray, margin: float = 0.0, most: int = 10) -> Beliefs:
    """Of one play, from counts and means (N, K) in σ."""
    count = pulls[..., None].astype(np.float32)
    centred = means - (pulls * means).sum() / pulls.sum()
    return infer(count, count * centred[..., None].astype(np.float32), margin, most)


def test_one_agent_with_two_arms_is_a_normal_probability() -> None:
    """P(arm 0 is the best) = Φ(difference / standard error), where pulls are so many that the prior does not count."""
    for difference in (0.05, -0.1, 0.02):
        count = np.array([[[6000], [9000]]], dtype=np.float32)
        centred = np.array([[[0.6 * difference], [-0.4 * difference]]], dtype=np.float32)
        alone = infer(count, count * centred, 0.0, 2, rounds=0)
        exact = norm.cdf(difference / np.sqrt(1 / 6000 + 1 / 9000))
        assert alone.member[0, 0, 0] == pytest.approx(exact, abs=2e-3)


def test_agents_that_are_alike_pool_and_agents_that_differ_do_not() -> None:
    means = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    found = beliefs(np.full((4, 3), 40), means)
    together = np.einsum("ik,jk->ij", found.member[..., 0], found.member[..., 0])
    np.testing.assert_allclose(together, np.kron(np.eye(2), np.ones((2, 2))), atol=1e-3)
    assert found.answer[..., 0].argmax(axis=1).tolist() == [0, 0, 1, 1]
    # The posterior variance in a component is that of 80 pulls.
    np.testing.assert_allclose(1 / found.variance[:2, :, 0], 80, rtol=0.1)


def test_membership_follows_the_exact_posterior() -> None:
    """A fourth agent with few pulls between two known clusters: odds as two marginal likelihoods say.

    The known clusters have 4,000 pulls, so that their means are as good as known and the exact posterior is a ratio of
    normal densities (times the agents in each cluster and the weight of an empty one, which is small here).
    """
    means = np.array([[1.0, 0.0], [0.0, 1.0], [0.45, 0.30]])
    pulls = np.array([[4000, 4000], [4000, 4000], [4, 4]])
    found = beliefs(pulls, means, most=2)
    likelihood = [
        float(multivariate_normal.pdf(means[2], mean=means[k], cov=np.eye(2) / 4)) for k in range(2)
    ]
    exact = likelihood[0] / sum(likelihood)
    assert 0.6 < exact < 0.8
    assert found.member[2, 0, 0] == pytest.approx(exact, abs=0.02)


def test_best_arms_of_other_clusters_are_ruled_out() -> None:
    """Arm 1 is surely the best of agent 1's cluster, hence not of agent 0's: the close race there is decided."""
    means = np.array([[0.5, 0.45, -1.0], [-1.0, 1.0, -1.0]])
    pulls = np.full((2, 3), 30)
    assert beliefs(pulls[:1], means[:1]).answer[0, 1, 0] > 0.2
    for margin in (0.0, 0.5):
        assert beliefs(pulls, means, margin).answer[0, 1, 0] < 0.01


def test_renumbering_agents_and_arms_changes_no_feature() -> None:
    rng = np.random.default_rng(1)
    n, k = 6, 4
    pulls, means = plays(rng, 20, n, k, low=1)
    see = Features(2, 0.5, 0.4)
    agents, arms = rng.permutation(n), rng.permutation(k)
    before = see(pulls, means)
    after = see(pulls[:, agents][:, :, arms], means[:, agents][:, :, arms])
    np.testing.assert_allclose(after.features, before.features, atol=5e-3)
    np.testing.assert_array_equal(arms[after.arms], before.arms[:, agents])
    agent, arm = np.divmod(after.cells, k)
    np.testing.assert_array_equal(agents[agent] * k + arms[arm], before.cells)


def test_shift_and_scale_change_nothing() -> None:
    pulls, means = plays(np.random.default_rng(2), 20, 4, 3, low=0)
    base = Features(2, 0.5, 0.4)(pulls, means)
    moved = Features(2, 5.0, 4.0)(pulls, 10 * (means + 3))
    np.testing.assert_allclose(moved.features, base.features, atol=2e-3)
    np.testing.assert_array_equal(moved.arms, base.arms)


def test_means_of_cells_without_pulls_are_not_read() -> None:
    pulls, means = plays(np.random.default_rng(3), 20, 4, 3, low=0)
    see = Features(2, 0.5, 0.4)
    np.testing.assert_array_equal(
        see(pulls, means).features, see(pulls, np.where(pulls > 0, means, np.nan)).features
    )


def test_many_plays_at_once_are_single_ones() -> None:
    pulls, means = plays(np.random.default_rng(4), 300, 20, 8, low=0)
    see = Features(4, 0.5, 0.4)
    whole = see(pulls, means)  # several blocks
    for e in (0, 170, 299):
        one = see(pulls[e : e + 1], means[e : e + 1])
        np.testing.assert_allclose(one.features[0], whole.features[e], atol=2e-3)
        np.testing.assert_array_equal(one.arms[0], whole.arms[e])


def test_sharing_moves_the_recommendation() -> None:
    """Three agents agree on two arms; the fourth has one pull of each, misleading on one of them: they outvote it."""
    pulls = np.full((1, 4, 3), 30)
    means = np.tile([1.0, 0.0, 0.0], (4, 1))[None]
    pulls[0, 3] = 1
    means[0, 3] = [0.5, 0.7, 0.0]
    assert Features(1, 0.5, 1.0)(pulls, means).arms.tolist() == [[0, 0, 0, 0]]
    assert Features(4, None, 0.01)(pulls, means).arms.tolist() == [[0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("n", "k", "m"), [(1, 1, 1), (1, 4, 1), (5, 2, None), (3, 5, 3), (60, 12, 5)]
)
def test_any_size(n: int, k: int, m: int | None) -> None:
    pulls, means = plays(np.random.default_rng(6), 7, n, k, low=0)
    see = Features(m, None, 1.0)
    for counts in (pulls, np.zeros_like(pulls), pulls * 10**6):
        seen = see(counts, means)
        assert seen.features.shape == (7, SIZE)
        assert (seen.cells < n * k).all()
        assert np.isfinite(seen.features).all()
        assert seen.arms.shape == (7, n)
