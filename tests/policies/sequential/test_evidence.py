"""E-processes of `sequential.boundaries`, `betting` and `cells`, against exact sums, integrals and
minimisation.
"""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from clustered_bandit_gym import Bernoulli, Categorical, Federation, Gaussian, Instance, Problem
from clustered_bandit_gym.policies.sequential.betting import Bets
from clustered_bandit_gym.policies.sequential.boundaries import (
    half_normal,
    half_normal_pair,
)
from clustered_bandit_gym.policies.sequential.cells import (
    BettingCells,
    Cells,
    make_cells,
)
from clustered_bandit_gym.policies.sequential.scales import Scales

COIN = np.array([0.0, 1.0])


# --- sub-Gaussian rewards ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "rho"), [(1, 0.5), (30, 2.0), (1000, 40.0)])
def test_half_normal_mixture_has_mean_one_at_the_boundary_and_less_inside(
    n: int, rho: float
) -> None:
    def expected(drift: float) -> float:
        # The average of n unit Gaussians with mean `drift`, as the walk s = n(m − 0) with variance
        # n.
        def integrand(z: float) -> float:
            return float(
                np.exp(half_normal(n * drift + z * np.sqrt(n), n, rho) - 0.5 * z * z)
            ) / np.sqrt(2 * np.pi)

        # The integrand is a normal density of variance (n + ρ)/ρ, cut by Φ.
        far = 12 * np.sqrt((n + rho) / rho)
        return float(integrate.quad(integrand, -far, far, limit=400, points=[0])[0])

    assert expected(0.0) == pytest.approx(1, abs=1e-7)
    assert expected(-0.3) < 1


def test_half_normal_is_the_integral_that_it_says_it_is() -> None:
    s, v, rho = 7.0, 20.0, 3.0
    density = stats.halfnorm(scale=1 / np.sqrt(rho)).pdf
    value = integrate.quad(lambda u: np.exp(u * s - u * u * v / 2) * density(u), 0, 8)[0]
    assert half_normal(s, v, rho) == pytest.approx(log(value), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_pair_is_the_minimum_over_the_common_mean(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_a, n_b = rng.integers(1, 10**5, 2).astype(float)
    rho = float(rng.uniform(0.5, 1000))
    d = float(rng.uniform(0.5, 12) * np.sqrt(1 / n_a + 1 / n_b))

    def product(x: float) -> float:
        return float(half_normal(n_a * x, n_a, rho) + half_normal(n_b * (d - x), n_b, rho))

    least = min(
        optimize.minimize_scalar(product, bracket=(start, start + d / 9)).fun
        for start in (0.0, d / 2, d)
    )
    found = float(half_normal_pair(d, n_a, n_b, rho))
    assert found <= least
    assert found == pytest.approx(least, abs=2e-6)


@pytest.mark.parametrize("ratio", [1e3, 9e6, 1e9, 1e11, 1e13, 1e17])
def test_pair_claims_no_more_with_very_unequal_pulls(ratio: float) -> None:
    """At most the product at any common mean."""
    for d in (-3.0, -0.3, 0.1, 1.0, 10.0):
        for n_a, n_b in ((10.0, 10 * ratio), (10 * ratio, 10.0)):
            off = np.geomspace(1e-12, 10, 200)
            x = np.concatenate([off, -off, d - off, d + off])
            product = half_normal(n_a * x, n_a, 10.0) + half_normal(n_b * (d - x), n_b, 10.0)
            assert half_normal_pair(d, n_a, n_b, 10.0) <= product.min()


@pytest.mark.parametrize(("n_a", "n_b", "rho"), [(5, 5, 0.3), (100, 20, 4.0), (2000, 2000, 50.0)])
def test_pair_has_mean_at_most_one_under_the_worst_null(n_a: int, n_b: int, rho: float) -> None:
    scale = np.sqrt(1 / n_a + 1 / n_b)
    z = np.linspace(-14, 14, 40001)
    value = np.exp(half_normal_pair(z * scale, n_a, n_b, rho) - 0.5 * z * z) / np.sqrt(2 * np.pi)
    mean = integrate.trapezoid(np.where(np.isfinite(value), value, 0), z)
    assert 0.05 < mean <= 1


# --- bounded rewards --------------------------------------------------------------------------------------------------


def outcomes(n: int) -> np.ndarray:
    """(n + 1, 2) counts of 0 and 1 after n pulls of a coin."""
    ones = np.arange(n + 1.0)
    return np.stack([n - ones, ones], axis=1)


def law(n: int, p: float) -> np.ndarray:
    return np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


@pytest.mark.parametrize("n", [1, 7, 40])
def test_wealth_of_a_coin_has_mean_one_at_the_boundary_by_enumeration(n: int) -> None:
    bets = Bets(COIN)
    for m in (0.02, 0.3, 0.5, 0.9, 0.99):
        above = bets.evidence(outcomes(n), np.full(n + 1, m), True)
        below = bets.evidence(outcomes(n), np.full(n + 1, m), False)
        assert law(n, m) @ np.exp(above) == pytest.approx(1, abs=1e-9), (
            "a martingale at the boundary"
        )
        assert law(n, m) @ np.exp(below) == pytest.approx(1, abs=1e-9)
        assert law(n, m * 0.9) @ np.exp(above) <= 1
        assert law(n, m + (1 - m) * 0.1) @ np.exp(below) <= 1


@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.2, 0.7), (0.49, 0.51), (0.0, 0.05), (0.95, 1.0)])
def test_wealth_under_two_point_laws_inside_the_interval(ends: tuple[float, float]) -> None:
    n, bets = 25, Bets(np.array(ends))
    for p in (0.01, 0.5, 0.97):
        mean = ends[0] + (ends[1] - ends[0]) * p
        for value in (
            bets.evidence(outcomes(n), np.full(n + 1, mean), True),
            bets.evidence(outcomes(n), np.full(n + 1, mean), False),
        ):
            assert law(n, p) @ np.exp(value) == pytest.approx(1, abs=1e-9)


