"""Noiseless rewards make every scheme deterministic but for the order of the draw: counts are compared with a hand
computation, round by round."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scheme_reference as ref
from elimination_rounds import Round, watch

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies import BAICl, BAIClPlusPlus, ClBAI, NaiveSE

DELTA = 1e-3
ETA, ETA1 = 0.21, 0.19
#: Three bandits. Clusters 0 and 1 have a runner-up so close that phase 1 of Cl-BAI and of BAI-Cl keeps it; cluster 2
#: has one that only BAI-Cl, with fewer rounds, keeps.
MEANS = [
    [0.90, 0.30, 0.55, 0.897, 0.40, 0.10],
    [0.30, 0.95, 0.60, 0.20, 0.944, 0.70],
    [0.45, 0.20, 0.80, 0.10, 0.15, 0.77],
]
CLUSTERS = [0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 0]
N, K, M = len(CLUSTERS), 6, 3
BEST = [0, 1, 2]


def noiseless(sigma: float, **told: float) -> cbg.Federation:
    instance = cbg.Instance(np.array(MEANS), np.array(CLUSTERS), cbg.Gaussian(sigma=0.0))
    problem = cbg.Problem.of(instance, DELTA, eta=ETA, eta1=ETA1, sigma=sigma, **told)
    return cbg.Federation(instance, problem, seed=7, itemise=True)


def by_agent(rounds: list[Round]) -> dict[int, list[tuple[int, int, int]]]:
    """Every agent's rounds in order: (r, number of arms, pulls of each)."""
    table: dict[int, list[tuple[int, int, int]]] = {i: [] for i in range(N)}
    for one in rounds:
        for agent, arms, times in zip(
            one.agents.tolist(), one.arms.tolist(), one.times.tolist(), strict=True
        ):
            table[agent].append((one.r, arms, times))
    return table


def rows(played: list[ref.Pulls]) -> list[tuple[int, int, int]]:
    return [(one.r, len(one.arms), one.times) for one in played]


@pytest.mark.parametrize("sigma", [1.0, 0.4])
def test_naive(sigma: float) -> None:
    federation = noiseless(sigma)
    with watch() as rounds:
        arms = NaiveSE().solve(federation)
    expected = {
        i: ref.se(MEANS[m], range(K), DELTA / N, math.inf, sigma) for i, m in enumerate(CLUSTERS)
    }
    assert by_agent(rounds) == {i: rows(played) for i, (_, played) in expected.items()}
    assert federation.pulls_per_agent.tolist() == [ref.total(expected[i][1]) for i in range(N)]
    assert federation.pulls_by_phase == {
        "identify": sum(ref.total(played) for _, played in expected.values())
    }
    assert arms.tolist() == [BEST[m] for m in CLUSTERS]


@pytest.mark.parametrize("confidence", ["paper", "certified"])
@pytest.mark.parametrize("sigma", [1.0, 0.4])
def test_cl_bai(sigma: float, confidence: str) -> None:
    federation = noiseless(sigma)
    with watch() as rounds:
        arms = ClBAI(confidence).solve(federation)
    gamma = ref.gamma_cl_bai(DELTA, N, K)
    first = {
        i: ref.se(MEANS[m], range(K), gamma, ref.rounds_cl_bai(ETA), sigma)
        for i, m in enumerate(CLUSTERS)
    }
    assert {m: first[CLUSTERS.index(m)][0] for m in range(M)} == {0: [0, 3], 1: [1, 4], 2: [2]}
    # Clusters 0 and 1 are left, two components: each one's first agent goes on.
    n_calls = M if confidence == "paper" else 2
    second = {
        i: ref.se(MEANS[m], first[i][0], DELTA / (2 * n_calls), math.inf, sigma)
        for i, m in ((0, 0), (1, 1))
    }
    expected = {i: rows(played) for i, (_, played) in first.items()}
    for i, (_, played) in second.items():
        expected[i] += rows(played)
    assert by_agent(rounds) == expected
    assert federation.pulls_by_phase == {
        "cluster": sum(ref.total(played) for _, played in first.values()),
        "identify": sum(ref.total(played) for _, played in second.values()),
    }
    assert arms.tolist() == [BEST[m] for m in CLUSTERS]


