"""The error budgets, where errors cannot show them: every call's |A|, γ, r and n_r, and the certified sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import scheme_reference as ref
from elimination_rounds import Round, watch

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies import BAICl, BAIClPlusPlus, ClBAI, NaiveSE
from clustered_bandit_gym.policies.paper import bai_cl_pp

DELTA, SIGMA, ETA, ETA1 = 1e-4, 0.7, 0.2, 0.15
CONFIDENCES = ["paper", "certified"]


@dataclass(frozen=True)
class Call:
    """One call of SE at one agent, as its rounds show it."""

    agent: int
    size: int
    gamma: float
    rounds: int


def near_tie(n_agents: int = 14, n_arms: int = 8) -> cbg.Instance:
    """Three clusters with a runner-up each that survives the first phases: every branch of every scheme is taken.

    Two agents only in cluster 2, so that the draw of BAI-Cl is long."""
    means = np.full((3, n_arms), 0.3)
    means[np.arange(3), np.arange(3)] = [0.9, 0.95, 1.0]
    means[np.arange(3), np.arange(3, 6)] = [0.897, 0.947, 0.996]
    clusters = np.arange(n_agents) % 2
    clusters[[3, 8]] = 2
    return cbg.Instance(means, clusters, cbg.Gaussian(SIGMA))


def play(policy: cbg.Policy, seed: int = 0) -> tuple[cbg.Federation, list[Round], list[Call], int]:
    """The play, its rounds, its calls of SE, and the pulls that are not SE's."""
    instance = near_tie()
    problem = cbg.Problem.of(instance, DELTA, eta=ETA, eta1=ETA1)
    federation = cbg.Federation(instance, problem, seed=seed, itemise=True)
    with watch() as rounds:
        arms = policy.solve(federation)
    assert federation.stop(arms).correct
    calls: list[Call] = []
    open_calls: dict[int, Call] = {}
    for one in rounds:
        for agent, size, gamma in zip(
            one.agents.tolist(), one.sizes.tolist(), one.gamma.tolist(), strict=True
        ):
            if one.r == 1 and agent in open_calls:
                calls.append(open_calls.pop(agent))
            open_calls[agent] = Call(agent, size, gamma, one.r)
    calls += open_calls.values()
    pulled = sum(int(one.times @ one.arms) for one in rounds)
    return federation, rounds, calls, federation.pulls - pulled


def check_sizes(rounds: list[Round]) -> None:
    """Every n_r is the closed form of its own |A|, γ and r. (That it is also what was drawn shows in the totals.)"""
    assert rounds
    for one in rounds:
        for size, gamma, times in zip(
            one.sizes.tolist(), one.gamma.tolist(), one.times.tolist(), strict=True
        ):
            assert times == ref.n_r(size, gamma, one.r, SIGMA)
            assert (
                times
                != ref.n_r(size, 3 * gamma, one.r, SIGMA)
                != ref.n_r(size, gamma / 3, one.r, SIGMA)
            )


def approx(value: float) -> object:
    return pytest.approx(value, rel=1e-12)


def test_naive() -> None:
    federation, rounds, calls, others = play(NaiveSE())
    n, k = federation.problem.n_agents, federation.problem.n_arms
    check_sizes(rounds)
    assert others == 0
    assert {call.agent for call in calls} == set(range(n))
    assert len(calls) == n
    assert all((call.size, call.gamma) == (k, approx(DELTA / n)) for call in calls)
    assert sum(call.gamma for call in calls) <= DELTA * (1 + 1e-12)


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_cl_bai(confidence: str) -> None:
    federation, rounds, calls, others = play(ClBAI(confidence))
    n, k = federation.problem.n_agents, federation.problem.n_arms
    check_sizes(rounds)
    assert others == 0
    first, second = [c for c in calls if c.size == k], [c for c in calls if c.size < k]
    gamma = ref.gamma_cl_bai(DELTA, n, k)
    assert sorted(c.agent for c in first) == list(range(n))
    assert all(c.gamma == approx(gamma) and c.rounds <= ref.rounds_cl_bai(ETA) for c in first)
    # M = 3 components, one call each; the two budgets agree when no cluster is split.
    assert len(second) == 3
    assert all((c.size, c.gamma) == (2, approx(DELTA / 6)) for c in second)
    e0 = n * gamma * math.pi**2 / 12
    e2 = n * k * (gamma / (4 * k)) ** 0.87
    assert e0 <= DELTA / 12
    assert e2 <= DELTA / 12
    assert e0 + e2 + sum(c.gamma for c in second) <= DELTA


