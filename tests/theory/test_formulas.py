from __future__ import annotations

from math import exp, log

import pytest
from scipy import stats

from clustered_bandit_gym import theory
from clustered_bandit_gym.policies.engines.elimination import round_size
from clustered_bandit_gym.theory.formulas import se_error


@pytest.mark.parametrize("gamma", [0.3, 0.01, 1e-12])
def test_an_elimination_errs_far_less_than_its_level(gamma: float) -> None:
    """With Gaussian rewards the difference of two averages of n is N(0, 2σ²/n): its tail beyond
    ε_r, summed exactly.
    """
    for n_arms in (2, 3, 100):
        exact = 0.0
        for r in range(1, 20):  # the later ones do not count
            deviation = (2 / round_size(n_arms, gamma, r)) ** 0.5
            exact += (n_arms - 1) * stats.norm.sf(2.0**-r / deviation)
        bound = se_error(n_arms, gamma)
        assert exact <= bound <= 0.017 * gamma**2


@pytest.mark.parametrize("m", [1, 2, 20, 100])
@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-10])
def test_printed_budgets_of_bai_cl_add_up(m: int, delta: float) -> None:
    """Phase 1: two calls at each agent. Phase 2 of BAI-Cl: one call at δ/(3N). BAI-Cl++ instead has
    M stored averages and all checks of SE-hat, each an average of 32 ln(1/level)/η1² rewards that
    must be within η1/4."""
    gamma, n = theory.bai_cl_gamma(m, delta), theory.bai_cl_most_agents(m, delta)
    assert n >= 19 * delta / gamma**2
    phase_1 = n * 2 * max(se_error(k, gamma) for k in range(2, 50))
    assert phase_1 <= 2 * delta / 3
    assert phase_1 + n * se_error(max(m, 2), delta / (3 * n)) <= delta

    def check(level: float) -> float:
        """P(|average − mean| > η1/4) for ⌈32 ln(1/level)/η1²⌉ rewards: 2·exp(−n(η1/4)²/2) =
        2·level.
        """
        return 2 * exp(-(32 * log(1 / level)) / 16 / 2)

    stored = m * check(delta / (12 * m))
    tries = (
        n * sum(check(delta / (6 * n) / (4 * k**2)) for k in range(1, 200))
        + n * 2 * delta / (24 * n) / 200
    )
    assert stored + tries <= delta / 3
    assert phase_1 + stored + tries <= delta
