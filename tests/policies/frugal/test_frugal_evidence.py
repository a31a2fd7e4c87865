"""Evidence of agents against references, messages and trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from clustered_bandit_gym import Federation, Instance, Problem
from clustered_bandit_gym.game.ledger import Quantised, Reals
from clustered_bandit_gym.policies.frugal import duels, facts, levels
from clustered_bandit_gym.policies.frugal.assign import choose, node
from clustered_bandit_gym.policies.frugal.budget import Budget
from clustered_bandit_gym.policies.frugal.messages import (
    bound_and_gap,
    bound_grid,
    gap_grid,
    lower_edge,
    upper_edge,
)
from clustered_bandit_gym.policies.frugal.sides import ABOVE
from clustered_bandit_gym.policies.frugal.spending import SPENDING
from clustered_bandit_gym.policies.frugal.tree import Node, grow
from clustered_bandit_gym.policies.frugal.trial import Trial
from clustered_bandit_gym.policies.sequential.betting import BETS, RATIO, RISK, TOP
from clustered_bandit_gym.policies.sequential.cells import GaussianCells

PROBLEM = Problem(50, 6, 3, 0.2, eta=0.3, sigma=2.0)
TRIAL = Trial(PROBLEM, Budget.of(PROBLEM, 0), 4.0)


@pytest.mark.parametrize("more", [1, 4])
@pytest.mark.parametrize(("n", "gap"), [(5, 2.0), (200, 0.5), (3000, 0.5)])
def test_mean_evidence_against_an_equal_reference_is_at_most_one(
    more: int, n: int, gap: float
) -> None:
    """Agent and reference have one mean, exactly as many pulls as agents rely on, or four times as many: the mean of
    exp(evidence) by integration over the difference of the two averages, which is all that it depends on."""
    pulls = more * float(TRIAL.reference_pulls(np.array(gap)))
    scale = PROBLEM.sigma * np.sqrt(1 / n + 1 / pulls)
    z = np.linspace(-15, 15, 60001)
    ahead = z * scale / PROBLEM.sigma
    tests = TRIAL.sides(np.full(z.size, gap), 3.0)
    evidence = tests.evidence(np.full(z.size, float(n)), ahead)
    mean = integrate.trapezoid(np.exp(evidence - 0.5 * z * z) / np.sqrt(2 * np.pi), z)
    assert 0 < mean <= 1
    # Power: three times the difference that was planned with is shown with the pulls that it takes.
    assert evidence[-1] > evidence[z.size // 2]
    # What is decided without the evidence is decided as with it.
    np.testing.assert_array_equal(tests.reaches(np.full(z.size, float(n)), ahead), evidence >= 3.0)


@pytest.mark.parametrize("n", [20, 100, 400])
@pytest.mark.parametrize("pulls", [500, 2000])
def test_evidence_holds_for_distances_chosen_by_the_reference(n: int, pulls: int) -> None:
    """The distance that agents are told, and with it what they take for granted, may depend on the reference. Worst
    choice: for every average of the reference the distance with the largest mean of exp(evidence) over the agent's."""
    gaps = float(TRIAL.widest(pulls)) * np.linspace(0.5, 1.0, 12)
    taken = TRIAL.reference_pulls(gaps)
    assert np.all((taken <= pulls * (1 + 1e-9)) & (pulls <= 4 * taken * (1 + 1e-9)))
    z, sigma = np.linspace(-9, 9, 401), PROBLEM.sigma
    difference = sigma * np.linspace(-4, 12, 2001) * np.sqrt(1 / n + 1 / pulls)
    own = difference + sigma * z[:, None] / np.sqrt(
        pulls
    )  # the agent's average, for each of the reference's
    density = np.exp(-0.5 * n * (own / sigma) ** 2) * np.sqrt(n / (2 * np.pi)) / sigma
    means = np.empty((z.size, gaps.size))
    for j, gap in enumerate(gaps):
        tests = TRIAL.sides(np.full(difference.size, gap), 3.0)
        evidence = tests.evidence(np.full(difference.size, float(n)), difference / sigma)
        means[:, j] = integrate.trapezoid(np.exp(evidence) * density, difference, axis=1)
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    assert integrate.trapezoid(means.max(axis=1) * density, z) <= 1


