"""StructuredBAI's error budgets: their sum is at most δ, and the code tests at no other level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from structured_tables import representatives

import clustered_bandit_gym as cbg
from clustered_bandit_gym.generators import PaperSmall
from clustered_bandit_gym.policies import StructuredBAI
from clustered_bandit_gym.policies.sequential.cells import Cells
from clustered_bandit_gym.policies.sequential.scales import Scales
from clustered_bandit_gym.policies.structured.budget import (
    Budgets,
    ClusterWeights,
    nats,
    retry_weight,
)
from clustered_bandit_gym.policies.structured.classify import Plan
from clustered_bandit_gym.policies.structured.evidence import beat, certify, eliminate, settle
from clustered_bandit_gym.policies.structured.representatives import Record

SIZES = [(300, 10, 3), (1000, 100, 20), (5, 4, 4), (1, 1, 1), (2, 6, 4), (40, 2, 2)]
#: Enough terms: Σ_{t > T} of the weights below is 0.1/(T − M), added to each sum.
TERMS = 2000


@pytest.mark.parametrize(("n", "k", "m"), SIZES)
@pytest.mark.parametrize("delta", [0.1, 1e-10])
def test_all_budgets_add_up_to_at_most_delta(n: int, k: int, m: int, delta: float) -> None:
    b = Budgets(cbg.Problem(n, k, m, delta))
    numbers = range(1, TERMS + 1)
    weights = np.array([b.number_weight(t) for t in numbers])
    tail = 0.1 / (TERMS - m)
    assert weights.sum() + tail == pytest.approx(1)
    best = sum((k - 1) * b.beaten(t) + (m - 1) * b.close(t) for t in numbers)
    # Each level is one number times w_s·w_t, whose sum over pairs s < t is (1 − Σw²)/2.
    of_pair = b.distinct(1, 2) / (weights[0] * weights[1])
    assert b.distinct(3, 7) == pytest.approx(of_pair * weights[2] * weights[6])
    distinct = of_pair * ((weights.sum() + tail) ** 2 - (weights**2).sum()) / 2
    retries = [retry_weight(a) for a in numbers]
    # The weights beyond add up to 0.1/T.
    assert sum(retries) + 0.1 / TERMS == pytest.approx(1)
    classify = n * b.classify(1, 1) / retries[0] ** 2
    accept = n * (k + m - 2) * b.accept()
    total = best * (1 + tail / (1 - tail)) + distinct + classify + accept
    assert total <= delta * (1 + 1e-9)
    if k > 1 and m > 1:
        assert total >= 0.9 * delta, "budgets that are left over are pulls given away"


def test_budgets_as_the_docs_state_them() -> None:
    b = Budgets(cbg.Problem(300, 10, 3, 1e-10))
    assert b.beaten(2) == pytest.approx(0.2e-10 * 0.3 / 9)
    assert b.beaten(5) == pytest.approx(0.2e-10 * 0.1 / 6 / 9)
    assert b.close(1) == pytest.approx(0.2e-10 * 0.3 / 2)
    assert b.distinct(1, 5) == pytest.approx(0.04e-10 * 0.3 * 0.1 / 6)
    assert b.classify(1, 1) == pytest.approx(0.43e-10 * 0.81 / 300)
    assert b.classify(2, 3) == pytest.approx(0.43e-10 * 0.05 * 0.1 / 6 / 300)
    assert b.accept() == pytest.approx(0.15e-10 / (300 * 11))


def test_weights_of_attempts_fall_and_never_vanish() -> None:
    """The code puts 1 + (number dropped) for the generation, which may be less: the weights must
    not rise. Among 10^5
    agents hundreds of candidates are dropped: a weight that vanishes has no logarithm."""
    weights = np.array([retry_weight(a) for a in range(1, 10_000)])
    assert (np.diff(weights) < 0).all()
    b = Budgets(cbg.Problem(10**5, 10, 3, 1e-10))
    first, late = (nats(b.classify(g, 1)) for g in (1, 10_000))
    assert late < first + 22


def test_thresholds_of_the_code_are_those_of_the_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = PaperSmall(n_agents=30)(np.random.default_rng(0))
    reps = representatives(instance, 50.0, delta=0.01)
    asked: dict[float, list[float]] = {}
    original = Cells.shows

    def spy(self: Cells, a: Any, b: Any, shift: float, level: Any, other: Any = None) -> Any:
        asked.setdefault(shift, []).extend(np.broadcast_to(level, a[0].shape))
        return original(self, a, b, shift, level, other)

    monkeypatch.setattr(Cells, "shows", spy)

    def only_level(shift: Any) -> float:
        (level,) = set(asked.pop(shift))
        return level

    certify(reps)
    assert asked.pop(0.0) == pytest.approx([nats(0.0004 * 0.09) + math.log(40)] * 3)
    reps.distinct[:] = ~np.eye(3, dtype=bool)  # else nothing is tried by rule (b)
    eliminate(reps)
    assert only_level(0.0) == pytest.approx(nats(0.002 * 0.3 / 9))
    assert only_level(reps.eta) == pytest.approx(nats(0.002 * 0.3 / 2))
    settle(reps, reps.rows, 0.05)
    assert only_level(0.05) == pytest.approx(nats(0.002 * 0.3 / 9))
    alone = Record(reps.federation, reps.budgets, np.array([20, 21]))
    alone.pull_where(np.full(alone.n.shape, 50.0))
    beat(alone, alone.rows)
    settle(alone, alone.rows, 0.3)
    for shift in (0.0, 0.3):
        assert only_level(shift) == pytest.approx(nats(0.0015 / (30 * 11)))


def test_all_arms_together_have_one_sixteenth_of_the_weight() -> None:
    """Two agents differ by d on every arm. K(¼ñd² − ln(1 + n/ρ)), at the best ρ of the grid, must
    reach ln(1/α) + ln 16, with α = 0.04δ·w_1·w_2: a millionth less does not do."""
    instance = cbg.Instance(np.eye(2, 10), [0, 1])
    n, rho = 400.0, 16 * 8.0 ** np.arange(8)
    needed = nats(0.04 * 0.01 * 0.45**2) + math.log(16)
    d = np.sqrt(4 * (needed / 10 + np.log1p(n / rho)) * (n + rho) / n**2).min()
    for part, distinct in ((1 - 1e-6, False), (1 + 1e-6, True)):
        reps = representatives(instance, n, delta=0.01)
        reps.mean[:] = np.array([[0.0], [part * d]])
        certify(reps)
        assert reps.distinct[0, 1] == distinct


def test_candidates_are_numbered_in_the_order_in_which_they_were_chosen() -> None:
    reps = representatives(PaperSmall(n_agents=30)(np.random.default_rng(0)), 50.0)
    reps.drop(1)
    reps.add(29)
    reps.drop(0)
    reps.add(28)
    assert reps.number.tolist() == [3, 4, 5]
    assert reps.dropped == 2


def test_levels_that_are_asked_for_in_a_play_are_few_and_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every level that a play uses comes from `Budgets`, with numbers that the union bound has room
    for.
    """
    asked: dict[str, set[int]] = {}
    for name in ("beaten", "close", "distinct", "classify"):
        original = getattr(Budgets, name)

        def spy(self: Budgets, *args: Any, name: str = name, original: object = original) -> Any:
            asked.setdefault(name, set()).update(*(np.ravel(arg).tolist() for arg in args))
            return original(self, *args)  # type: ignore[operator]

        monkeypatch.setattr(Budgets, name, spy)
    instance = PaperSmall(n_agents=60)(np.random.default_rng(0))
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 1e-6, eta=0.3), seed=4)
    assert federation.stop(StructuredBAI().solve(federation)).correct
    assert asked["beaten"] == asked["close"] == asked["distinct"] == {1, 2, 3}
    assert asked["classify"] == {1}


