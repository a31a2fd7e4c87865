"""Classification in StructuredBAI: its evidence against numerical minima, its error rates against
their levels.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from structured_tables import MEANS, RARE, representatives

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.sequential.cells import BettingCells
from clustered_bandit_gym.policies.structured import classify as structured_classify
from clustered_bandit_gym.policies.structured.budget import Budgets
from clustered_bandit_gym.policies.structured.classify import Plan, _Block
from clustered_bandit_gym.policies.structured.evidence import ClusterTests
from clustered_bandit_gym.policies.structured.tuning import TUNING


@pytest.mark.parametrize("eta", [None, 0.3])
def test_evidence_against_a_cluster_is_the_sum_that_the_docs_state(eta: float | None) -> None:
    """Each arm's term by numerical minimisation over the unknown mean, less the price."""
    rng = np.random.default_rng(2)
    reps = representatives(cbg.Instance(MEANS, np.arange(12) % 3), 400.0)
    reps.eta = eta
    plan = Plan(reps, MEANS.argmax(axis=1), level=25.0)
    plan.prepare()
    n = rng.integers(1, 300, (9, 3)).astype(float)
    mean = rng.uniform(0, 1, n.shape)
    guess = np.arange(9) % 3
    found = plan.evidence(guess, n, mean)
    for row, x in enumerate(guess):
        for j in set(range(3)) - {int(x)}:
            alternative, worth = reps.mean[x, plan.arms[x, j]], plan.worth[x, j]
            reference = plan.reference[x, j]
            mu = np.linspace(-3, 4, 400_001)
            own = (mean[row, j] - mu) ** 2 - (mean[row, j] - alternative) ** 2
            ratio = 0.5 * n[row, j] * own
            if plan.assumed[x, j]:
                ratio = np.where(mu < alternative, ratio, 0)
            value = (0.5 * worth * (reference - mu) ** 2 + ratio).min()
            value = 0 if plan.assumed[x, j] and reference >= alternative else value
            total = value - plan.price[x, j]
            assert found[row, j] == pytest.approx(total, abs=1e-3)
        assert found[row, x] == -np.inf


CLOSE = np.array([[1.0, 0.8, 0.6, 0.5], [0.85, 1.0, 0.6, 0.5], [0.85, 0.8, 1.0, 0.5]])


def mislabelled(
    means: np.ndarray,
    eta: float | None,
    runs: int,
    alpha: float,
    pulls: float,
    trusting: bool,
    bets: bool = False,
) -> int:
    """Runs in which an agent's own cluster is ruled out at level α, with representatives that are
    poorly known.

    Each run has representatives and one agent of its own. `trusting` takes their averages for the
    truth. `bets` plays with coins and tests by betting.
    """
    rewards = cbg.Bernoulli() if bets else cbg.Gaussian()
    count = 0
    clusters = np.append(np.arange(3), [0, 1, 2])
    for run in range(runs):
        reps = representatives(cbg.Instance(means, clusters, rewards), pulls, seed=run)
        reps.eta = None if eta is None else eta / rewards.sigma
        plan = Plan(reps, means.argmax(axis=1), level=-math.log(alpha))
        plan._sharpen = lambda: None  # type: ignore[method-assign]
        if bets:
            plan.choose_kind = partial(plan.set_kind, bets=True)  # type: ignore[method-assign]
        plan.prepare()
        if trusting:
            plan.worth[:] = 1e18
            plan.price[:] = 0
        agent = 3 + run % 3
        block = _Block(plan, np.array([agent]))
        if trusting:
            block.rep_pulls[:] = 1e18
        label = int(block.run()[0])
        count += label >= 0 and label != agent - 3
    return count


@pytest.mark.parametrize(("means", "eta"), [(MEANS, None), (MEANS, 0.3), (CLOSE, 0.15)])
def test_an_agents_own_cluster_is_ruled_out_as_rarely_as_stated(
    means: np.ndarray, eta: float | None
) -> None:
    runs, alpha = 80, 0.2
    assert mislabelled(means, eta, runs, alpha, 60.0, trusting=False) <= binom.isf(
        RARE, runs, alpha
    )


@pytest.mark.parametrize(("means", "eta"), [(MEANS, 0.3), (CLOSE * 0.9, 0.135)])
def test_bets_rule_out_an_agents_own_cluster_as_rarely_as_stated(
    means: np.ndarray, eta: float
) -> None:
    runs, alpha = 80, 0.2
    assert mislabelled(means, eta, runs, alpha, 200.0, trusting=False, bets=True) <= binom.isf(
        RARE, runs, alpha
    )


