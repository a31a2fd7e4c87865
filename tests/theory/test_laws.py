"""Divergences of reward laws, and the nearest law with a given mean."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from clustered_bandit_gym.theory.laws import BernoulliLaws, CategoricalLaws, GaussianLaws

SUPPORT = np.array([-1.0, 0.0, 0.5, 3.0])
LAWS = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25, 0.5, 0.25, 0.0]])


def test_divergences() -> None:
    a, b, s = 0.3, 0.55, 0.7

    def integrand(x: float) -> float:
        return stats.norm.pdf(x, a, s) * (stats.norm.logpdf(x, a, s) - stats.norm.logpdf(x, b, s))

    numeric = integrate.quad(integrand, -8, 8)[0]
    one, other = np.array([a]), np.array([b])
    assert GaussianLaws(one, s).kl(GaussianLaws(other, s)) == pytest.approx(numeric, rel=1e-8)
    direct = a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b))
    assert BernoulliLaws(one).kl(BernoulliLaws(other)) == pytest.approx(direct)
    found = CategoricalLaws(LAWS[[0, 0]], SUPPORT).kl(CategoricalLaws(LAWS[[1, 2]], SUPPORT))
    assert found[0] == pytest.approx(stats.entropy(LAWS[0], LAWS[1]))
    assert found[1] == np.inf, "the other law misses a value"


@pytest.mark.parametrize("law", [0, 1, 2])
@pytest.mark.parametrize("lift", [0.05, 0.5, 0.9])
def test_k_inf_against_direct_optimisation(law: int, lift: float) -> None:
    """min KL(p, q) over laws q on the support whose mean reaches the target, as it stands."""
    p = LAWS[law]
    target = p @ SUPPORT + lift * (SUPPORT[-1] - p @ SUPPORT)

    def divergence(q: np.ndarray) -> float:
        return float(np.sum(p[p > 0] * np.log(p[p > 0] / q[p > 0])))

    best = min(
        optimize.minimize(
            divergence,
            start / start.sum(),
            bounds=[(1e-9, 1)] * 4,
            constraints=[
                {"type": "eq", "fun": lambda q: q.sum() - 1},
                {"type": "ineq", "fun": lambda q: q @ SUPPORT - target},
            ],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        ).fun
        for start in (p + 0.05, np.array([0.05, 0.05, 0.1, 0.8]))
    )
    laws = CategoricalLaws(p[None], SUPPORT)
    moved = laws.moved_to(np.array([target]))
    assert moved.means == pytest.approx(target)
    assert laws.kl(moved) == pytest.approx(best, rel=2e-5, abs=1e-7)


@pytest.mark.parametrize("law", [0, 1, 2])
@pytest.mark.parametrize("part", [0.05, 0.5, 0.9, 1.0])
def test_moving_down_is_moving_the_mirrored_law_up(law: int, part: float) -> None:
    """Also to the low end itself, and where it had no mass."""
    up = CategoricalLaws(LAWS[law][None], SUPPORT)
    down = CategoricalLaws(LAWS[law][None, ::-1], -SUPPORT[::-1])
    target = up.means + part * (SUPPORT[-1] - up.means)
    moved = down.moved_to(-target)
    assert moved.means == pytest.approx(-target)
    assert moved.parameters[:, ::-1] == pytest.approx(up.moved_to(target).parameters)