def test_weights_of_choices_made_after_the_data_sum_to_at_most_one() -> None:
    k = 10
    for eta in (0.3, 1e-3, None):
        w = ClusterWeights(Budgets(cbg.Problem(30, k, 3, 0.01)), 3, eta)
        arms = 2 * math.exp(-w.best_arm) + k * math.exp(-w.any_arm)
        assert math.exp(-w.assumed) + arms == pytest.approx(1)
        assert np.exp(-w.rho_price).sum() == pytest.approx(1)
        assert 2 * math.exp(-w.alternative) == pytest.approx(1)


@pytest.mark.parametrize("n", [1.0, 75.0, 4e7])
def test_scales_have_weights_that_sum_to_at_most_one(n: float) -> None:
    scales = Scales(n, 1e-9)
    assert scales.weight.sum() <= 1
    assert scales.weight.max() == 0.5
    assert np.allclose(np.diff(np.log(scales.rho)), np.log(32))
    assert scales.rho[0] <= 1


def test_price_of_a_test_is_what_its_parts_cost() -> None:
    """price = ln(R − 1) + what the arm costs + ½ ln(1 + n/ρ) + what ρ costs."""
    instance = PaperSmall(n_agents=30)(np.random.default_rng(1))
    reps = representatives(instance, 3000.0, delta=1e-10)
    best = instance.best_arms
    reps.eta = 0.3
    plan = Plan(reps, best, level=30.0)
    plan.prepare()
    rho = plan.weights.rho
    for x in range(3):
        for j in set(range(3)) - {x}:
            cell, part = plan.arms[x, j], math.log(10 / 0.2)
            if plan.assumed[x, j]:
                cell, part = best[j], -math.log(0.4)
            elif cell in (best[x], best[j]):
                part = -math.log(0.2)
            n = reps.n[j, cell]
            pick = np.abs(n**2 / (n + rho) - plan.worth[x, j]).argmin()
            mixing = 0.5 * np.log1p(n / rho[pick]) + plan.weights.rho_price[pick]
            assert plan.price[x, j] == pytest.approx(math.log(2) + part + mixing)


def test_the_grid_of_rho_does_not_depend_on_how_the_play_went() -> None:
    """A ρ tuned to an attempt's own level would be chosen after the rewards that it is used on."""
    instance = PaperSmall(n_agents=30)(np.random.default_rng(0))
    reps = representatives(instance, 50.0, delta=0.01)
    first, *others = (
        Plan(reps, instance.best_arms, 20.0),
        Plan(reps, instance.best_arms, 35.0),
        Plan(reps, None, 20.0),
    )
    for later in others:
        assert np.array_equal(first.weights.rho, later.weights.rho)
        assert np.array_equal(first.weights.rho_price, later.weights.rho_price)
        assert np.array_equal(first.weights.any_arm, later.weights.any_arm)
