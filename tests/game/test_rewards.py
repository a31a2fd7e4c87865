"""Sums of pulls against the laws that scipy knows.

Seeds are fixed. Every test of a law asks for a p-value above 1e-10 (or for |z| < 6.5, whose two-sided probability is
8e-11): that is the false-alarm rate of each such check, should the streams of NumPy ever change.
"""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
from scipy import stats

from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel

ALARM = 1e-10
SIZES = [1, 7, 1000, 10**9, 10**15]
ROWS = 40_000

MEANS = np.array([[0.3, 0.9, 0.002], [0.55, 0.1, 0.998]])
SUPPORT = np.array([-1.0, 0.0, 2.0, 3.0])
LAWS = np.array(
    [
        [[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.0, 0.5, 0.5, 0.0]],
        [[0.25, 0.25, 0.25, 0.25], [0.01, 0.0, 0.0, 0.99], [0.0, 0.999, 0.001, 0.0]],
    ]
)


def averages(
    model: RewardModel,
    means: np.ndarray,
    cluster: int,
    arm: int,
    n: int,
    rows: int = ROWS,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    rng = rng or np.random.default_rng([cluster, arm, n % 2**31])
    return model.average(rng, means, np.full(rows, cluster), np.full(rows, arm), n)


def chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    """p-value of counts against expected counts, rare values pooled."""
    assert observed[expected == 0].sum() == 0, "a value without probability was drawn"
    order = np.argsort(-expected)
    common = order[expected[order] >= 5]
    rare = order[expected[order] < 5]
    found, wanted = list(observed[common]), list(expected[common])
    if rare.size:
        found.append(observed[rare].sum())
        wanted.append(expected[rare].sum())
    found, wanted = np.array(found)[np.array(wanted) > 0], np.array(wanted)[np.array(wanted) > 0]
    return float(stats.chi2.sf(((found - wanted) ** 2 / wanted).sum(), max(1, len(wanted) - 1)))


def uniform_p(below: np.ndarray, at: np.ndarray, seed: int = 5) -> float:
    """p-value of the randomised probability transform: P(X < x) + U·P(X = x) is uniform for the true law."""
    return float(
        stats.kstest(below + np.random.default_rng(seed).random(below.size) * at, "uniform").pvalue
    )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("sigma", [1.0, 0.25])
def test_gaussian_average_is_normal(n: int, sigma: float) -> None:
    drawn = averages(Gaussian(sigma), MEANS, 1, 0, n)
    assert stats.kstest((drawn - MEANS[1, 0]) * np.sqrt(n) / sigma, "norm").pvalue > ALARM


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("cluster", "arm"), [(0, 0), (0, 2), (1, 2)])
def test_bernoulli_sum_is_binomial(n: int, cluster: int, arm: int) -> None:
    p = MEANS[cluster, arm]
    drawn = averages(Bernoulli(), MEANS, cluster, arm, n) * n
    counts = np.rint(drawn).astype(np.int64)
    assert np.allclose(drawn, counts, rtol=4e-16, atol=1e-9)
    law = stats.binom(n, p)
    if n <= 7:
        assert (
            chi_square(np.bincount(counts, minlength=n + 1), ROWS * law.pmf(np.arange(n + 1)))
            > ALARM
        )
    elif n <= 10**9:
        assert uniform_p(law.cdf(counts - 1), law.pmf(counts)) > ALARM
    else:
        # Berry-Esseen: the normal law is off by less than 1/sqrt(n p (1-p)) < 1e-6 here, far below what KS can see.
        assert stats.kstest((counts - n * p) / np.sqrt(n * p * (1 - p)), "norm").pvalue > ALARM


def test_binomial_of_huge_n_and_rare_event() -> None:
    """NumPy's own binomial is off by 0.4 % of a standard deviation at n = 1e15, p = 1e-12: |z| = 9 in this test."""
    n, p, rows, rng = 10**15, 1e-12, 10**6, np.random.default_rng(1)
    z = squares = 0.0
    for _ in range(5):
        drawn = averages(Bernoulli(), np.array([[p]]), 0, 0, n, rows, rng)
        counts = np.rint(drawn * n)
        z += (counts - n * p).sum() / np.sqrt(n * p)
        squares += ((counts - n * p) ** 2).sum() / (n * p)
    assert abs(z) / np.sqrt(5 * rows) < 6.5
    assert abs(squares - 5 * rows) / np.sqrt(10 * rows) < 6.5
    # The count is Poisson up to 1e-12 in total variation.
    poisson = stats.poisson(n * p)
    assert uniform_p(poisson.cdf(counts - 1), poisson.pmf(counts)) > ALARM