@pytest.mark.parametrize("place", [-1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 2.0])
def test_a_node_ends_wherever_the_mean_is(place: float) -> None:
    """1000 agents whose mean lies anywhere around the two references, at δ = 0.2.

    On a reference's own side the error is at most α = 0.2·0.9·0.9·0.36/(50·2·2); P(at least 15 of 1000) < 1e-9."""
    low, gap = 3.0, 1.5
    instance = Instance([[low + place * gap, 0.0]], np.zeros(1000, dtype=int))
    federation = Federation(instance, Problem.of(instance, 0.2, eta=None), seed=4)
    answers: list[np.ndarray] = []

    def program(block) -> None:  # type: ignore[no-untyped-def]
        ones = np.ones(len(block))
        got = node(
            block,
            np.zeros(len(block), dtype=int),
            low * ones,
            gap * ones,
            arms=np.array([0]),
            trial=TRIAL,
        )
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
    bound, distance = sent[:2]
    assert bound.values[0] >= low
    assert 0 < distance.values[0] <= low + gap - bound.values[0] + 1e-12
    assert bound.values[0] + distance.values[0] >= low + 0.7 * min(gap, 16.0)
    if isinstance(bound, Quantised):
        assert (len(sent), bound.bits, distance.bits) == (2, 9, 7), (
            "the 512th code says that a real number follows"
        )
        assert bound.grid.size == 511
    else:
        assert isinstance(bound, Reals)
        assert sent[2].bits == 9


@pytest.mark.parametrize("name", SPENDING)
@pytest.mark.parametrize("bounded", [False, True])
def test_grids_fill_their_codes(name: str, bounded: bool) -> None:
    """A bound outside a support leaves one code for "a real number follows"; distances use all of theirs."""
    problem, spending = Problem(50, 6, 3, 0.2, eta=0.3, support=(1.0, 3.0)), SPENDING[name]
    bounds, gaps = bound_grid(problem, bounded, spending), gap_grid(problem, bounded, spending)
    codes = bounds.size if bounded else bounds.size + 1
    assert codes == 2 ** (codes.bit_length() - 1)
    assert gaps.size == 2 ** (gaps.size.bit_length() - 1)
    assert np.all(np.diff(bounds) > 0)
    assert np.all(np.diff(gaps) > 0)


@pytest.mark.parametrize("name", SPENDING)
def test_evidence_inside_a_support_grows_at_the_least_distance(name: str) -> None:
    """Coins, the law with the largest variance, with a mean in the middle between two bounds: some bet on "above" wins
    in the long run, so that a test against bounds ends."""
    bets = TOP * RATIO ** -np.arange(float(BETS))
    problem = Problem(50, 6, 3, 0.2, eta=0.3, support=(0.0, 1.0))
    gap = gap_grid(problem, True, SPENDING[name])[0]
    for low in np.linspace(0.01, 0.99 - gap, 41):
        allowed = bets[bets <= RISK / low]
        mean = low + gap / 2
        growth = mean * np.log1p(allowed * (1 - low)) + (1 - mean) * np.log1p(-allowed * low)
        assert growth.max() > 0


@given(st.floats(-1e6, 1e6))
def test_edges_hold_what_single_precision_made_of_a_number(number: float) -> None:
    sent = np.array(np.float32(number), dtype=np.float64)
    assert lower_edge(sent) <= number <= upper_edge(sent)
    assert upper_edge(sent) - lower_edge(sent) <= 3e-7 * abs(number) + 1e-37


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


