"""FrugalBAI: the inequalities that its proof rests on, on many adversarial cases. Nothing here is random play."""

from __future__ import annotations

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym import Problem
from clustered_bandit_gym.game.payloads import Quantised
from clustered_bandit_gym.policies.frugal.classify import order_references
from clustered_bandit_gym.policies.frugal.discover import float32_error, rounding, steps
from clustered_bandit_gym.policies.frugal.settings import Levels
from clustered_bandit_gym.policies.sequential.betting import Bets
from clustered_bandit_gym.policies.sequential.boundaries import half_normal
from clustered_bandit_gym.policies.sequential.cells import Cells
from clustered_bandit_gym.policies.sequential.scales import Scales

CASES = 500_000


def references(bounded: bool = False, eta: float = 0.1, n_agents: int = 100) -> Levels:
    problem = Problem(n_agents, 10, 4, 0.01, eta=eta, support=(0.0, 1.0) if bounded else None)
    return Levels(problem, 4.0, 1, bounded)


def log_uniform(rng: np.random.Generator, low: float, high: float, size: int = CASES) -> np.ndarray:
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


def test_an_average_has_an_e_process() -> None:
    """E exp(½ñ(R − μ)²)/√(1 + n/ρ) = 1 for normal rewards: 1 − ñ/n = ρ/(n + ρ)."""
    rng = np.random.default_rng(0)
    n, rho = log_uniform(rng, 1, 1e9), log_uniform(rng, 1e-2, 1e3)
    worth = n * n / (n + rho)
    mean = 1 / np.sqrt(1 - worth / n) / np.sqrt(1 + n / rho)
    # 1 − ñ/n cancels where n/ρ is large: 16 digits, less those of n/ρ.
    assert np.all(np.abs(mean - 1) <= 1e-15 * (1 + n / rho) + 1e-12)


def test_agents_claim_no_more_than_reference_and_own_pulls_show() -> None:
    """At every mean μ: what is claimed against R ≤ evidence of the reference + the agent's own at μ."""
    rng = np.random.default_rng(1)
    n, rho_ref = log_uniform(rng, 10, 1e7), log_uniform(rng, 0.1, 32)
    pulls, rho = log_uniform(rng, 1, 1e6), log_uniform(rng, 0.01, 1e5)
    full = n * n / (n + rho_ref)
    worth = full * rng.uniform(0.1, 1, CASES)  # agents assume less
    price = 0.5 * np.log1p(n / rho_ref) * rng.uniform(1, 2, CASES)  # and pay more
    average = rng.normal(0, 3, CASES)
    # Means that the averages do not rule out, and some that they do.
    mu = average + rng.normal(0, 4, CASES) / np.sqrt(worth)
    own = average + rng.normal(0, 4, CASES) * np.sqrt(1 / pulls + 1 / worth)
    number = average + rng.exponential(0.1, CASES) * (rng.random(CASES) < 0.5)  # rounded up
    claim = half_normal(pulls * (own - number), pulls * (1 + pulls / worth), rho) - price
    truth = 0.5 * full * (average - mu) ** 2 - 0.5 * np.log1p(n / rho_ref)
    truth += half_normal(pulls * (own - mu), pulls, rho)
    assert np.all(claim <= truth + 1e-6 * (1 + np.abs(truth)))


def test_cells_make_that_claim() -> None:
    """`Cells.side` with a worth is the formula of the test above, in units of σ."""
    memory = np.array([[[50.0, 1.4]]])
    cells = Cells(2.0, Scales(100.0, 0.1), memory)
    one, worth, rho = (np.array([x]) for x in (1.0, 300.0, 7.0))
    claimed = cells.side(one, np.array([True]), worth, rho)
    expected = half_normal(50 * 0.4 / 2, 50 * (1 + 50 / 300), 7.0)
    assert claimed[0] == pytest.approx(expected)