def test_wealth_against_the_formula_of_one_gambler() -> None:
    bets = Bets(np.array([0.0, 0.25, 1.0]))
    counts, m = np.array([3.0, 5.0, 4.0]), 0.3
    each = []
    for bet, weight in zip(bets.bets, np.exp(bets.log_weight), strict=True):
        cut = min(bet, 0.95 / m)
        each.append(weight * np.prod((1 + cut * (bets.x - m)) ** counts))
    assert bets.evidence(counts, np.array(m), True) == pytest.approx(log(sum(each)), abs=1e-12)
    assert np.exp(bets.log_weight).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.1, -0.2])
@pytest.mark.parametrize("values", [(0.0, 1.0), (0.3, 0.6)])
def test_bets_on_a_pair_have_mean_at_most_one_under_every_null(
    shift: float, values: tuple[float, float]
) -> None:
    bets, n_a, n_b = Bets(np.array(values)), 14, 9
    a, b = np.divmod(np.arange((n_a + 1) * (n_b + 1)), n_b + 1)
    counts_a, counts_b = outcomes(n_a)[a], outcomes(n_b)[b]
    for share in (0.1, 0.6):
        shifts, shares, levels = (np.full(a.size, x) for x in (shift, share, np.nan))
        value = np.exp(bets.pair(counts_a, counts_b, shifts, shares, levels))
        worst = 0.0
        for p_b in np.linspace(0, 1, 21):
            p_a = p_b + shift / (
                values[1] - values[0]
            )  # mean_a = mean_b + shift, the edge of the null
            if 0 <= p_a <= 1:
                worst = max(worst, float(law(n_a, p_a)[a] * law(n_b, p_b)[b] @ value))
        assert 0 < worst <= 1


