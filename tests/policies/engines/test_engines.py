"""Engines: each keeps its promise, in every mode, and does so with the pulls it should."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import binom, norm

import clustered_bandit_gym as cbg
from clustered_bandit_gym.game.federation import Block
from clustered_bandit_gym.policies import BAICl, BAIClPlusPlus, NaiveSE, make
from clustered_bandit_gym.policies.engines.registry import ENGINES, get_engine
from clustered_bandit_gym.policies.engines.track_and_stop import optimal_shares
from clustered_bandit_gym.policies.sequential.boundaries import radius, tuned_rho
from clustered_bandit_gym.policies.sequential.cells import Cells
from clustered_bandit_gym.policies.sequential.paired import GAPS, WEIGHTS

NAMES = tuple(ENGINES)


def run(
    means: list[float], n_agents: int, engine: str, gamma: float, seed: int, **kwargs: object
) -> tuple:
    """One engine at `n_agents` agents of a single bandit: (active (n, k), estimates, federation)."""
    rewards = kwargs.pop("rewards", None) or cbg.Gaussian(kwargs.pop("sigma", 1.0))
    instance = cbg.Instance([means], np.zeros(n_agents, dtype=int), rewards, allow_ties=True)
    federation = cbg.Federation(
        instance, cbg.Problem.of(instance, 0.1), seed, max_pulls=kwargs.pop("max_pulls", None)
    )
    found: list = []

    def program(block: Block) -> None:
        found.append(get_engine(engine)(block, np.arange(len(means)), gamma, **kwargs))

    federation.local(federation.agents, program)
    active, estimates = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return active, estimates, federation


@pytest.mark.parametrize("engine", NAMES)
def test_error_rate_on_a_near_tie(engine: str) -> None:
    """1,500 agents, five arms, gap 0.2, γ = 0.2: wrong at most 20%. False-alarm rate below 1e-9 (exact binomial)."""
    active, _, _ = run([0.0, 0.2, 0.03, -0.03, -0.5], 1500, engine, 0.2, seed=3)
    assert (active.sum(axis=1) == 1).all()
    wrong = int((~active[:, 1]).sum())
    assert wrong <= binom.isf(1e-9, 1500, 0.2)


@pytest.mark.parametrize("engine", NAMES)
def test_a_gap_of_a_millionth(engine: str) -> None:
    """Batches of more than 3e9 pulls, whose products are beyond 64-bit integers. Five agents, γ = 1e-12: false-alarm rate
    below 1e-11 for each engine; the paper's elimination needs about 64/gap² times logarithms, the others far less."""
    active, _, federation = run([0.0, 1e-6], 5, engine, 1e-12, seed=7)
    assert (active == [False, True]).all()
    assert federation.pulls < (1e17 if engine == "elimination" else 5e15)


@pytest.mark.parametrize("engine", NAMES)
def test_precision_keeps_the_best_and_drops_what_is_that_far_below(engine: str) -> None:
    """1,000 agents; arm 0 is best, arms 3 and 4 are `precision` below it. Broken promises: at most γ = 0.1, false-alarm
    rate below 1e-9 (exact binomial)."""
    means = [1.0, 0.95, 0.9, 0.6, 0.6]
    active, estimates, federation = run(means, 1000, engine, 0.1, seed=5, precision=0.4)
    broken = ~active[:, 0] | active[:, 3] | active[:, 4]
    assert broken.sum() <= binom.isf(1e-9, 1000, 0.1)
    assert active[:, 1].mean() > 0.5, "an early stop need not resolve the near tie"
    # The median: an agent that dropped arm 0 by mistake, after few pulls, may be far off.
    assert np.median(estimates[:, 0]) == pytest.approx(1, abs=0.1)
    resolved = run(means, 50, engine, 0.1, seed=5)[2]
    assert federation.pulls / 1000 < resolved.pulls / 50, "stopping early must be cheaper"


BETTING = ("mixture", "track-and-stop", "top-two", "batched")


