"""Features of learned players, against the model they are built on, written out and solved by a general optimiser."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from clustered_bandit_gym.policies.learned.features import CELL_FEATURES, PLAY_FEATURES, Features

C, G = len(CELL_FEATURES), len(PLAY_FEATURES)
COLUMN = {name: i for i, name in enumerate(CELL_FEATURES)}


def plays(rng: np.random.Generator, e: int, n: int, k: int, low: int = 1) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(low, 9, (e, n, k)), rng.normal(0, 0.7, (e, n, k))


def cells(features: np.ndarray, n: int, k: int) -> np.ndarray:
    return features[:, :-G].reshape(len(features), n, k, C)


def groupings(n: int, most: int) -> set[tuple[int, ...]]:
    """Group numbers of the agents, in order of first appearance."""
    found = set()
    for labels in itertools.product(range(most), repeat=n):
        names: dict[int, int] = {}
        found.add(tuple(names.setdefault(label, len(names)) for label in labels))
    return found


def best_fit(pulls: np.ndarray, means: np.ndarray, group: np.ndarray, best: tuple[int, ...], eta: float) -> float:
    """Largest log-likelihood (unit Gaussians, up to a constant) of one hypothesis: bounded least squares.

    The unknowns of a group are the level t of its best arm and, for every other arm, how far (at least 0) it lies below
    where it has to: mean = t − drop − slack.
    """
    k = pulls.shape[1]
    loss = 0.0
    for g, top in enumerate(best):
        rows, targets = [], []
        for i in np.flatnonzero(group == g):
            for j in range(k):
                row = np.zeros(k)
                row[top] = 1.0
                if j != top:
                    row[j] = -1.0
                drop = eta if j != top and j in best else 0.0
                rows.append(np.sqrt(pulls[i, j]) * row)
                targets.append(np.sqrt(pulls[i, j]) * (means[i, j] + drop))
        low = np.zeros(k)
        low[top] = -np.inf
        loss += float(lsq_linear(np.array(rows), np.array(targets), (low, np.inf), tol=1e-12).cost)
    return -loss


@pytest.mark.parametrize(("n", "k", "m"), [(3, 3, 2), (2, 3, 2)])
def test_weights_are_those_of_the_constrained_fits(n: int, k: int, m: int) -> None:
    rng = np.random.default_rng(5)
    eta, sigma = 0.6, 0.5
    pulls, means = plays(rng, 3, n, k, low=4)
    seen = Features(n, k, m, eta, sigma)(pulls, means)
    for e in range(3):
        weights = np.zeros((n, k))
        answers: dict[tuple[int, ...], float] = {}
        for labels in groupings(n, m):
            group = np.array(labels)
            for best in itertools.permutations(range(k), max(labels) + 1):
                weight = np.exp(best_fit(pulls[e], means[e] / sigma, group, best, eta / sigma))
                answer = tuple(best[g] for g in labels)
                answers[answer] = answers.get(answer, 0.0) + weight
                weights[np.arange(n), list(answer)] += weight
        total = sum(answers.values())
        # The features weigh in a hundredth of a pull of the overall average.
        got = cells(seen.features, n, k)[e, ..., COLUMN["weight as best arm"]]
        np.testing.assert_allclose(got, weights / total, atol=0.02)
        ranked = sorted(answers.values())
        if ranked[-1] > 1.1 * ranked[-2]:
            assert tuple(seen.arms[e]) == max(answers, key=answers.__getitem__)


def test_renumbering_agents_and_arms_renumbers_the_features() -> None:
    rng = np.random.default_rng(1)
    n, k = 4, 3
    pulls, means = plays(rng, 20, n, k, low=0)
    see = Features(n, k, 2, 0.5, 0.4)
    agents, arms = rng.permutation(n), rng.permutation(k)
    before, after = see(pulls, means), see(pulls[:, agents][:, :, arms], means[:, agents][:, :, arms])
    moved = cells(before.features, n, k)[:, agents][:, :, arms]
    # Two answers of exactly equal weight may change places: compare where the best is unique.
    unique = np.flatnonzero(before.features[:, -G + PLAY_FEATURES.index("log doubt")] < 0.85)
    assert unique.size > 8
    np.testing.assert_allclose(cells(after.features, n, k)[unique], moved[unique], atol=1e-4)
    np.testing.assert_allclose(after.features[unique, -G:], before.features[unique, -G:], atol=1e-4)
    np.testing.assert_array_equal(arms[after.arms[unique]], before.arms[unique][:, agents])


def test_shift_and_scale_change_nothing() -> None:
    pulls, means = plays(np.random.default_rng(2), 20, 4, 3, low=0)
    base = Features(4, 3, 2, 0.5, 0.4)(pulls, means)
    moved = Features(4, 3, 2, 5.0, 4.0)(pulls, 10 * (means + 3))
    np.testing.assert_allclose(moved.features, base.features, atol=1e-4)
    np.testing.assert_array_equal(moved.arms, base.arms)


def test_means_of_cells_without_pulls_are_not_read() -> None:
    pulls, means = plays(np.random.default_rng(3), 20, 4, 3, low=0)
    see = Features(4, 3, 2, 0.5, 0.4)
    np.testing.assert_array_equal(see(pulls, means).features, see(pulls, np.where(pulls > 0, means, np.nan)).features)


def test_many_plays_at_once_are_single_ones() -> None:
    pulls, means = plays(np.random.default_rng(4), 150, 4, 3, low=0)
    see = Features(4, 3, 2, 0.5, 0.4)
    assert see._block < 150
    whole = see(pulls, means)
    for e in (0, 70, 149):
        one = see(pulls[e : e + 1], means[e : e + 1])
        np.testing.assert_allclose(one.features[0], whole.features[e], atol=1e-5)
        np.testing.assert_array_equal(one.arms[0], whole.arms[e])


def test_sharing_moves_the_recommendation() -> None:
    """Three agents agree on two arms; the fourth has one pull of each, misleading on one of them: they outvote it."""
    pulls = np.full((1, 4, 3), 30)
    means = np.tile([1.0, 0.0, 0.0], (4, 1))[None]
    pulls[0, 3] = 1
    means[0, 3] = [0.5, 0.7, 0.0]
    assert Features(4, 3, 1, 0.5, 1.0)(pulls, means).arms.tolist() == [[0, 0, 0, 0]]
    assert Features(4, 3, 4, None, 0.01)(pulls, means).arms.tolist() == [[0, 0, 0, 1]]


@pytest.mark.parametrize(("n", "k", "m"), [(1, 1, 1), (1, 4, 1), (5, 2, None), (3, 5, 3)])
def test_other_sizes(n: int, k: int, m: int | None) -> None:
    pulls, means = plays(np.random.default_rng(6), 7, n, k, low=0)
    see = Features(n, k, m, None, 1.0)
    seen = see(pulls, means)
    assert seen.features.shape == (7, see.size)
    assert np.isfinite(seen.features).all()
    assert seen.arms.shape == (7, n)
    assert see.n_hypotheses == len(see._in_hypothesis)


def test_too_many_hypotheses() -> None:
    with pytest.raises(ValueError, match="hypotheses"):
        Features(200, 100, 20, 0.15, 1.0)
