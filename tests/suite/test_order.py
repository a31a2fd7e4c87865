"""The order: intervals cover, equal policies share a rank, unsolved cells are charged."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from clustered_bandit_gym.suite.order import compare, log_mean_interval, rank_ranges, ranks

Law = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def restarts(share: float, factor: float) -> Law:
    """Most plays take one round; some start again and take `factor` times as much."""

    def law(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        again = rng.random(shape) < share
        return (1 + 0.3 * rng.random(shape)) * np.where(again, factor, 1)

    return law


LAWS: dict[str, tuple[Law, float]] = {
    "normal": (lambda rng, n: np.maximum(1 + 0.3 * rng.standard_normal(n), 0.01), 1.0),
    "lognormal": (lambda rng, n: np.exp(rng.standard_normal(n)), math.exp(0.5)),
    "Pareto 2.5": (lambda rng, n: 1 + rng.pareto(2.5, n), 2.5 / 1.5),
    "restarts 5%": (restarts(0.05, 20), 1.15 * (1 + 0.05 * 19)),
    "restarts 2%": (restarts(0.02, 50), 1.15 * (1 + 0.02 * 49)),
}


@pytest.mark.parametrize("name", list(LAWS))
def test_intervals_cover(name: str) -> None:
    """Five cells of 100 trials, 400 times. If the coverage is 95%, fewer than 366 of 400 has
    probability 1e-3; measured coverage is 97% to 100%."""
    law, mean = LAWS[name]
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        found = log_mean_interval(list(law(rng, (5, 100))))
        covered += found.low <= math.log(mean) <= found.high
    assert covered >= 366


def test_paired_intervals_cover_and_use_the_common_noise() -> None:
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(300):
        common = rng.lognormal(0, 1, (5, 100))
        first = list(common * (1 + 0.1 * rng.random((5, 100))))
        second = list(2 * common)
        found = compare(first, second)
        covered += found.low <= math.log(1.05 / 2) <= found.high
        assert found.high - found.low < 0.05  # one of them alone: 0.3
    assert covered >= 285


def test_the_interval_is_halls_at_99_percent() -> None:
    """Its ends are roots of Hall's (1992) polynomial t + γt²/3 + γ²t³/27 + γ/6 of a studentised mean t
    with skewness γ, at Student's quantiles. The smaller cell has three trials."""
    first, second = [np.array([1.0, 2, 3, 10]), np.array([4.0, 5, 9])], [np.array([2.0])] * 2
    relative = [pulls / np.mean(pulls) - 1 for pulls in first]
    variance = sum(sum(h**2) / (h.size - 1) / h.size for h in relative)
    skewness = sum(sum(h**3) / h.size**3 for h in relative) / variance**1.5
    expected = [math.log(4 * 6 / 2**2) / 2] * 3
    for end, probability in ((1, 0.995), (2, 0.005)):
        constant = skewness / 6 - stats.t.ppf(probability, 3 - 1)
        roots = np.roots([skewness**2 / 27, skewness / 3, 1, constant])
        expected[end] -= roots[np.abs(roots.imag).argmin()].real * math.sqrt(variance) / 2
    assert compare(first, second) == pytest.approx(tuple(expected))


def test_equal_policies_share_a_rank() -> None:
    rng = np.random.default_rng(9)
    base = {name: rng.lognormal(0, 0.5, 200) for name in ("x", "y", "z")}
    noise = {name: rng.lognormal(0, 0.5, 200) for name in base}
    pulls = {"a": base, "b": noise, "slow": {name: 3 * v for name, v in base.items()}}
    assert ranks(pulls, ["x", "y", "z"]) == {"a": 1, "b": 1, "slow": 3}


def test_a_charge_costs_more_than_slowness() -> None:
    cells = {name: np.full(50, 2.0) for name in ("x", "y")}
    slow = {name: np.full(50, 6.0) for name in ("x", "y")}
    pulls = {"all": slow, "one": {"x": cells["x"], "y": np.array([60.0])}}
    assert ranks(pulls, ["x", "y"]) == {"all": 1, "one": 2}
    assert ranks(pulls, ["x"]) == {"all": 2, "one": 1}
    assert rank_ranges(pulls, {"x": ["p"], "y": ["q"]}) == {"all": (1, 2), "one": (1, 2)}