@pytest.mark.parametrize("means", [[0.5, 0.6, 0.45], [0.9, 0.95, 0.88]])
@pytest.mark.parametrize("engine", BETTING)
def test_error_rate_of_bets_on_a_near_tie(engine: str, means: list[float]) -> None:
    """400 agents, coins, γ = 0.3: wrong at most 30%. False-alarm rate below 1e-9 (exact binomial)."""
    active, _, _ = run(means, 400, engine, 0.3, seed=4, rewards=cbg.Bernoulli())
    assert (active.sum(axis=1) == 1).all()
    assert int((~active[:, 1]).sum()) <= binom.isf(1e-9, 400, 0.3)


@pytest.mark.parametrize("engine", BETTING)
def test_precision_of_bets(engine: str) -> None:
    """120 agents, coins; arm 0 is best, arms 3 and 4 are `precision` below. Broken promises: at most γ = 0.3,
    false-alarm rate below 1e-9 (exact binomial)."""
    means, coins = [0.95, 0.93, 0.93, 0.75, 0.75], cbg.Bernoulli()
    active, _, federation = run(means, 120, engine, 0.3, seed=5, precision=0.2, rewards=coins)
    broken = ~active[:, 0] | active[:, 3] | active[:, 4]
    assert broken.sum() <= binom.isf(1e-9, 120, 0.3)
    assert active[:, 1].mean() > 0.5, "an early stop need not resolve the near tie"
    resolved = run(means, 20, engine, 0.3, seed=5, rewards=coins)[2]
    assert federation.pulls / 120 < resolved.pulls / 20, "stopping early must be cheaper"


@pytest.mark.parametrize(
    "policy", [f"naive:engine={engine}" for engine in BETTING] + ["uniform-glr"]
)
def test_bets_save_pulls_where_the_variance_is_small_and_cost_little_where_it_is_not(
    policy: str,
) -> None:
    """δ = 1e-9: an error has a probability of 4e-9. 200 agents: averages within 5% of their means."""
    pulls = {}
    for means in ([0.95, 0.85], [0.55, 0.45]):
        instance = cbg.Instance([means], np.zeros(200, dtype=int), cbg.Bernoulli())
        for told in ({}, {"support": None}):
            federation = cbg.Federation(instance, cbg.Problem.of(instance, 1e-9, **told), seed=1)
            assert federation.stop(make(policy).solve(federation)).correct
            pulls[means[0], not told] = federation.pulls
    assert pulls[0.95, True] < 0.6 * pulls[0.95, False]
    assert pulls[0.55, True] < 1.25 * pulls[0.55, False]


def test_uniform_glr_stops_when_its_leader_beats_every_arm_at_the_level_of_the_union_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """δ = 0.3, two agents, three arms: every pair is tested at ln(2·2/0.3), and both pairs of the last look decide.

    The runner-up always gives 0.5, the third arm 0 or 1: its noise makes it the harder one.
    """
    shown: dict[tuple[int, float], int] = {}
    levels: list[float] = []
    original = Cells.shows_worse

    def spy(
        self: Cells, rows: np.ndarray, leader: np.ndarray, shift: float, level: float, among: Any
    ) -> np.ndarray:
        worse = original(self, rows, leader, shift, level, among)
        levels.append(level)
        for row, count in zip(rows.tolist(), worse.sum(axis=1).tolist(), strict=True):
            look = (row, float(self.n[row, 0]))
            shown[look] = shown.get(look, 0) + count
        return worse

    monkeypatch.setattr(Cells, "shows_worse", spy)
    laws = cbg.Categorical([0, 0.5, 0.8, 1], [[[0.55, 0, 0, 0.45], [0, 0, 1, 0], [0, 1, 0, 0]]])
    instance = cbg.Instance(None, [0, 0], laws)
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.3), seed=1)
    assert federation.stop(make("uniform-glr").solve(federation)).correct
    assert levels == pytest.approx([np.log(2 * 2 / 0.3)] * len(levels))
    for agent in (0, 1):
        looks = sorted(n for row, n in shown if row == agent)
        assert [shown[agent, n] == 2 for n in looks] == [False] * (len(looks) - 1) + [True]