def test_cl_bai_certified_pays_for_the_components_there_are() -> None:
    """Told M = 1 (wrongly) there are three components all the same: certified budgets add up, printed ones do not."""
    instance = near_tie()
    for confidence, expected in (("paper", DELTA / 2), ("certified", DELTA / 6)):
        problem = cbg.Problem.of(instance, DELTA, eta=ETA, eta1=ETA1, n_clusters=1, check=False)
        federation = cbg.Federation(instance, problem, seed=0)
        with watch() as rounds:
            assert federation.stop(ClBAI(confidence).solve(federation)).correct
        seen = {
            g
            for one in rounds
            for g, size in zip(one.gamma.tolist(), one.sizes.tolist(), strict=True)
            if size == 2
        }
        assert sorted(seen) == [approx(expected)]


def test_the_proof_of_cl_bai_leaves_one_round_only() -> None:
    """Term 2 of the docstring: which rounds can lead to an edge between clusters, and how unlikely they are."""
    worst = math.inf
    for eta in np.concatenate([np.geomspace(1e-4, 16.9, 20_000), 2.0 ** -np.arange(0, 12)]):
        rounds = max(1, math.ceil(math.log2(17 / eta)))
        last = 2.0**-rounds
        assert last <= eta / 17
        fitting = [r for r in range(1, rounds + 1) if eta - last < 2.0**-r < eta + last]
        assert len(fitting) <= 1
        for r in fitting:
            assert 2.0**-r == 32 * last
            # Hoeffding: exp(−n x²/(2σ²)) with n = 8σ² L/ε², x = (η − ε_R)/2, is exp(−4L (x/ε)²).
            worst = min(worst, 4 * ((eta - last) / 2 / 2.0**-r) ** 2)
    assert worst >= 0.87
    # γ^0.87 with γ = (δ/12NK)^(4/3) is a power above 1 of δ/(12NK).
    assert 0.87 * 4 / 3 > 1
    # e1 as printed: Σ_r (4r²)^-0.75 = ζ(3/2)/4^0.75.
    assert 2.6124 / 4**0.75 <= 0.93
    assert 4 * (1 / 2 - 2 / 32) ** 2 >= 0.75


def bai_cl_budgets(confidence: str, n_clusters: int) -> Callable[[int], float]:
    if confidence == "paper":
        return lambda t: ref.gamma_bai_cl(DELTA, n_clusters)
    return lambda t: DELTA / (3 * t * (t + 1))


def check_first_phase(federation: cbg.Federation, calls: list[Call], confidence: str) -> list[int]:
    """Phase 1 of BAI-Cl and BAI-Cl++: SE([K], γ_t, R), and SE(S_i, γ_t, ∞) at those who find a new arm."""
    p = federation.problem
    order = [
        m.agent
        for m in federation.ledger.messages()
        if (m.phase, m.direction) == ("identify", "down")
    ]
    budget = bai_cl_budgets(confidence, p.n_clusters)
    continued = 0
    for t, agent in enumerate(order, start=1):
        own = [c for c in calls if c.agent == agent]
        assert all(c.gamma == approx(budget(t)) for c in own)
        assert own[0].size == p.n_arms
        assert own[0].rounds <= ref.rounds_bai_cl(ETA)
        assert [c.size for c in own[1:]] in ([], [2])
        continued += len(own) - 1
    assert continued == 3  # a near tie stays in S_i, so each new arm takes the second call
    return order


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_bai_cl(confidence: str) -> None:
    federation, rounds, calls, others = play(BAICl(confidence))
    n = federation.problem.n_agents
    check_sizes(rounds)
    assert others == 0
    order = check_first_phase(federation, calls, confidence)
    rest = [c for c in calls if c.agent not in order]
    assert sorted(c.agent for c in rest) == sorted(set(range(n)) - set(order))
    assert all((c.size, c.gamma) == (3, approx(DELTA / (3 * n))) for c in rest)


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_bai_cl_plus_plus(confidence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, int]] = []

    def recorded(log_term: float, problem: cbg.Problem) -> int:
        times = original(log_term, problem)
        asked.append((log_term, times))
        return times

    original = bai_cl_pp.check_size
    monkeypatch.setattr(bai_cl_pp, "check_size", recorded)
    federation, rounds, calls, others = play(BAIClPlusPlus(confidence))
    p = federation.problem
    check_sizes(rounds)
    order = check_first_phase(federation, calls, confidence)
    rest = [c for c in calls if c.agent not in order]
    assert {c.agent for c in rest} == set(range(p.n_agents)) - set(order)
    assert all(c.size == 3 and c.rounds <= ref.rounds_bai_cl(ETA) for c in rest)
    tries = [c.gamma for c in rest]
    assert all(any(g == approx(10.0**-k) for k in range(1, 10)) for g in tries)
    gamma = DELTA / (6 * p.n_agents)
    stored = ref.check_pulls(math.log(12 * 3 / DELTA), ETA1, SIGMA)
    checks = [ref.check_pulls(math.log(4 * k * k / gamma), ETA1, SIGMA) for k in range(1, 10)]
    assert [times for _, times in asked[:3]] == [stored] * 3
    assert asked[3:]
    assert all(times == checks[k] for k, (_, times) in enumerate(asked[3:]))
    n_tries = [sum(1 for g in tries if g == approx(10.0**-k)) for k in range(1, 10)]
    assert others == 3 * stored + sum(n * c for n, c in zip(n_tries, checks, strict=True))


