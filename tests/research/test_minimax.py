from __future__ import annotations

from math import log, log1p

import numpy as np
import pytest
from scipy import optimize

from clustered_bandit_gym import theory
from clustered_bandit_gym.generators import PaperFlat
from research.paper.minimax import assignment_information, minimax_lower_bound

DELTA = 1e-3


def test_minimax_bound_adds_its_terms() -> None:
    kl, unit = theory.information_needed(DELTA), 1 / 0.2**2
    one = minimax_lower_bound(10, 1, 100, 0.2, DELTA)
    assert one == pytest.approx(99 * kl * unit / 2), "one bandit: best arms only"
    # With many agents the average over assignments is larger, and asks for more than ln(N(M −
    # 1)/1.6δ) nats an agent.
    n = 10**4
    found = minimax_lower_bound(n, 3, 100, 0.2, DELTA)
    occupied = 3 * (1 - (2 / 3) ** n)
    per_agent = assignment_information(n, 3, DELTA)
    assert found == pytest.approx(occupied * 97 * kl * unit / 2 + n * 2 * per_agent * unit)
    assert found > 3 * 97 * kl * unit / 2 + n * 2 * log(n / (1.6 * DELTA)) * unit
    assert minimax_lower_bound(n, 3, 100, 0.2, DELTA, sigma=0.5) == pytest.approx(found / 4)
    # With as many agents as clusters, all bandits occupied is the better case.
    assert minimax_lower_bound(3, 3, 100, 0.2, DELTA) == pytest.approx((3 * 97 / 2 + 6) * kl * unit)
    assert minimax_lower_bound(10, 1, 1, 0.2, DELTA) == 0, "nothing to find out"
    for bad in ((0, 3, 10, 0.2), (10, 3, 2, 0.2), (10, 3, 10, 0.0)):
        with pytest.raises(ValueError):
            minimax_lower_bound(*bad, DELTA)


@pytest.mark.parametrize("m", [2, 3, 20])
@pytest.mark.parametrize("n", [1, 2, 10, 1000, 10**6])
@pytest.mark.parametrize("delta", [1e-10, 1e-3, 0.05, 0.2])
def test_information_per_agent(n: int, m: int, delta: float) -> None:
    """Between kl(δ, 1 − δ) and what the exact relation of errors would allow; at small δ at least
    ln(N(M − 1)/1.6δ).
    """
    found = assignment_information(n, m, delta)
    assert found >= theory.information_needed(delta) * (1 - 1e-12)
    # A learner with independent agents, each wrong with e = 1 − (1 − δ)^(1/N), collects φ(e): no
    # bound may exceed it.
    e = -np.expm1(log1p(-delta) / n)
    assert found <= (1 - e * m / (m - 1)) * log((m - 1) * (1 - e) / e) * (1 + 1e-9)
    if n / delta >= 2500 and delta * (1 + log(n * (m - 1) / (1.6 * delta))) <= 0.63:
        assert found >= log(n * (m - 1) / (1.6 * delta))


def test_learners_that_give_up_are_allowed_for() -> None:
    """A learner that gives up at once with probability a, and else has N independent agents, errs
    with probability δ. Its information per agent is above the bound for every a; where giving up
    pays, the bound has come down for it."""
    n, m, delta = 10**6, 2, 0.2

    def information(a: float) -> float:
        rest = (delta - a * (1 - 0.5**n)) / (1 - a)
        e = -np.expm1(log1p(-rest) / n)
        return float((1 - a) * (1 - 2 * e) * log((1 - e) / e))

    best = optimize.minimize_scalar(information, bounds=(0, delta * (1 - 1e-9)), method="bounded")
    assert best.fun < information(0.0) - 0.5
    found = assignment_information(n, m, delta)
    assert found <= best.fun
    assert found >= 0.8 * best.fun


def test_flat_instance_is_above_its_minimax_bound() -> None:
    """The instance of the minimax bound is the flat one; its class asks for gaps ≥ Δ: fewer
    alternatives.
    """
    for n_agents in (20, 200):
        instance = PaperFlat(n_agents, 5, 25)(np.random.default_rng(0))
        needed, unit = theory.information_needed(1e-10), 0.15**-2
        evenly = 5 * 20 * needed * unit / 2 + n_agents * 2 * needed * unit
        assert evenly <= minimax_lower_bound(n_agents, 5, 25, 0.15, 1e-10) * (1 + 1e-12)
        assert evenly <= theory.instance_lower_bound(instance, 1e-10) * (1 + 1e-6)
