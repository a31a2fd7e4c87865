"""Evidence of agents against references, messages and trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from clustered_bandit_gym import Federation, Instance, Problem
from clustered_bandit_gym.game.ledger import Quantised, Reals
from clustered_bandit_gym.policies.frugal.assign import (
    ABOVE,
    MORE,
    REFERENCE_PRICE,
    REFERENCE_RHO,
    UNUSED,
    Trial,
    node,
    side_evidence,
)
from clustered_bandit_gym.policies.frugal.budget import Budget
from clustered_bandit_gym.policies.frugal.messages import bound_and_gap
from clustered_bandit_gym.policies.frugal.tree import Node, grow
from clustered_bandit_gym.policies.sequential.cells import GaussianCells

PROBLEM = Problem(50, 6, 3, 0.2, eta=0.3, sigma=2.0)
TRIAL = Trial(PROBLEM, Budget.of(PROBLEM, 0), 4.0)


def agent(n: float, mean: np.ndarray) -> GaussianCells:
    return GaussianCells(PROBLEM.sigma, UNUSED, np.stack([np.full(mean.shape, n), mean], axis=-1)[:, None, :])


@pytest.mark.parametrize("looks", [1, MORE])
@pytest.mark.parametrize(("n", "gap"), [(5, 2.0), (200, 0.5), (3000, 0.5)])
@pytest.mark.parametrize("up", [True, False])
def test_mean_evidence_against_an_equal_reference_is_at_most_one(looks: int, n: int, gap: float, up: bool) -> None:
    """Agent and reference have one mean, exactly as many pulls as agents rely on, or four times as many: the mean of
    exp(evidence) by integration over the difference of the two averages, which is all that it depends on."""
    pulls = looks * float(TRIAL.reference_pulls(np.array(gap)))
    scale = PROBLEM.sigma * np.sqrt(1 / n + 1 / pulls)
    z = np.linspace(-15, 15, 60001)
    cells = agent(n, z * scale)
    rows = np.arange(z.size)
    evidence = side_evidence(TRIAL, cells, rows, np.zeros(z.size), np.full(z.size, gap), np.full(z.size, up))
    mean = integrate.trapezoid(np.exp(evidence - 0.5 * z * z) / np.sqrt(2 * np.pi), z)
    assert 0 < mean <= 1
    # Power: three times the difference that was planned with is shown with the pulls that it takes.
    assert evidence[-1 if up else 0] > evidence[z.size // 2]


def test_a_reference_is_worth_what_agents_rely_on() -> None:
    for gap in (0.1, 1.0, 5.0):
        first = float(TRIAL.reference_pulls(np.array(gap)))
        rho = REFERENCE_RHO * first
        for n in (first, 2 * first, MORE * first):
            assert n**2 / (n + rho) >= TRIAL.worth(np.array(gap)) * (1 - 1e-12)
            assert 0.5 * np.log1p(n / rho) <= REFERENCE_PRICE + 1e-12


@pytest.mark.parametrize("place", [-1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 2.0])
def test_a_node_ends_wherever_the_mean_is(place: float) -> None:
    """1000 agents whose mean lies anywhere around the two references, at δ = 0.2.

    On a reference's own side the error is at most α = 0.2·0.9·0.52/(50·2); P(at least 15 of 1000) < 1e-9."""
    low, gap = 3.0, 1.5
    instance = Instance([[low + place * gap, 0.0]], np.zeros(1000, dtype=int))
    federation = Federation(instance, Problem.of(instance, 0.2, eta=None), seed=4)
    answers: list[np.ndarray] = []

    def program(block) -> None:  # type: ignore[no-untyped-def]
        ones = np.ones(len(block))
        got = node(block, np.zeros(len(block), dtype=int), low * ones, gap * ones, arms=np.array([0]), trial=TRIAL)
        answers.append(got.values)

    federation.local(federation.agents, program)
    upper = (np.concatenate(answers) == ABOVE).mean()
    if place <= 0:
        assert upper < 0.015
    if place >= 1:
        assert upper > 0.985
    assert federation.pulls < 1e8


@given(st.floats(-30, 30), st.floats(0.05, 20))
def test_messages_keep_to_the_agents_disadvantage(low: float, gap: float) -> None:
    sent = bound_and_gap(PROBLEM, np.array([low]), np.array([low + gap]), False)
    assert sent is not None
    bound, distance, exact = sent
    assert bound.values[0] >= low
    assert 0 < distance.values[0] <= low + gap - bound.values[0] + 1e-12
    assert exact.values[0] == isinstance(bound, Quantised)
    assert isinstance(bound, Quantised | Reals)
    assert bound.values[0] + distance.values[0] >= low + 0.7 * min(gap, 16.0)


def test_messages_inside_a_support_are_grid_points() -> None:
    problem = Problem(50, 6, 3, 0.2, eta=0.3, support=(1.0, 3.0))
    sent = bound_and_gap(problem, np.array([1.503]), np.array([1.9]), True)
    assert sent is not None
    bound, distance = sent
    assert isinstance(bound, Quantised)
    assert (bound.bits, distance.bits) == (8, 4)
    assert 1.503 <= bound.values[0] < 1.52
    assert bound_and_gap(problem, np.array([1.503]), np.array([1.505]), True) is None


def test_a_tree_splits_where_the_gaps_are() -> None:
    rough = np.array([[0.0, 5.0, 1.0], [0.1, 5.0, 9.0], [8.0, 5.0, 1.2]])
    tree = grow(rough, 0.01, 1.0)
    assert isinstance(tree, Node)
    parts = {(frozenset(x.lower), frozenset(x.upper)) for x in tree.nodes()}
    assert parts in (
        {(frozenset({0, 1}), frozenset({2})), (frozenset({0}), frozenset({1}))},
        {(frozenset({0, 2}), frozenset({1})), (frozenset({0}), frozenset({2}))},
    )
    assert grow(np.zeros((3, 2)), 0.01, 1.0) is None
    assert grow(np.zeros((1, 2)), 0.01, 1.0) == 0