def test_binomial_of_a_rare_failure() -> None:
    """Successes at 1 − p are failures at p, draw for draw."""
    n, p = 10**15, 2.0**-40
    rare, common = (
        averages(Bernoulli(), np.array([[mean]]), 0, 0, n, 1000, np.random.default_rng(1))
        for mean in (p, 1 - p)
    )
    assert np.rint((1 - common) * n).tolist() == pytest.approx(np.rint(rare * n).tolist(), abs=1)


def law_of_sum(p: np.ndarray, n: int) -> np.ndarray:
    """Probabilities of the sum of n draws from SUPPORT, on the grid −n..3n: n-fold convolution by squaring."""
    one = np.zeros(5)
    one[(SUPPORT + 1).astype(int)] = p
    result, power = np.ones(1), one
    while n:
        if n & 1:
            result = np.convolve(result, power)
        power, n = np.convolve(power, power), n >> 1
    return result


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("cluster", "arm"), [(0, 0), (0, 2), (1, 1), (1, 2)])
def test_categorical_sum_is_multinomial(n: int, cluster: int, arm: int) -> None:
    model = Categorical(SUPPORT, LAWS)
    means, p = model.check_means(None), LAWS[cluster, arm]
    drawn = averages(model, means, cluster, arm, n) * n
    if n <= 1000:
        law = law_of_sum(p, n)
        index = np.rint(drawn).astype(np.int64) + n
        assert np.allclose(drawn + n, index)
        if n <= 7:
            assert chi_square(np.bincount(index, minlength=law.size), ROWS * law) > ALARM
        else:
            assert uniform_p(np.concatenate([[0], law.cumsum()])[index], law[index]) > ALARM
    else:
        spread = np.sqrt(n * (p @ SUPPORT**2 - means[cluster, arm] ** 2))
        assert stats.kstest((drawn - n * means[cluster, arm]) / spread, "norm").pvalue > ALARM


def test_rows_of_different_clusters_arms_and_times_at_once() -> None:
    rng = np.random.default_rng(3)
    clusters, arms = rng.integers(2, size=ROWS), rng.integers(3, size=ROWS)
    times = 10 ** rng.integers(0, 10, size=ROWS)
    z = (Gaussian().average(rng, MEANS, clusters, arms, times) - MEANS[clusters, arms]) * np.sqrt(
        times
    )
    assert stats.kstest(z, "norm").pvalue > ALARM
    counts = np.rint(Bernoulli().average(rng, MEANS, clusters, arms, times) * times)
    law = stats.binom(times, MEANS[clusters, arms])
    assert uniform_p(law.cdf(counts - 1), law.pmf(counts)) > ALARM


@pytest.mark.parametrize("model", [Gaussian(0.5), Bernoulli(), Categorical(SUPPORT, LAWS)])
def test_a_grid_has_the_law_of_its_rows(model: RewardModel) -> None:
    """(n, 1) × (1, k) index arrays take another path than flat ones."""
    means = model.check_means(None if isinstance(model, Categorical) else MEANS)
    clusters = np.arange(20_000)[:, None] % 2
    for arms in (np.array([[0, 1, 2]]), np.array([[2, 0]])):
        grid = model.average(np.random.default_rng(1), means, clusters, arms, 11)
        assert grid.shape == (20_000, arms.size)
        for column, arm in enumerate(arms[0]):
            for m in range(2):
                flat = averages(model, means, m, int(arm), 11, 10_000)
                assert (
                    stats.ks_2samp(grid[clusters[:, 0] == m, column], flat, method="asymp").pvalue
                    > ALARM
                )


