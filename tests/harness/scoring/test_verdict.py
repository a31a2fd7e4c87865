"""The verdict's confidence sequence against independently computed laws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import xlog1py, xlogy

from clustered_bandit_gym.harness.scoring.verdict import confidence_sequence, verdict


def mixture_by_quadrature(errors: int, trials: int, delta: float) -> float:
    """∫ q^S (1 − q)^(n − S) dπ(q) by numerical integration over the prior's own quantiles: no beta
    function of ours.
    """
    laws = [(0.9, stats.beta(0.5, (1 / delta - 1) / 2)), (0.1, stats.beta(0.5, 0.5))]

    def average(law: stats.rv_frozen) -> float:
        def integrand(u: float) -> float:
            q = law.ppf(u)
            return float(np.exp(xlogy(errors, q) + xlog1py(trials - errors, -q)))

        edges = np.linspace(0, 1, 41)
        return sum(
            integrate.quad(integrand, a, b, limit=100)[0] for a, b in itertools.pairwise(edges)
        )

    return sum(weight * average(law) for weight, law in laws)


@pytest.mark.parametrize("delta", [0.5, 0.3, 0.05])
@pytest.mark.parametrize(("errors", "trials"), [(0, 30), (2, 7), (12, 12)])
def test_ends_are_where_the_martingale_reaches_one_over_alpha(
    errors: int, trials: int, delta: float
) -> None:
    mixture = mixture_by_quadrature(errors, trials, delta)
    low, high = confidence_sequence(errors, trials, alpha=0.1, delta=delta)
    for end, trivial in ((low, errors == 0), (high, errors == trials)):
        if trivial:
            assert end == (0.0 if end == low else 1.0)
        else:
            likelihood = end**errors * (1 - end) ** (trials - errors)
            assert mixture / likelihood == pytest.approx(1 / 0.1, rel=1e-5)
    assert low <= errors / trials <= high


def missing_table(
    p: float, trials: np.ndarray, width: int, alpha: float, delta: float
) -> np.ndarray:
    """(trials, width) booleans: with S (column) errors the interval misses p."""
    n, s = trials[:, None], np.arange(width)[None, :]
    rows, columns = np.nonzero(s <= n)
    low, high = confidence_sequence(columns, trials[rows], alpha, delta)
    table = np.zeros((trials.size, width), dtype=bool)
    table[rows, columns] = (p < low) | (p > high)
    return table


def crossing_probability(p: float, horizon: int, alpha: float, delta: float) -> float:
    """Exact P(some interval among the first `horizon` misses p), by carrying the law of S that has
    not yet missed.
    """
    outside = missing_table(p, np.arange(1, horizon + 1), horizon + 2, alpha, delta)
    alive = np.zeros(horizon + 2)
    alive[0] = 1.0
    missed = 0.0
    for t in range(1, horizon + 1):
        stepped = alive * (1 - p)
        stepped[1:] += alive[:-1] * p
        missed += stepped[outside[t - 1]].sum()
        alive = np.where(outside[t - 1], 0.0, stepped)
    assert missed + alive.sum() == pytest.approx(1.0)
    return float(missed)


@pytest.mark.parametrize("delta", [0.5, 0.05])
@pytest.mark.parametrize("p", [0.001, 0.05, 0.3, 0.9])
def test_exact_probability_of_ever_missing_the_truth(p: float, delta: float) -> None:
    alpha = 0.05
    missed = crossing_probability(p, 500, alpha, delta)
    assert missed <= alpha


def test_exact_probability_is_not_vacuous() -> None:
    """The bound is used, not merely kept: most of alpha is spent within 500 looks at the rate asked
    about; a fixed-n 95% interval looked at as often would miss with several times alpha."""
    assert 0.015 < crossing_probability(0.1, 500, 0.05, 0.1) <= 0.05
    assert crossing_probability(0.1, 500, 0.5, 0.1) > 0.2


def test_error_free_trials_that_a_pass_needs() -> None:
    for delta, needed in ((0.1, 41), (0.05, 83), (0.01, 420)):
        assert verdict(0, needed, delta).word == "PASS"
        before = verdict(0, needed - 1, delta)
        assert (before.word, before.more) == ("INCONCLUSIVE", 1)


@pytest.mark.parametrize(
    ("errors", "trials", "delta"), [(0, 0, 0.1), (0, 10, 0.05), (3, 40, 0.1), (7, 30, 0.2)]
)
def test_more_is_the_least_number_that_passes(errors: int, trials: int, delta: float) -> None:
    found = verdict(errors, trials, delta)
    assert found.word == "INCONCLUSIVE"
    assert found.more is not None
    words = [verdict(errors, trials + m, delta).word for m in range(1, found.more + 1)]
    assert words == ["INCONCLUSIVE"] * (found.more - 1) + ["PASS"]
    assert f"{found.more:,} further trial" in found.reason


def test_words() -> None:
    assert verdict(30, 60, 0.1).word == "FAIL"
    assert verdict(30, 60, 0.1).more is None
    assert verdict(1, 2000, 0.05).more == 0
    for errors, trials, delta in ((4, 20, 0.1), (0, 200, 0.1), (19, 20, 0.1)):
        found = verdict(errors, trials, delta)
        low, high = confidence_sequence(errors, trials, 0.05, delta)
        assert (found.low, found.high) == (low, high)
        assert found.word == (
            "PASS" if high <= delta else "FAIL" if low > delta else "INCONCLUSIVE"
        )


def test_tiny_delta_says_what_the_trials_cannot_tell() -> None:
    clean = verdict(0, 50, 1e-10)
    assert clean.word == "INCONCLUSIVE"
    assert clean.more == 10**6 + 1  # no further counting
    assert "no simulation can confirm δ" in clean.reason
    assert verdict(1, 50, 1e-10).word == "FAIL"


def test_unfinished_trials_count_against_a_pass_and_cannot_fail() -> None:
    """FAIL: the sequence of P(wrong) is above δ. PASS: that of P(wrong or unfinished) is at or
    below δ.
    """
    for errors, unfinished, trials in itertools.product(
        (0, 1, 3, 30, 60), (0, 1, 2, 40, 140), (200,)
    ):
        found = verdict(errors, trials, 0.1, unfinished=unfinished)
        low = confidence_sequence(errors, trials, 0.05, 0.1)[0]
        high = confidence_sequence(errors + unfinished, trials, 0.05, 0.1)[1]
        assert (found.low, found.high) == (low, high)
        assert found.word == ("FAIL" if low > 0.1 else "PASS" if high <= 0.1 else "INCONCLUSIVE")
    crashes = verdict(0, 250, 0.1, unfinished=200)
    assert (crashes.word, crashes.more) == ("INCONCLUSIVE", None)
    assert "200 unfinished" in crashes.reason
    assert "no PASS is possible" in crashes.reason
    assert verdict(0, 250, 0.1, unfinished=2).word == "PASS"
    rare = verdict(0, 40, 0.1, unfinished=1)
    assert rare.word == "INCONCLUSIVE"
    assert rare.more == verdict(1, 40, 0.1).more is not None
    assert f"{rare.more} further trials, all finished and right, would give a PASS" in rare.reason


@pytest.mark.parametrize("delta", [1e-19, 5e-324])
def test_delta_beyond_any_simulation(delta: float) -> None:
    clean = verdict(0, 50, delta)
    assert (clean.word, clean.more) == ("INCONCLUSIVE", 10**6 + 1)
    assert verdict(1, 50, delta).word == "FAIL"
    assert verdict(0, 50, delta, unfinished=3).word == "INCONCLUSIVE"


def test_edges() -> None:
    assert confidence_sequence(0, 0) == (0.0, 1.0)
    assert confidence_sequence(0, 10**12, delta=1e-10)[1] < 1e-10
    assert confidence_sequence(5, 5)[1] == 1.0
    assert 0 < confidence_sequence(1, 10**12)[0] < 1e-12 < confidence_sequence(1, 10**12)[1] < 1e-10


def test_arrays_agree_with_numbers_and_broadcast() -> None:
    trials = np.array([[0], [1], [50], [3000]])
    errors = np.minimum(np.array([[0, 1, 17, 3000]]), trials)
    low, high = confidence_sequence(errors, trials, 0.01, 0.1)
    assert low.shape == high.shape == (4, 4)
    for index in np.ndindex(4, 4):
        one = confidence_sequence(int(errors[index]), int(trials[index[0], 0]), 0.01, 0.1)
        assert one == pytest.approx((low[index], high[index]), rel=1e-11)
