"""The yardsticks of learned players against the policies they stand for, and `UniformGLR` against its promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import clustered_bandit_gym as cbg
from clustered_bandit_gym.generators import Tiny
from clustered_bandit_gym.policies import UniformGLR, UniformPolicy
from clustered_bandit_gym.policies.learned import evaluation
from clustered_bandit_gym.policies.learned.many import Played
from clustered_bandit_gym.policies.learned.uniform_curves import (
    REPEATS,
    THRESHOLDS,
    UniformCurves,
    pulls_at_error,
    uniform_plays,
)
from clustered_bandit_gym.policies.uniform_glr import statistic


def instance(**changes: Any) -> cbg.Instance:
    return cbg.Instance([[1.0, 0.0], [0.0, 1.0]], [0, 1, 0], cbg.Gaussian(1.0), **changes)


def test_uniform_curve_is_the_exact_law() -> None:
    """Two arms a distance 1 apart: an agent errs with probability Φ(−√(n/2)). False alarm below 1e-9 a point."""
    trials = 2000
    uniform, _ = UniformCurves([instance()] * trials, seed=1).down_to(0.05)
    for n in (1, 3, 6, 10):
        exact = 1 - (1 - norm.cdf(-np.sqrt(n / 2))) ** 3
        count = round(uniform.wrong[:, n - 1].sum() * REPEATS)
        assert 1e-10 < binom.cdf(count, trials * REPEATS, exact) < 1 - 1e-10
    np.testing.assert_array_equal(uniform.pulls[0], 6 * np.arange(1, uniform.pulls.shape[1] + 1))


def test_glr_curve_is_that_of_the_policy() -> None:
    """Pulls and errors of `UniformGLR` played on the same instance: two-sample tests at 6.5 standard errors (1e-10)."""
    trials = 600
    _, stopping = UniformCurves([instance()] * trials, seed=2).down_to(0.05)
    for threshold in (0.75, 1.5):
        rows = []
        for t in range(trials):
            federation = cbg.Federation(instance(), cbg.Problem.of(instance(), 0.05), seed=t)
            rows.append(
                (
                    float(not federation.stop(UniformGLR(threshold).solve(federation)).correct),
                    federation.pulls,
                )
            )
        own = np.array(rows)
        s = int(np.flatnonzero(threshold == THRESHOLDS)[0])
        for mine, theirs in ((own[:, 0], stopping.wrong[:, s]), (own[:, 1], stopping.pulls[:, s])):
            error = np.hypot(mine.std(), theirs.std()) / np.sqrt(trials)
            assert abs(mine.mean() - theirs.mean()) < 6.5 * error
        assert own[:, 0].mean() > 0.01


def test_curve_reaches_the_error_rate_it_is_asked_for() -> None:
    uniform, _ = UniformCurves([instance()] * 400, seed=3).down_to(0.0)
    assert uniform.wrong.mean(axis=0)[-1] <= 0.5 / 400 / 2


def test_ties_are_broken_at_random() -> None:
    """Noiseless-looking Bernoulli rewards tie after one pull: each of three arms is taken a third of the time."""
    tie = cbg.Instance([[1.0, 1.0, 1.0]], [0], cbg.Bernoulli(), allow_ties=True, allow_overlap=True)
    rng = np.random.default_rng(0)
    odd = cbg.Instance([[1.0, 0.999999, 0.999998]], [0], cbg.Bernoulli())
    wrong = np.mean([uniform_plays(odd, rng, 4)[0][0] for _ in range(500)])
    assert abs(wrong - 2 / 3) < 6.5 * np.sqrt(2 / 9 / 2000) + 1e-4
    assert uniform_plays(tie, rng, 4)[0].max() == 0


def test_pulls_at_error_interpolates_in_log_error() -> None:
    pulls, errors = np.array([[10.0, 20.0, 30.0]]), np.array([[0.1, 0.01, 0.0]])
    found = [
        pulls_at_error(pulls, errors, np.array([goal]), floor=1e-3)[0]
        for goal in (0.1, 0.0316227766, 0.01, 0.0)
    ]
    np.testing.assert_allclose(found, [10, 15, 20, 30], rtol=1e-6)
    assert pulls_at_error(pulls, errors, np.array([0.5]), floor=1e-3)[0] == 10
    # No error at all counts as half an error, and the first setting without errors is where the yardstick is there.
    flat = np.array([[0.1, 0.0, 0.0, 0.0]])
    assert (
        pulls_at_error(np.array([[10.0, 20.0, 30.0, 40.0]]), flat, np.array([0.0]), floor=1e-3)[0]
        == 20
    )
    # A curve that never comes down that far.
    assert pulls_at_error(pulls, np.array([[0.3, 0.2, 0.1]]), np.array([0.01]), floor=1e-3)[0] == 30


def test_ratio_of_the_yardstick_with_itself_is_one() -> None:
    """A player that *is* uniform sampling with n pulls per arm has ratio 1 within its paired interval."""
    rng = np.random.default_rng(4)
    trials, n = 800, 5
    instances = [Tiny()(rng) for _ in range(trials)]
    wrong = []
    for t, one in enumerate(instances):
        federation = cbg.Federation(one, cbg.Problem.of(one, 0.05), seed=t)
        wrong.append(not federation.stop(UniformPolicy(n).solve(federation)).correct)
    mine = Played(
        instances, np.full(trials, 12.0 * n), np.array(wrong, dtype=float), np.zeros(trials)
    )
    compared = evaluation._compare(
        "uniform itself", "Tiny", 5, mine, UniformCurves(instances, seed=5)
    )
    ratio = compared.ratios[0]
    assert ratio.yardstick == "uniform"
    assert (compared.error_rate, compared.pulls_mean) == (np.mean(wrong), 12.0 * n)
    # Half the width of a 95% interval is two standard errors; 1e-9 two-sided is 6.1 of them.
    half = (ratio.high - ratio.low) / 2
    assert abs(ratio.ratio - 1) < 6.1 / 1.96 * half
    assert half < 0.3


def test_uniform_glr_keeps_its_promise_and_stops() -> None:
    """δ = 0.2: at most 1e-10 for 600 plays of a δ-PC policy to err more often than this."""
    errors = 0
    for t in range(600):
        federation = cbg.Federation(instance(), cbg.Problem.of(instance(), 0.2), seed=t)
        errors += not federation.stop(UniformGLR().solve(federation)).correct
        assert federation.ledger.bits("up") == 3
    assert binom.sf(errors - 1, 600, 0.2) > 1e-10


def test_uniform_glr_corners() -> None:
    one_arm = cbg.Instance([[0.3]], [0, 0])
    federation = cbg.Federation(one_arm, cbg.Problem.of(one_arm, 0.1))
    assert UniformGLR().solve(federation).tolist() == [0, 0]
    assert federation.pulls == 0
    tie = cbg.Instance([[0.5, 0.5]], [0], allow_ties=True, allow_overlap=True)
    federation = cbg.Federation(tie, cbg.Problem.of(tie, 0.1), max_pulls=10**6)
    with pytest.raises(cbg.BudgetExceeded):
        UniformGLR(threshold=50.0).solve(federation)
    for bad in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="threshold"):
            UniformGLR(bad)
    assert statistic(np.array([1.0, 0.2, 0.6]), 8, 0.5) == pytest.approx(8 * 0.16 / 1.0)