def test_evidence_is_compared_with_the_level_of_event_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.43δ·v_3·v_1/N after two candidates were dropped. In a classification, every test is tried with
    a little less evidence than ln(1/α) as well, and with a little more."""
    reps = representatives(cbg.Instance(MEANS, np.arange(30) % 3), 400.0, delta=0.01)
    reps.dropped = 2
    needed = -math.log(0.43 * 0.01 * (0.1 / 6) * 0.9 / 30)
    original = ClusterTests.rejects
    found = set()

    def probe(self: ClusterTests, x: Any, evidence: Any, *where: Any) -> Any:
        for off in (-1e-9, 1e-9):
            rejected = original(self, x, np.full_like(evidence, needed + off), *where)
            found.update((off, bool(one)) for one in rejected.flat)
        return original(self, x, evidence, *where)

    monkeypatch.setattr(ClusterTests, "rejects", probe)
    structured_classify.classify(reps, MEANS.argmax(axis=1))
    assert found == {(-1e-9, False), (1e-9, True)}


def test_bets_are_at_the_level_that_the_weights_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Level, ln(R − 1), the kind of test, the arm and its direction: the prices that
    docs/structured-bai.md states, and that are asked for in the test.
    """
    asked: list[float] = []
    monkeypatch.setattr(BettingCells, "shows", lambda *args: asked.extend(args[4]) or False)
    reps = representatives(cbg.Instance(MEANS, np.arange(12) % 3, cbg.Bernoulli()), 400.0)
    best = MEANS.argmax(axis=1)
    reps.eta = 0.6
    plan = Plan(reps, best, level=25.0)
    plan.choose_kind = partial(plan.set_kind, bets=True)  # type: ignore[method-assign]
    plan.prepare()
    for x in range(3):
        for j in set(range(3)) - {x}:
            price = math.log(2) + math.log(2)  # the other alternative, the other kind of test
            if plan.assumed[x, j]:
                price -= math.log(0.4)
            else:
                of_best = plan.arms[x, j] in (best[x], best[j])
                price += math.log(2) + math.log(1 / 0.2 if of_best else 10 / 0.2)
            assert plan.bet_price[x, j] == pytest.approx(price)
            against_j = np.where(np.arange(3) == j, 0.0, -np.inf)[None]
            plan.rejects(np.array([x]), against_j, reps.cells, np.array([0]))
            assert asked.pop() == pytest.approx(25 + price)


def test_taking_estimates_for_the_truth_would_not_do() -> None:
    """The same check fails for the plug-in test, so it can fail."""
    runs, alpha = 120, 0.05
    assert mislabelled(CLOSE, None, runs, alpha, 10.0, trusting=True) > binom.isf(RARE, runs, alpha)


def test_agents_that_run_out_of_patience_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = replace(TUNING, patience=0.3)
    monkeypatch.setattr(structured_classify, "TUNING", hasty)
    instance = cbg.Instance(MEANS, np.arange(30) % 3)
    reps = representatives(instance, 500.0)
    attempts = []
    original = Budgets.classify

    def spy(self: Budgets, *args: int) -> float:
        if args:
            attempts.append(args[1])
            if args[1] == 4:
                monkeypatch.setattr(structured_classify, "TUNING", TUNING)
        return original(self, *args)

    monkeypatch.setattr(Budgets, "classify", spy)
    labels = structured_classify.classify(reps, instance.best_arms)
    assert attempts == [1, 2, 3, 4]
    assert labels.tolist() == (np.arange(30) % 3).tolist()


def test_choices_that_no_weight_covers_are_refused() -> None:
    reps = representatives(cbg.Instance(MEANS, np.arange(12) % 3), 400.0)
    plan = Plan(reps, MEANS.argmax(axis=1), level=25.0)
    plan.prepare()
    plan.assumed = ~np.eye(3, dtype=bool)
    plan.arms = (plan.best[:, None] + 1) % MEANS.shape[1] + np.zeros((3, 3), dtype=np.int64)
    with pytest.raises(AssertionError, match="a best arm k_x only"):
        plan.freeze()
    plan.assumed[:] = False
    reps.n[1] = 0
    with pytest.raises(AssertionError, match="never pulled"):
        plan.freeze()