@pytest.mark.parametrize("model", [Gaussian(0.5), Bernoulli(), Categorical(SUPPORT, LAWS)])
def test_one_by_one_against_batch(model: RewardModel) -> None:
    means = model.check_means(None if isinstance(model, Categorical) else MEANS)
    rng = np.random.default_rng(7)
    for m in range(2):
        for k in range(3):
            pulls = [model.single(rng, means, m, k) for _ in range(7 * 20_000)]
            singles = np.reshape(pulls, (20_000, 7))
            batch = averages(model, means, m, k, 7, 20_000)
            assert (
                stats.ks_2samp(singles.mean(axis=1).round(9), batch.round(9), method="asymp").pvalue
                > ALARM
            )


def test_single_pulls_never_land_on_a_value_without_mass() -> None:
    # 0.1 ten times sums to 1 − 1e-16: the largest uniform must still not reach the last value.
    laws = np.array([[[0.1] * 10 + [0.0]]])
    model = Categorical(np.arange(11.0), laws)
    for uniform, value in ((np.nextafter(1, 0), 9), (0.0, 0)):
        rng = Mock(random=lambda uniform=uniform: uniform)
        assert model.single(rng, model.check_means(None), 0, 0) == value


def test_one_pull_is_an_average_of_one_unless_the_model_is_faster() -> None:
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    single = RewardModel.single(Gaussian(), one, MEANS, 1, 2)
    assert single == Gaussian().average(other, MEANS, 1, 2, 1)


@pytest.mark.parametrize("model", [Bernoulli(), Categorical(SUPPORT, LAWS)])
def test_sigma_bounds_the_moment_generating_function(model: RewardModel) -> None:
    values = np.array([0.0, 1.0]) if isinstance(model, Bernoulli) else SUPPORT
    laws = np.stack([1 - MEANS, MEANS], axis=-1) if isinstance(model, Bernoulli) else LAWS
    for t in np.linspace(-20, 20, 81):
        for p in laws.reshape(-1, values.size):
            assert (
                np.log(p @ np.exp(t * (values - p @ values))) <= model.sigma**2 * t**2 / 2 + 1e-12
            )


@pytest.mark.parametrize("sigma", [-1.0, np.nan, np.inf])
def test_gaussian_refuses(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma"):
        Gaussian(sigma)


@pytest.mark.parametrize(
    ("support", "laws", "message"),
    [
        ([0, 1], [[[0.5, 0.4]]], "sum to 1"),
        ([0, 1], [[[1.5, -0.5]]], "must not be negative"),
        ([0, 1], [[[np.nan, 1.0]]], "must not be negative"),
        ([0, 1, 2], [[[0.5, 0.5]]], "shape"),
        ([0, 1], [[0.5, 0.5]], "shape"),
        ([1, 0], [[[0.5, 0.5]]], "increasing"),
        ([0, 0], [[[0.5, 0.5]]], "increasing"),
        ([0, np.inf], [[[0.5, 0.5]]], "finite"),
        ([], np.zeros((1, 1, 0)), "support"),
    ],
)
def test_categorical_refuses(support: list[float], laws: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Categorical(support, np.array(laws))


def test_unknown_model() -> None:
    with pytest.raises(ValueError, match="unknown reward model"):
        RewardModel.from_dict({"kind": "cauchy"})


@pytest.mark.parametrize("model", [Bernoulli(), Categorical(SUPPORT, LAWS)])
def test_counts_have_the_law_of_their_averages(model: RewardModel) -> None:
    means = model.check_means(None if isinstance(model, Categorical) else MEANS)
    clusters, arms, times = np.array([[0], [1]]), np.array([[0, 1]]), np.array([[7, 1000], [3, 50]])
    counts = model.counts(np.random.default_rng(5), means, clusters, arms, times)
    averages = model.average(np.random.default_rng(5), means, clusters, arms, times)
    assert model.values is not None
    assert counts.shape == (2, 2, model.values.size)
    assert np.array_equal(counts.sum(axis=-1), times)
    # One stream of draws behind both: the average is that of the counts.
    np.testing.assert_allclose(counts @ model.values / times, averages, rtol=1e-12)


def test_gaussian_rewards_cannot_be_counted() -> None:
    assert Gaussian().values is None
    with pytest.raises(ValueError, match="cannot be counted"):
        Gaussian().counts(np.random.default_rng(0), MEANS, np.array([0]), np.array([0]), 3)