def bai_cl_first_phase(
    order: list[int], confidence: str, sigma: float
) -> tuple[dict[int, list[tuple[int, int, int]]], dict[int, int], list[int]]:
    """Phase 1 of BAI-Cl for a given order of the draw: rounds and pulls of each agent, and who found a new arm."""
    known: set[int] = set()
    table, pulls, finders = {}, {}, []
    for t, agent in enumerate(order, start=1):
        means = MEANS[CLUSTERS[agent]]
        gamma = ref.gamma_bai_cl(DELTA, M) if confidence == "paper" else DELTA / (3 * t * (t + 1))
        left, played = ref.se(means, range(K), gamma, ref.rounds_bai_cl(ETA), sigma)
        table[agent], pulls[agent] = rows(played), ref.total(played)
        if not known & set(left):
            (arm,), more = ref.se(means, left, gamma, math.inf, sigma)
            table[agent] += rows(more)
            pulls[agent] += ref.total(more)
            known.add(arm)
            finders.append(agent)
    assert known == set(BEST)
    return table, pulls, finders


def drawn(federation: cbg.Federation) -> list[int]:
    """The agents of phase 1 in the order in which they were sent S."""
    return [
        m.agent
        for m in federation.ledger.messages()
        if (m.phase, m.direction) == ("identify", "down")
    ]


@pytest.mark.parametrize("confidence", ["paper", "certified"])
@pytest.mark.parametrize("sigma", [1.0, 0.4])
def test_bai_cl(sigma: float, confidence: str) -> None:
    federation = noiseless(sigma)
    with watch() as rounds:
        arms = BAICl(confidence).solve(federation)
    order = drawn(federation)
    expected, pulls, finders = bai_cl_first_phase(order, confidence, sigma)
    assert len(finders) == M
    assert any(
        agent in order and agent not in finders for agent in range(N)
    )  # the seed shows both branches
    first = sum(pulls.values())
    for agent in sorted(set(range(N)) - set(order)):
        _, played = ref.se(MEANS[CLUSTERS[agent]], BEST, DELTA / (3 * N), math.inf, sigma)
        expected[agent], pulls[agent] = rows(played), ref.total(played)
    assert by_agent(rounds) == expected
    assert federation.pulls_per_agent.tolist() == [pulls[i] for i in range(N)]
    assert federation.pulls_by_phase == {"identify": first, "assign": sum(pulls.values()) - first}
    assert arms.tolist() == [BEST[m] for m in CLUSTERS]


@pytest.mark.parametrize("verify", ["centre", "agent"])
@pytest.mark.parametrize("confidence", ["paper", "certified"])
@pytest.mark.parametrize("sigma", [1.0, 0.4])
def test_bai_cl_plus_plus(sigma: float, confidence: str, verify: str) -> None:
    federation = noiseless(sigma)
    with watch() as rounds:
        arms = BAIClPlusPlus(confidence, verify).solve(federation)
    order = drawn(federation)
    expected, pulls, finders = bai_cl_first_phase(order, confidence, sigma)
    for agent in finders:
        pulls[agent] += ref.check_pulls(math.log(12 * M / DELTA), ETA1, sigma)
    first = sum(pulls.values())
    for agent in sorted(set(range(N)) - set(order)):
        # Without noise the first candidate is right and accepted.
        _, played = ref.se(MEANS[CLUSTERS[agent]], BEST, 0.1, ref.rounds_bai_cl(ETA), sigma)
        expected[agent] = rows(played)
        pulls[agent] = ref.total(played) + ref.check_pulls(
            math.log(4 / (DELTA / (6 * N))), ETA1, sigma
        )
    assert by_agent(rounds) == expected
    assert federation.pulls_per_agent.tolist() == [pulls[i] for i in range(N)]
    assert federation.pulls_by_phase == {"identify": first, "assign": sum(pulls.values()) - first}
    assert arms.tolist() == [BEST[m] for m in CLUSTERS]
