"""Good enough arms: with ε > 0 an engine stops at a near tie, and what it returns is within ε."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies import make
from clustered_bandit_gym.policies.engines.registry import ENGINES, get_engine

POLICIES = [f"naive:engine={name}" for name in ENGINES] + ["cl-bai"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_near_tie_costs_little_with_epsilon(policy: str) -> None:
    """A tie of 0.001 between the two best arms; δ = 1e-9, so that an error shows a mistake."""
    instance = cbg.Instance([[1.0, 0.999, 0.2], [0.1, 0.3, 1.0]], [0, 0, 1, 1])
    problem = cbg.Problem.of(instance, 1e-9, epsilon=0.1)
    federation = cbg.Federation(instance, problem, 1)
    assert federation.stop(make(policy).solve(federation)).correct
    # Without ε the tie alone takes about 16 ln(1/δ)/0.001² pulls.
    assert federation.pulls < 10**7


@pytest.mark.parametrize("engine", ENGINES)
def test_error_rate_with_epsilon(engine: str) -> None:
    """600 agents, γ = 0.2 each; arms 2 and 3 are just not good enough. At most 20% wrong;
    false-alarm rate below 1e-9 (exact binomial)."""
    n = 600
    instance = cbg.Instance([[1.0, 0.95, 0.89, 0.89]], np.zeros(n, dtype=int), allow_ties=True)
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1, epsilon=0.1), 5)

    def program(block: cbg.Block) -> cbg.ArmIndex:
        active, means = get_engine(engine)(block, np.arange(4), 0.2, precision=0.1)
        return cbg.ArmIndex(np.where(active, means, -np.inf).argmax(axis=1), among=4)

    arms = federation.local(federation.agents, program)
    assert (arms >= 2).sum() <= binom.isf(1e-9, n, 0.2)