def test_bets_on_a_pair_are_below_the_least_product_and_close_to_it() -> None:
    values = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    bets = Bets(values)
    rng = np.random.default_rng(4)
    gaps = []
    for _ in range(30):
        counts_a = rng.multinomial(rng.integers(500, 5000), rng.dirichlet([1, 1, 2, 8, 3])).astype(
            float
        )
        counts_b = rng.multinomial(rng.integers(500, 5000), rng.dirichlet([1, 1, 1, 8, 6])).astype(
            float
        )
        shift, grid = float(rng.uniform(0, 0.1)), np.linspace(0, 1, 4001)
        grid = grid[grid + shift <= 1]
        product = bets.evidence(np.tile(counts_a, (grid.size, 1)), grid + shift, False)
        product += bets.evidence(np.tile(counts_b, (grid.size, 1)), grid, True)
        noise = [
            c @ values**2 / c.sum() - (c @ values / c.sum()) ** 2 for c in (counts_a, counts_b)
        ]
        noise = [noise[0] / counts_a.sum(), noise[1] / counts_b.sum()]
        share = np.array([noise[0] / sum(noise)])
        level = np.array([np.nan])
        found = bets.pair(counts_a[None], counts_b[None], np.array([shift]), share, level)[0]
        assert found <= product.min() + 1e-9
        if found > 5:
            gaps.append((product.min() - found) / product.min())
    assert len(gaps) > 5
    assert np.median(gaps) < 0.1


def test_interval_is_where_neither_side_is_rejected() -> None:
    bets, level = Bets(COIN), 5.0
    counts = np.array([[70.0, 30.0], [0.0, 50.0], [1000.0, 9000.0]])
    low, high = bets.interval(counts, level)
    mean = counts[:, 1] / counts.sum(axis=1)
    assert (low < mean).all()
    assert (high[[0, 2]] > mean[[0, 2]]).all()
    assert high[1] == 1
    np.testing.assert_allclose(bets.evidence(counts, low, True), level, atol=1e-6)
    np.testing.assert_allclose(bets.evidence(counts, high, False)[[0, 2]], level, atol=1e-6)


# --- tables of cells --------------------------------------------------------------------------------------------------


def tables(kind: str, rows: int) -> tuple[Instance, Problem, Scales]:
    """Two arms with equal means at every agent: the edge of "arm 0 is worse than arm 1"."""
    if kind == "gaussian":
        instance = Instance([[1.0, 1.0]], np.zeros(rows, dtype=int), Gaussian(2.0), allow_ties=True)
    elif kind == "coins":
        instance = Instance([[0.9, 0.9]], np.zeros(rows, dtype=int), Bernoulli(), allow_ties=True)
    else:
        laws = np.array([[[0.05, 0.9, 0.05], [0.5, 0.0, 0.5]]])
        instance = Instance(
            None, np.zeros(rows, dtype=int), Categorical([0.0, 1.0, 2.0], laws), allow_ties=True
        )
    return instance, Problem.of(instance, 0.1, eta=None), Scales(200.0, 0.05)