def test_a_representative_reports_the_average_of_its_first_pulls() -> None:
    """2000 agents, one arm far ahead. With a fixed number of pulls n the average has variance 1/n: z² of a mean and of
    a variance, each below 36 (false alarms 2e-9 each). A number of pulls that depends on the rewards shifts both."""
    n = 40
    instance = Instance([[2.0, 0.0]], np.zeros(2000, dtype=int))
    problem = Problem(2000, 2, 2, 0.2, eta=1.0)
    federation = Federation(instance, Problem.of(instance, 0.2, eta=None), seed=4)
    tests = levels.Tests(problem, Budget.of(problem, 0), expected=True)

    def program(block) -> None:  # type: ignore[no-untyped-def]
        block.save("found", np.zeros(len(block), dtype=int))
        best, top = facts.find_best(block, np.ones(len(block), dtype=bool), tests, prefix=n)
        assert np.all(best.values == 0)
        z = (top.values - 2.0) * np.sqrt(n)
        assert z.mean() ** 2 * z.size < 36
        assert (z.var() - 1) ** 2 * z.size / 2 < 36

    federation.local(federation.agents, program)


def test_weights_of_the_late_stream_sum_to_one_over_live_arms() -> None:
    problem = Problem(20, 40, 4, 0.2, eta=0.3)
    tests = levels.Tests(problem, Budget.of(problem, 0), expected=False)
    rng = np.random.default_rng(2)
    memory = np.stack([rng.integers(16, 500, (3, 40)), rng.normal(size=(3, 40))], axis=-1)
    work = duels.Work(
        tests,
        GaussianCells(1.0, tests.scales, memory),
        rng.random((3, 40)) < 0.4,
        np.zeros(3, dtype=int),
    )
    prior = work.prior()
    np.testing.assert_allclose(prior.sum(axis=1), 1)
    assert np.all((prior > 0) == work.live)
    assert tests.late


def test_an_arm_is_close_only_if_it_was_shown_against_every_live_arm() -> None:
    """Arm 1 is shown close to the leader at the first look, and falls behind before the second: arm 2 was never tested,
    and although no test of arm 1 is open then, it must not pass for close."""
    problem = Problem(20, 4, 2, 0.1, eta=1.0)
    tests = levels.Tests(problem, Budget.of(problem, 0), expected=False)
    looks = [
        ((40, 40, 16, 16), (0.0, 0.25, 0.3, -9.0)),
        ((80, 80, 32, 16), (0.35, -0.66, 0.3, -9.0)),
    ]
    work, table = None, None
    for pulls, means in looks:
        memory = np.stack([np.array([pulls], dtype=float), np.array([means])], axis=-1)
        cells = GaussianCells(1.0, tests.scales, memory)
        live = np.array([[True, True, True, False]])
        work = duels.Work(tests, cells, live, np.zeros(1, dtype=int))
        table = table or duels.Table(work, np.array([[False, True, False, False]]))
        work._look(table)
        assert table.shown[0, 0, 1]
        assert not table.shown[0, 2, 1]
        assert not table.close[0, 1]


def test_a_list_is_searched_without_errors_and_given_up_where_it_does_not_fit() -> None:
    """Agents whose best arm reaches the reference confirm it; the others end alone, and right. At δ = 0.2 and 200
    agents, more than 8 errors have a probability below 1e-9 if 0.2·0.9·0.38 bounds that of any."""
    for best in (1.0, 0.6):
        instance = Instance([[best, 0.0, 0.0], [0.0, best, 0.0]], [0, 1] * 100)
        told = Problem(200, 3, 2, 0.2, eta=0.5)
        trial = Trial(told, Budget.of(told, 0), 10.0, gap=0.5)
        federation = Federation(instance, Problem.of(instance, 0.2, n_clusters=2, eta=0.5), seed=3)
        members = np.array([True, True, False])

        def program(block, trial=trial, members=members, best=best) -> None:  # type: ignore[no-untyped-def]
            block.save("found", np.zeros(len(block), dtype=int))
            block.save("searched", np.zeros(len(block), dtype=bool))
            got = choose(
                block, np.tile(members, (len(block), 1)), np.full(len(block), 0.5), trial=trial
            )
            assert (got.values != block.agents % 2).sum() <= 8, best

        federation.local(federation.agents, program)
