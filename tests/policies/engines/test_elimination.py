"""The engine: sample sizes, who is dropped when, estimates, error rate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import scheme_reference as ref
from scipy import integrate, stats

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.engines.elimination import elimination, round_size


def reference_elimination(
    pull: Callable[[int, int], float],
    arms: Sequence[int],
    gamma: float,
    rounds: float,
    sigma: float = 1.0,
) -> tuple[list[int], dict[int, float]]:
    """SE(A, γ, R) for one agent, line by line; `pull(arm, times)` is the average of fresh pulls."""
    left, mean, r = list(arms), dict.fromkeys(arms, 0.0), 0  # line 1
    while len(left) > 1 and r < rounds:  # line 2
        r += 1  # line 3, with ε_r = 2^-r
        times = round_size(len(arms), gamma, r, sigma)  # line 4
        mean |= {k: pull(k, times) for k in left}  # lines 4 and 5
        left = [k for k in left if mean[k] >= max(mean[j] for j in left) - 2.0**-r]  # line 6
    return left, mean  # line 8


class ScriptedBlock:
    """Stands in for a `Block`: noisy rewards of its own, and a log of every draw in the order it was asked for."""

    def __init__(self, means: np.ndarray, seed: int, sigma: float = 1.0) -> None:
        self.means, self.rng = means, np.random.default_rng(seed)
        self.agents = np.arange(means.shape[0])
        self.problem = cbg.Problem(*means.shape, n_clusters=None, delta=0.1, sigma=sigma)
        self.log: list[list[tuple[int, int, float]]] = [[] for _ in self.agents]

    def __len__(self) -> int:
        return self.agents.size

    def pull_grid(self, times: int) -> np.ndarray:
        return self.pull(self.agents[:, None], np.arange(self.means.shape[1])[None, :], times)

    def pull(self, rows: np.ndarray, arms: np.ndarray, times: int | np.ndarray) -> np.ndarray:
        rows, arms, times = np.broadcast_arrays(rows, arms, times)
        averages = self.means[rows, arms] + self.rng.standard_normal(rows.shape) / np.sqrt(times)
        for i, k, n, x in zip(rows.flat, arms.flat, times.flat, averages.flat, strict=True):
            self.log[i].append((int(k), int(n), float(x)))
        return averages


def replay(
    log: list[tuple[int, int, float]], arms: list[int], gamma: float, rounds: float, sigma: float
) -> tuple[list[int], dict[int, float]]:
    """The reference version, fed with what an agent drew, in the same order. Uses up the whole log."""
    draws = iter(log)

    def pull(arm: int, times: int) -> float:
        its_arm, its_times, value = next(draws)
        assert (its_arm, its_times) == (arm, times)
        return value

    found = reference_elimination(pull, arms, gamma, rounds, sigma)
    assert next(draws, None) is None
    return found


def ending_after(rounds: int | None) -> float | None:
    """The precision for which so many rounds are played."""
    return None if rounds is None else 2.0 ** (1 - rounds)


@pytest.mark.parametrize("rounds", [None, 1, 3])
@pytest.mark.parametrize("kind", ["all arms", "some arms", "own sets"])
@pytest.mark.parametrize("sigma", [1.0, 0.3])
def test_every_agent_does_what_it_would_do_alone(
    rounds: int | None, kind: str, sigma: float
) -> None:
    rng = np.random.default_rng(5)
    n, n_arms = 60, 9
    # Gaps on the scale of several rounds' ε, so that agents part ways early and late.
    block = ScriptedBlock(
        rng.choice([0.0, 0.2, 0.5, 0.75, 1.0, 1.4], size=(n, n_arms)) + rng.random((n, n_arms)),
        6,
        sigma,
    )
    arms = np.array([1, 2, 4, 5, 8]) if kind == "some arms" else np.arange(n_arms)
    within = None
    if kind == "own sets":
        within = rng.random((n, arms.size)) < 0.6
        within[0], within[1], within[2] = True, False, False
        within[1, 3] = True
        within[2, [0, 8]] = True
        within[~within.any(axis=1), 0] = True
    before = None if within is None else within.copy()
    active, estimates = elimination(block, arms, 0.3, ending_after(rounds), within)  # type: ignore[arg-type]
    assert within is None or np.array_equal(within, before)
    lengths = set()
    for i in range(n):
        own = arms if within is None else arms[within[i]]
        left, expected = replay(
            block.log[i], own.tolist(), 0.3, math.inf if rounds is None else rounds, sigma
        )
        assert arms[active[i]].tolist() == left
        for column, arm in enumerate(arms.tolist()):
            assert estimates[i, column] == expected.get(arm, 0.0)
        lengths.add(len(block.log[i]))
    if rounds is None:
        assert active.sum(axis=1).max() == 1
    if rounds != 1:
        assert len(lengths) > 5  # the agents did part ways


@pytest.mark.parametrize("rounds", [None, 2])
def test_an_agent_alone_does_the_same(rounds: int | None) -> None:
    """One agent takes a path of its own through the code."""
    rng = np.random.default_rng(8)
    lengths = set()
    for seed in range(60):
        block = ScriptedBlock(
            rng.choice([0.0, 0.3, 0.7, 1.0], size=(1, 7)) + rng.random((1, 7)), seed
        )
        arms = np.arange(7) if seed % 2 else np.array([0, 2, 3, 6])
        active, estimates = elimination(block, arms, 0.2, ending_after(rounds))  # type: ignore[arg-type]
        left, expected = replay(block.log[0], arms.tolist(), 0.2, rounds or math.inf, 1.0)
        assert active.shape == estimates.shape == (1, arms.size)
        assert arms[active[0]].tolist() == left
        assert estimates[0].tolist() == [expected.get(arm, 0.0) for arm in arms.tolist()]
        lengths.add(len(block.log[0]))
    assert len(lengths) > 5


@pytest.mark.parametrize("rounds", [None, 3])
def test_fast_path_and_reference_on_the_same_stream(rounds: int | None) -> None:
    """One agent of a real play: both versions draw the same rewards from the same seed."""
    instance = cbg.Instance([[0.9, 0.6, 0.55, 0.1, 0.75]], [0])
    arms = np.arange(5)
    for seed in range(20):
        one, other = (
            cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=seed) for _ in range(2)
        )
        block = cbg.Block(other, other.agents)

        def pull(arm: int, times: int, block: cbg.Block = block) -> float:
            return float(block.pull(np.array([0]), np.array([arm]), times)[0])

        block = cbg.Block(one, one.agents)
        active, estimates = elimination(block, arms, 0.2, ending_after(rounds))
        left, mean = reference_elimination(
            pull, range(5), 0.2, math.inf if rounds is None else rounds
        )
        assert np.flatnonzero(active[0]).tolist() == left
        assert estimates[0].tolist() == pytest.approx(list(mean.values()), rel=1e-12)
        assert one.pulls == other.pulls


def test_sample_size_is_the_printed_one() -> None:
    for n_arms, gamma, r, sigma in itertools.product(
        (2, 10, 100), (1e-13, 1e-3, 0.4), (1, 2, 7), (0.5, 1.0, 3.0)
    ):
        expected = ref.n_r(n_arms, gamma, r, sigma)
        assert round_size(n_arms, gamma, r, sigma) == expected
        both = round_size(np.array([n_arms, 5]), gamma, r, sigma)
        assert both.tolist() == [expected, ref.n_r(5, gamma, r, sigma)]
    # A budget beyond 1, as used below to provoke errors, still pulls.
    assert round_size(4, 1e6, 1, 1.0) == 1
    assert round_size(np.array([4]), 1e6, 1, 1.0).tolist() == [1]


def test_no_budget_and_no_end_are_clear() -> None:
    for n_arms in (4, np.array([4, 5])):
        with pytest.raises(ValueError, match="too small"):
            round_size(n_arms, 0.0, 1, 1.0)
        with pytest.raises(cbg.BudgetExceeded, match="tie"):
            round_size(n_arms, 0.1, 26, 1.0)
        with pytest.raises(cbg.BudgetExceeded):
            round_size(n_arms, 0.1, 10_000, 1e-200)


def next_sets(
    means: np.ndarray, active: tuple[int, ...], epsilon: float, times: int
) -> dict[tuple[int, ...], float]:
    """Exact law of the set that a round leaves: Σ over the leader m and ∫ over its average x."""
    sd = 1 / math.sqrt(times)
    # A fine fixed grid: the integrand is smooth on the scale of sd.
    x = np.linspace(means.min() - 9 * sd, means.max() + 9 * sd, 4001)
    top = {k: stats.norm.cdf(x, means[k], sd) for k in active}
    low = {k: stats.norm.cdf(x - epsilon, means[k], sd) for k in active}
    density = {k: stats.norm.pdf(x, means[k], sd) for k in active}
    law = {}
    for size in range(1, len(active) + 1):
        for kept in itertools.combinations(active, size):
            lost = math.prod((low[k] for k in active if k not in kept), start=np.ones_like(x))
            leads = sum(
                density[m]
                * math.prod((top[k] - low[k] for k in kept if k != m), start=np.ones_like(x))
                for m in kept
            )
            law[kept] = float(integrate.simpson(lost * leads, x=x))
    assert abs(sum(law.values()) - 1) < 1e-9
    return law


def test_error_rate_where_errors_can_be_seen() -> None:
    """γ far beyond 1 makes SE err; its law is then that of a Markov chain on sets of arms, computed by integration.

    Checked at level 1e-10 each: the error rate, and the set left after each of the first two rounds.
    """
    means = np.array([0.7, 0.45, 0.3, -0.1])
    gamma, n_arms, runs = 14.0, 4, 20_000
    chain = {tuple(range(n_arms)): 1.0}
    errors, expected_sets = 0.0, []
    for r in range(1, 12):
        after: dict[tuple[int, ...], float] = {}
        for active, weight in chain.items():
            if weight < 1e-12:
                continue
            for kept, p in next_sets(means, active, 2.0**-r, ref.n_r(n_arms, gamma, r)).items():
                after[kept] = after.get(kept, 0.0) + weight * p
        if r <= 2:
            expected_sets.append(dict(after))
        errors += sum(p for kept, p in after.items() if len(kept) == 1 and kept != (0,))
        chain = {kept: p for kept, p in after.items() if len(kept) > 1}
    assert sum(chain.values()) < 1e-9
    assert 0.05 < errors < 0.2

    instance = cbg.Instance(means[None, :], np.zeros(runs, dtype=int))
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=11)

    def run(rounds: int | None) -> np.ndarray:
        def program(block: cbg.Block) -> cbg.ArmSet:
            return cbg.ArmSet(elimination(block, np.arange(n_arms), gamma, ending_after(rounds))[0])

        return federation.local(federation.agents, program)

    wrong = int((~run(None)[:, 0]).sum())
    assert stats.binomtest(wrong, runs, errors).pvalue > 1e-10, (wrong / runs, errors)
    for rounds, law in enumerate(expected_sets, start=1):
        sets = run(rounds)
        # After two rounds an agent that had one arm left stays as it is.
        if rounds == 2:
            for kept, p in expected_sets[0].items():
                if len(kept) == 1:
                    law[kept] = law.get(kept, 0.0) + p
        code = sets @ (1 << np.arange(n_arms))
        observed = np.array([(code == sum(1 << k for k in kept)).sum() for kept in law])
        assert observed.sum() == runs
        expected = np.array(list(law.values())) * runs
        rare = expected < 20
        if rare.any():
            observed = np.append(observed[~rare], observed[rare].sum())
            expected = np.append(expected[~rare], expected[rare].sum())
        assert stats.chisquare(observed, expected * runs / expected.sum()).pvalue > 1e-10