def hoeffding(times: int, error: float) -> float:
    """P(the average of `times` pulls is off by `error` or more), for SIGMA-sub-Gaussian rewards."""
    return 2 * math.exp(-times * error**2 / (2 * SIGMA**2))


@pytest.mark.parametrize("n_agents", [1, 2, 14, 10**6])
@pytest.mark.parametrize("n_clusters", [1, 2, 3, 50])
def test_certified_sums(n_agents: int, n_clusters: int) -> None:
    """Worst case of each scheme: the draw goes through all agents, and every agent is in phase 2 as well."""
    p = cbg.Problem(n_agents, 100, n_clusters, DELTA, ETA, ETA1, SIGMA)
    certified = BAICl("certified")
    draws = range(1, min(n_agents, 2000) + 1)
    phase_1 = sum(2 * certified._draw_budget(p, t) for t in draws)
    # What is left out beyond 2000 draws: Σ_{t>T} 1/(t(t+1)) = 1/(T+1).
    phase_1 += 2 * DELTA / 3 / (draws[-1] + 1) if n_agents > 2000 else 0.0
    assert phase_1 <= 2 * DELTA / 3 * (1 + 1e-12)
    assert phase_1 + n_agents * DELTA / (3 * n_agents) <= DELTA * (1 + 1e-12)

    stored = n_clusters * hoeffding(
        bai_cl_pp.check_size(math.log(12 * n_clusters / DELTA), p), ETA1 / 4
    )
    gamma = DELTA / (6 * n_agents)
    sizes = [bai_cl_pp.check_size(math.log(4 * k * k / gamma), p) for k in range(1, 301)]
    accepted = n_agents * sum(hoeffding(size, ETA1 / 4) for size in sizes)
    assert stored <= DELTA / 6 * (1 + 1e-12)
    assert accepted <= DELTA / 6 * (1 + 1e-12)
    assert phase_1 + stored + accepted <= DELTA * (1 + 1e-12)


def test_se_keeps_its_own_budget() -> None:
    """γ really bounds a call of SE: |A| arms, all rounds, Hoeffding with the n_r it uses."""
    for n_arms, gamma in ((2, 0.3), (100, 1e-9)):
        bound = sum(
            n_arms * hoeffding(ref.n_r(n_arms, gamma, r, SIGMA), 2.0**-r / 2) for r in range(1, 25)
        )
        assert gamma / 2 < bound <= gamma


def test_printed_budget_of_bai_cl_falls_short() -> None:
    """Two of ten thousand agents in one of two clusters: the printed γ adds up to far more than δ."""
    p = cbg.Problem(10_000, 10, 2, DELTA, ETA)
    gamma = BAICl("paper")._draw_budget(p, 1)
    assert gamma == approx(ref.gamma_bai_cl(DELTA, 2))
    # The first of the two is met after (N + 1)/3 draws on average.
    assert (p.n_agents + 1) / 3 * gamma > 100 * DELTA