@pytest.mark.parametrize("engine", NAMES)
def test_single_arms_and_sigma(engine: str) -> None:
    active, estimates, _ = run([0.0, 1.0, 2.0], 4, engine, 1e-6, seed=1, sigma=0.5)
    assert active.tolist() == [[False, False, True]] * 4
    assert estimates[3] == pytest.approx([0, 1, 2], abs=0.6)
    active, estimates, federation = run([0.5], 3, engine, 0.1, seed=1)
    assert active.all()
    assert (federation.pulls, estimates.tolist()) == (0, [[0.0]] * 3)


@pytest.mark.parametrize("engine", NAMES)
def test_sigma_scales_the_pulls(engine: str) -> None:
    one = run([0.0, 0.3, 0.0], 40, engine, 0.01, seed=2)[2].pulls
    # Twice the noise at twice the gap is the same problem, drawn from the same stream.
    two = run([0.0, 0.6, 0.0], 40, engine, 0.01, seed=2, sigma=2.0)[2].pulls
    if engine != "elimination":  # whose rounds are for gaps 2^-r in absolute units
        assert two == pytest.approx(one, rel=0.05)
    assert run([0.0, 0.3, 0.0], 40, engine, 0.01, seed=2, sigma=2.0)[2].pulls > 2.5 * one


@pytest.mark.parametrize("engine", NAMES)
def test_a_tie_ends_at_the_budget(engine: str) -> None:
    with pytest.raises(cbg.BudgetExceeded):
        run([0.5, 0.5], 3, engine, 0.1, seed=0, max_pulls=10**9)


@pytest.mark.parametrize("engine", NAMES)
def test_infinite_precision_needs_no_pull(engine: str) -> None:
    active, _, federation = run([0.0, 1.0], 2, engine, 0.1, seed=0, precision=np.inf)
    assert active.all()
    assert federation.pulls == 0


@pytest.mark.parametrize("engine", [name for name in NAMES if name != "elimination"])
@pytest.mark.parametrize(
    "policy", ["naive:", "bai-cl:confidence=certified,", "bai-cl++:confidence=certified,"]
)
def test_schemes_with_other_engines_are_right_and_cheaper(policy: str, engine: str) -> None:
    """Dataset 1 at δ = 1e-10: no error (false-alarm rate 1e-10), and fewer pulls than with the paper's."""
    generator = cbg.generators.PaperSmall(12)
    instance = generator(np.random.default_rng(0))
    problem = cbg.Problem.of(instance, 1e-10, **generator.declared)
    pulls = {}
    for name in ("elimination", engine):
        federation = cbg.Federation(instance, problem, 0)
        assert federation.stop(make(f"{policy}engine={name}").solve(federation)).correct
        pulls[name] = federation.pulls
    assert pulls[engine] < 0.75 * pulls["elimination"]


def test_optimal_shares_solve_the_allocation_problem() -> None:
    gaps = np.array([[0.0, 0.1, 0.3, 0.35], [0.5, 0.2, 0.0, np.inf]])
    shares = optimal_shares(gaps)
    assert shares.sum(axis=1) == pytest.approx([1, 1])
    assert shares[1, 3] == 0

    def value(w: np.ndarray, row: np.ndarray) -> float:
        rivals = np.isfinite(row) & (row > 0)
        best = w[row == 0]
        return float((row[rivals] ** 2 / (1 / w[rivals] + 1 / best)).min())

    for row, share in zip(gaps, shares, strict=True):
        finite = np.isfinite(row)

        def negative(x: np.ndarray, row: np.ndarray = row[finite]) -> float:
            w = np.exp(x) / np.exp(x).sum()
            return -value(w, row)

        found = minimize(
            negative,
            np.zeros(finite.sum()),
            method="Nelder-Mead",
            options={"maxiter": 20000, "fatol": 1e-14},
        )
        assert value(share[finite], row[finite]) >= -found.fun * (1 - 1e-6)