@pytest.mark.parametrize("eta", [0.01, 0.3, 5.0])
@pytest.mark.parametrize("n_agents", [4, 100, 10**6])
def test_references_are_worth_what_agents_assume(eta: float, n_agents: int) -> None:
    """For all differences that are ordered (at least η/2) and sent (not smaller than those)."""
    rng = np.random.default_rng(2)
    ref = references(eta=eta, n_agents=n_agents)
    served = log_uniform(rng, eta / 2, 50, CASES // 5)
    sent = served * (1 + rng.exponential(1, served.size))
    n = np.ceil(ref.pulls(served))
    assert np.all(ref.worth(sent) <= n * n / (n + ref.rho))
    assert np.all(ref.price >= 0.5 * np.log1p(n / ref.rho))


def test_rough_means_are_rounded_by_no_more_than_the_centre_allows() -> None:
    rng = np.random.default_rng(3)
    low = rng.normal(0, 1, CASES) * 10.0 ** rng.integers(-6, 7, CASES)
    exact = low + log_uniform(rng, 1e-5, 1e7) * (rng.random(CASES) < 0.9)
    step = Quantised((exact - low) / 127, steps(1.0), "up", clip=True).values
    # The largest average sets the width; another one lies in between.
    between = low + (exact - low) * rng.random(CASES)
    sent_low = low.astype(np.float32).astype(np.float64)
    allowed = rounding(sent_low, step, 1.0)
    for mean in (exact, between):
        place = np.clip(np.round((mean - low) / step), 0, 127)
        assert np.all(np.abs(sent_low + step * place - mean) <= allowed)


def test_averages_arrive_between_their_ends() -> None:
    """What the centre allows for float32, as `order_references` does."""
    rng = np.random.default_rng(4)
    exact = rng.normal(0, 1, CASES) * 10.0 ** rng.integers(-20, 20, CASES)
    got = exact.astype(np.float32).astype(np.float64)
    off = float32_error(got)
    assert np.all((got - off <= exact) & (exact <= got + off))


@pytest.mark.parametrize("bounded", [False, True])
def test_thresholds_keep_to_the_agents_disadvantage(bounded: bool) -> None:
    """The number is not below `low`, and number plus distance not above `high`."""
    rng = np.random.default_rng(5)
    ref = references(bounded, eta=0.05)
    sent = 0
    for low, gap in zip(rng.uniform(-1, 7, 5000), log_uniform(rng, 1e-3, 3, 5000), strict=True):
        found = ref.threshold(low, low + gap, 0.0, 1)
        if found:
            number, distance = (float(one.values[0]) for one in found)
            assert low <= number
            assert number + distance <= low + gap
            sent += 1
    assert sent > 300


def test_bets_end_at_every_distance_that_is_tested() -> None:
    """A coin whose mean is half the least distance away from a number: the smallest bet gains. It is
    the coin that has the largest variance."""
    ref = references(bounded=True, eta=1e-6)
    away = ref.least / 2
    bets = Bets(np.array([0.0, 1.0]))
    for mean in np.linspace(away, 1 - away, 1001):
        law = np.array([1 - mean, mean]) * 1e12  # counts of so many pulls
        assert bets.evidence(law, np.array(mean - away), True) > 1000
        assert bets.evidence(law, np.array(mean + away), False) > 1000
    assert ref.threshold(0.5, 0.5 + 0.9 * ref.least, 0.0, 1) == ()


def clusters(rng: np.random.Generator, m: int = 3, k: int = 5) -> tuple[np.ndarray, ...]:
    """Random means (cases, M, K) with best arms 0 to M − 1, and the exact η of Assumption 1 (cases,)."""
    size = CASES // 5
    means = rng.normal(0, 1, (size, m, k)) * rng.choice([0.01, 1.0], (size, m, k))
    own = np.arange(m)
    means[:, own, own] = means.max(axis=2) + rng.exponential(0.3, (size, m))
    best = means[:, own, own]
    loss = best[:, :, None] - means[:, :, :m]  # cluster j, best arm of x
    loss[:, own, own] = np.inf
    return means, best, loss.min(axis=(1, 2))


def test_what_is_close_at_one_cluster_is_no_other_clusters_best_arm() -> None:
    means, best, eta = clusters(np.random.default_rng(6))
    close = best[:, :, None] - means < eta[:, None, None]
    for x in range(3):
        others = [y for y in range(3) if y != x]
        assert not close[:, others, x].any()


def test_only_its_own_best_arm_passes_an_agents_list() -> None:
    """Arm x passes at cluster j if it is less than η worse than every other arm of the list."""
    means, _, eta = clusters(np.random.default_rng(7))
    listed = means[:, :, :3]
    worse = listed[:, :, None, :] - listed[:, :, :, None]  # (cases, j, x, other)
    passes = (worse < eta[:, None, None, None]).all(axis=3)
    assert np.all(passes == np.eye(3, dtype=bool))


def test_only_its_own_best_arm_exceeds_the_height() -> None:
    rng = np.random.default_rng(8)
    means, best, eta = clusters(rng)
    high = best + rng.exponential(0.2, best.shape) * (rng.random(best.shape) < 0.7)
    number = high.max(axis=1) - eta
    listed = means[:, :, :3].copy()
    listed[:, np.arange(3), np.arange(3)] = -np.inf
    assert np.all(listed <= number[:, None, None] + 1e-12)


def test_agents_of_a_node_lie_on_their_side() -> None:
    """Intervals that hold the means: lower clusters end below the number, upper ones begin above."""
    rng = np.random.default_rng(9)
    means = rng.random((CASES, 4))
    low = means - rng.exponential(0.02, means.shape)
    high = means + rng.exponential(0.02, means.shape)
    number, top = high[:, :2].max(axis=1), low[:, 2:].min(axis=1)
    usable = top > number
    assert np.all(means[usable, :2] <= number[usable, None])
    assert np.all(means[usable, 2:] >= top[usable, None])


def test_an_interval_may_reach_the_end_of_the_support() -> None:
    """−0.7 + 1.1 is more than 0.4 in floating point, and 0.4 is the end of the grid."""
    never, always = [1.0, 0.0], [0.0, 1.0]
    rewards = cbg.Categorical([-0.7, 0.4], [[always, never], [never, always]])
    instance = cbg.Instance([[0.4, -0.7], [-0.7, 0.4]], [0, 1], rewards)
    problem = Problem.of(instance, 0.1)
    ref = Levels(problem, 4.0, 1, bounded=True)
    federation = cbg.Federation(instance, problem, seed=0)
    arms, gap = np.array([[0, 1]] * 2), np.full((2, 2), 0.2)
    low, high, _ = order_references(federation, np.arange(2), arms, gap, ref)
    assert np.all((low <= instance.means) & (instance.means <= high))
    assert high.max() == 0.4