@pytest.mark.parametrize("kind", ["gaussian", "coins", "different variances"])
def test_level_over_many_looks(kind: str) -> None:
    """40,000 plays, 12 looks each: equal means are told apart at most as often as the level says.

    False alarm of this test: an error rate of α passes α + 6√(α/4e4) with probability below 1e-8.
    """
    rows, alpha = 40_000, 0.05
    instance, problem, scales = tables(kind, rows)
    federation = Federation(instance, problem, seed=11)
    wrong: list[np.ndarray] = []

    def program(block) -> None:  # type: ignore[no-untyped-def]
        cells = make_cells(problem, block.values, scales, np.zeros((len(block), 2, 1)))
        every = np.arange(len(block))
        shown = np.zeros((2, len(block)), dtype=bool)
        n = 2
        for _ in range(12):
            both = np.repeat(every, 2)
            cells.pull(
                block, both, np.tile([0, 1], every.size), np.tile([n, max(1, n // 2)], every.size)
            )
            for side in (0, 1):
                a, b = np.full(every.size, side), np.full(every.size, 1 - side)
                shown[side] |= cells.shows((every, a), (every, b), 0.0, -log(alpha))
            n = n * 2
        wrong.append(shown)

    federation.local(federation.agents, program)
    rates = np.concatenate(wrong, axis=1).mean(axis=1)
    assert (rates <= alpha + 6 * np.sqrt(alpha / rows)).all()
    assert (rates > 0).all(), "the tests are not void"


@pytest.mark.parametrize("kind", ["gaussian", "coins", "different variances"])
def test_cells_find_what_is_there_and_survive_memory(kind: str) -> None:
    means = {"gaussian": [[1.0, 2.0]], "coins": [[0.5, 0.8]]}.get(kind)
    if means is None:
        model: Categorical | Gaussian | Bernoulli = Categorical(
            [0.0, 1.0, 2.0], np.array([[[0.1, 0.9, 0.0], [0.0, 0.9, 0.1]]])
        )
    else:
        model = Gaussian() if kind == "gaussian" else Bernoulli()
    instance = Instance(means, [0], model)
    problem = Problem.of(instance, 0.1)
    scales = Scales(200.0, 0.01)
    found: list[Cells] = []

    def program(block) -> None:  # type: ignore[no-untyped-def]
        cells = make_cells(problem, block.values, scales, np.zeros((1, 2, 1)))
        for _ in range(3):
            cells.pull(block, np.array([0, 0]), np.array([0, 1]), np.array([500, 400]))
        found.append(make_cells(problem, block.values, scales, cells.memory))
        assert np.array_equal(found[0].mean, cells.mean)

    Federation(instance, problem, seed=2).local([0], program)
    cells = found[0]
    assert isinstance(cells, BettingCells) == (kind != "gaussian")
    zero, one = np.array([0]), np.array([1])
    assert cells.n.tolist() == [[1500, 1200]]
    assert cells.shows((zero, zero), (zero, one), 0.0, 20.0).all()
    assert not cells.shows((zero, one), (zero, zero), 0.0, 1.0).any()
    twice = 2 * (instance.means[0, 1] - instance.means[0, 0])
    assert cells.shows((zero, one), (zero, zero), twice, 20.0).all()
    middle, rho = instance.means.mean(axis=1), np.array([50.0])
    above, below = (
        cells.side(middle, np.array([up]), np.array([np.inf]), rho)[0] for up in (True, False)
    )
    assert below > 10 > 0 > above
    # 1500 pulls: a guess of the variance that is off by a half has a probability below 1e-20 in
    # each of these laws.
    true = {"gaussian": [1, 1], "coins": [0.25, 0.16]}.get(kind, [0.09, 0.09])
    np.testing.assert_allclose(cells.variance()[0], true, rtol=0.5)


def test_evidence_is_claimed_only_above_the_level_reached() -> None:
    """`shows` agrees with the evidence it is made from, on both sides of its shortcut."""
    scales = Scales(500.0, 1e-6)
    rng = np.random.default_rng(8)
    n, mean = rng.integers(1, 3000, (400, 2)).astype(float), rng.normal(0, 0.3, (400, 2))
    cells = Cells(1.5, scales, np.stack([n, mean], axis=-1))
    rows, a, b = np.arange(400), np.zeros(400, dtype=int), np.ones(400, dtype=int)
    rho, weight = scales.at(n.min(axis=1))
    evidence = (
        half_normal_pair((mean[:, 1] + 0.1 - mean[:, 0]) / 1.5, n[:, 0], n[:, 1], rho) + weight
    )
    for level in (1.0, 4.0, 30.0):
        expected = (evidence >= level) & (mean[:, 1] + 0.1 > mean[:, 0])
        assert np.array_equal(cells.shows((rows, a), (rows, b), 0.1, level), expected)
        assert 0 < expected.sum() < 400


def test_what_mixtures_and_bets_are_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share a level of 5 nats: ln(1/0.3) more for mixtures, ln(1/0.7) more for bets."""
    asked = []
    monkeypatch.setattr(Cells, "shows", lambda *args: asked.append(args[4]) or np.array([False]))
    counts = np.array([[[60.0, 40.0], [20.0, 80.0]]])
    cells = BettingCells(COIN, (0.0, 1.0), counts, 0.5, Scales(100.0, 0.1))
    zero, one = np.array([0]), np.array([1])
    for off in (-1e-9, 1e-9):
        monkeypatch.setattr(Bets, "pair", lambda *_, off=off: np.array([5 - log(0.7) + off]))
        assert cells.shows((zero, zero), (zero, one), 0.0, 5.0) == (off > 0)
    assert asked == pytest.approx([5 - log(0.3)] * 2)


def test_values_outside_the_interval_are_refused() -> None:
    with pytest.raises(ValueError, match="scaled"):
        Bets(np.array([0.0, 1.2]))