@pytest.mark.parametrize("policy", [BAICl, BAIClPlusPlus])
def test_printed_budgets_with_another_engine_warn(policy: type) -> None:
    with pytest.warns(UserWarning, match="is not proved to be delta-PC"):
        policy(engine="mixture")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy()
        policy(engine="mixture", confidence="certified")
        NaiveSE(engine="mixture")


def test_unknown_engine_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="track-and-stop"):
        NaiveSE(engine="ucb")


def mixture_evidence(gap: float, v: float, level: float) -> float:
    """Evidence of a noiseless walk at gap·v: the mixing integral, worked out by quadrature.

    λ is drawn from the positive half of N(0, 1/ρ), and ρ from the three scales of the prior.
    """
    total = 0.0
    for tuned, weight in zip(GAPS, WEIGHTS, strict=True):
        rho = float(tuned_rho(2 * level / tuned**2, np.exp(-level)))
        peak = gap * v / (v + rho)
        spread = 1 / np.sqrt(v + rho)

        def density(x: float, rho: float = rho, peak: float = peak) -> float:
            return float(
                np.exp(x * gap * v - x * x * v / 2 - peak * gap * v / 2)
                * 2
                * norm.pdf(x * np.sqrt(rho))
                * np.sqrt(rho)
            )

        ends = (max(0.0, peak - 12 * spread), peak + 12 * spread)
        total += weight * quad(density, *ends, limit=200)[0] * np.exp(peak * gap * v / 2)
    return float(np.log(total))


@pytest.mark.parametrize("gamma", [0.2, 1e-3, 1e-12])
@pytest.mark.parametrize("engine", [name for name in NAMES if name != "elimination"])
def test_noiseless_arms_part_exactly_when_the_boundary_allows(engine: str, gamma: float) -> None:
    """Three noiseless arms, two of them equal and far below: the last batch of each of these, and
    no earlier one, crosses the boundary.

    Errors on random instances are too rare to show a wrong threshold; without noise the count gives
    it away."""
    gap, size = 0.1, 3
    instance = cbg.Instance([[gap, 0.0, 0.0]], [0], cbg.Gaussian(0.0), allow_ties=True)
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1, sigma=1.0), 0)
    batches: list[np.ndarray] = []

    def program(block: Block) -> None:
        pull = block.pull

        def counted(rows: np.ndarray, arms: np.ndarray, times: np.ndarray | int = 1) -> np.ndarray:
            counts = np.zeros(size)
            np.add.at(counts, arms, times)
            batches.append(counts)
            return pull(rows, arms, times)

        block.pull = counted  # type: ignore[method-assign]
        get_engine(engine)(block, np.arange(size), gamma)

    federation.local(federation.agents, program)
    level = -np.log(gamma / (size - 1))
    each = gamma / size
    rho_each = tuned_rho(8 * np.log(1 / each) / 0.1**2, each)

    def beaten(arm: int, until: int) -> bool:
        """Whether the leader, arm 0, is shown to be better than `arm` by the first batches."""
        counts = np.array(batches[:until])
        if engine == "lucb":
            total = counts.sum(axis=0)
            reach = radius(total[0], each, rho_each) + radius(total[arm], each, rho_each)
            return bool(gap > reach)
        if engine == "mixture":  # equal numbers: one batch of all pulls
            counts = counts.sum(axis=0, keepdims=True)
        v = float((counts[:, 0] * counts[:, arm] / counts[:, [0, arm]].sum(axis=1)).sum())
        return mixture_evidence(gap, v, level) >= level

    last = [int(np.flatnonzero([batch[arm] > 0 for batch in batches])[-1]) for arm in range(size)]
    ends = [len(batches) - 1] * 2 if engine == "lucb" else last[1:]
    assert all(beaten(arm, end + 1) for arm, end in zip((1, 2), ends, strict=True))
    if engine == "lucb":
        assert not all(beaten(arm, len(batches) - 1) for arm in (1, 2))
    else:
        assert not any(beaten(arm, end) for arm, end in zip((1, 2), ends, strict=True))
    assert len(batches) > 2
