"""StructuredBAI as a whole: right answers in every corner, error rates, messages, scale, savings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import clustered_bandit_gym as cbg
from clustered_bandit_gym.generators import (
    PAPER_SMALL_MEANS,
    NearTie,
    PaperFlat,
    PaperRandom,
    PaperSmall,
    RandomFamily,
)
from clustered_bandit_gym.policies import BAIClPlusPlus, StructuredBAI, make

SMALL = np.array(PAPER_SMALL_MEANS)
#: False-alarm rate of every test that counts errors.
RARE = 1e-9
#: δ where a right answer is expected: the chance of an error in a whole run of this file is below
#: 1e-10.
SURE = 1e-13


def play(
    instance: cbg.Instance,
    delta: float = SURE,
    seed: int = 0,
    max_pulls: int | None = None,
    **told: Any,
) -> cbg.Federation:
    federation = cbg.Federation(
        instance, cbg.Problem.of(instance, delta, **told), seed=seed, max_pulls=max_pulls
    )
    federation.stop(StructuredBAI().solve(federation))
    return federation


def correct(federation: cbg.Federation) -> bool:
    assert federation.judgement is not None
    return federation.judgement.correct


CORNERS: dict[str, tuple[cbg.Instance, dict[str, Any]]] = {
    "three clusters": (cbg.Instance(SMALL, np.arange(24) % 3), {"eta": 0.3}),
    "eta not told": (cbg.Instance(SMALL[:2, 3:7], np.arange(12) % 2), {"eta": None}),
    "M not told": (cbg.Instance(SMALL, np.arange(12) % 3), {"n_clusters": None}),
    "neither told": (
        cbg.Instance(SMALL[:2, 3:7], np.arange(6) % 2),
        {"n_clusters": None, "eta": None},
    ),
    "eta1 not told": (cbg.Instance(SMALL, np.arange(12) % 3), {"eta1": None}),
    "one cluster": (cbg.Instance(SMALL[:1], np.zeros(9, dtype=int)), {}),
    "one cluster, M not told": (
        cbg.Instance(SMALL[:1], np.zeros(9, dtype=int)),
        {"n_clusters": None},
    ),
    "a cluster without agents": (cbg.Instance(SMALL, np.arange(12) % 2), {}),
    "a cluster without agents, eta not told": (
        cbg.Instance(SMALL[:, 3:7], np.arange(8) % 2),
        {"eta": None},
    ),
    "one cluster of three has agents": (cbg.Instance(SMALL, np.ones(9, dtype=int)), {}),
    "fewer agents than clusters": (cbg.Instance(SMALL, [2, 0]), {}),
    "one agent": (cbg.Instance(SMALL[:, :7], [1]), {}),
    "one agent to a cluster": (cbg.Instance(SMALL, [2, 0, 1]), {}),
    "one arm": (cbg.Instance([[0.5]], np.zeros(4, dtype=int)), {}),
    "two arms, two clusters": (cbg.Instance([[1.0, 0.0], [0.2, 0.9]], np.arange(10) % 2), {}),
    "as many arms as clusters": (cbg.Instance(np.eye(5), np.arange(20) % 5), {}),
    "one large cluster": (cbg.Instance(SMALL, [0] * 40 + [1, 2]), {}),
    "Bernoulli": (cbg.Instance(SMALL, np.arange(12) % 3, cbg.Bernoulli()), {}),
    "noiseless": (cbg.Instance(SMALL, np.arange(12) % 3, cbg.Gaussian(0.0)), {"sigma": 1.0}),
    "a small sigma": (cbg.Instance(SMALL, np.arange(12) % 3, cbg.Gaussian(0.05)), {}),
    "a sigma that is too large": (cbg.Instance(SMALL, np.arange(12) % 3), {"sigma": 2.0}),
    "an eta that is far too small": (cbg.Instance(SMALL[:, 3:7], np.arange(12) % 3), {"eta": 0.01}),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CORNERS)
def test_corners(name: str) -> None:
    instance, told = CORNERS[name]
    federation = play(instance, **told)
    assert correct(federation)
    assert federation.judgement is not None
    assert federation.judgement.clustering_errors == 0
    assert federation.judgement.arm_errors == 0


@pytest.mark.parametrize("rewards", ["gaussian", "bernoulli", "categorical"])
def test_random_instances(rewards: str) -> None:
    for seed in range(2):
        generator = RandomFamily(
            n_agents=15, n_clusters=4, n_arms=7, gap=0.05, rewards=rewards, sizes="power", alpha=1.5
        )
        assert correct(play(generator(np.random.default_rng([5, seed])), seed=seed))


def error_count(generator: Any, trials: int, delta: float, **told: Any) -> int:
    wrong = 0
    for trial in range(trials):
        instance = generator(np.random.default_rng([11, trial]))
        wrong += not correct(play(instance, delta, seed=trial, **told))
    return wrong


def test_errors_are_no_more_frequent_than_delta() -> None:
    """A policy that errs in three of four plays passes with probability below 1e-3."""
    trials, delta = 40, 0.1
    generator = NearTie(n_agents=6, n_clusters=2, n_arms=4, gap=0.2)
    assert error_count(generator, trials, delta) <= binom.isf(RARE, trials, delta)


def test_errors_with_bounded_rewards_are_no_more_frequent_than_delta() -> None:
    """A near tie, a tight η and a small cluster, coins near the end of their range. A policy that errs
    in three of four plays passes with probability below 1e-3.
    """
    trials, delta = 40, 0.1
    instance = cbg.Instance([[0.95, 0.9, 0.6], [0.8, 0.95, 0.6]], [0, 0, 0, 0, 1], cbg.Bernoulli())
    assert instance.eta == pytest.approx(0.05)
    wrong = sum(not correct(play(instance, delta, seed=seed)) for seed in range(trials))
    assert wrong <= binom.isf(RARE, trials, delta)


def test_a_small_variance_saves_pulls_where_the_support_is_told() -> None:
    laws = np.array(
        [
            [[0.05, 0.9, 0.05], [0.0, 0.9, 0.1], [0.1, 0.9, 0.0]],
            [[0.0, 0.9, 0.1], [0.05, 0.9, 0.05], [0.1, 0.9, 0]],
        ]
    )
    instance = cbg.Instance(None, np.arange(20) % 2, cbg.Categorical([0.0, 0.5, 1.0], laws))
    bets, plain = play(instance, 1e-10), play(instance, 1e-10, support=None)
    assert correct(bets)
    assert correct(plain)
    # The variance is a fifth of the largest possible, or less.
    assert bets.pulls < 0.4 * plain.pulls
    assert bets.ledger.reals() == 0, "counts are sent, not averages"


def test_an_eta_that_is_too_large_breaks_it_as_it_may() -> None:
    """The guarantee is for an η that holds.

    Told 0.8 where 0.1 is true, runner-ups are dropped as close elsewhere.
    """
    trials, delta = 12, 0.01
    generator = NearTie(n_agents=6, n_clusters=3, n_arms=6, eta=0.1, gap=0.05)
    assert error_count(generator, trials, delta, eta=0.8, check=False) > binom.isf(
        RARE, trials, delta
    )


@pytest.mark.parametrize("policy", ["structured-bai", "frugal-bai"])
def test_gaps_of_two_millionths(policy: str) -> None:
    """Plans of more than 10^13 pulls for an agent: each of 4 plays ends after few rounds, where a plan with a lower cap
    is never enough and is made again and again (736 to 10,000 rounds)."""
    gap = 2e-6
    instance = cbg.Instance([[gap, 0.0, -0.5], [0.0, gap, -0.5]], [0, 0, 0, 1, 1, 1])
    for seed in range(4):
        problem = cbg.Problem.of(instance, SURE)
        federation = cbg.Federation(instance, problem, seed=seed, max_pulls=10**17)
        federation.stop(make(policy).solve(federation))
        assert correct(federation)
        assert federation.rounds < 600


def test_a_tie_ends_as_an_unfinished_play() -> None:
    tied = cbg.Instance(
        [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], np.arange(6) % 2, allow_ties=True, allow_overlap=True
    )
    with pytest.raises(cbg.BudgetExceeded):
        play(tied, 0.1, eta=0.5)
    with pytest.raises(cbg.BudgetExceeded):
        play(tied, 0.1, eta=None, n_clusters=None)
    with pytest.raises(cbg.BudgetExceeded):
        play(CORNERS["three clusters"][0], 0.1, max_pulls=500, eta=0.3)


def test_every_average_that_the_centre_gets_is_billed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pulls = 0
    original = cbg.Federation.pull

    def spy(self: cbg.Federation, agents: Any, arms: Any, times: Any = 1) -> np.ndarray:
        nonlocal rows, pulls
        averages = original(self, agents, arms, times)
        rows += averages.size
        pulls += int(np.broadcast_to(times, averages.shape).sum())
        return averages

    monkeypatch.setattr(cbg.Federation, "pull", spy)
    monkeypatch.setattr(cbg.Federation, "local", None)
    federation = play(cbg.Instance(SMALL, np.arange(60) % 3), 1e-10, eta=0.3)
    ledger = federation.ledger
    assert federation.pulls == pulls == sum(federation.pulls_by_phase.values())
    assert ledger.reals("up") == rows
    assert ledger.bits("up") == ledger.reals("down") == 0
    # Four bits name one of ten arms; the size of a batch takes at least one more.
    assert ledger.bits("down") >= 5 * rows
    assert set(federation.pulls_by_phase) == {"discover", "best arms", "classify"}


def test_the_scale_of_rewards_does_not_matter() -> None:
    clusters = np.arange(30) % 3
    one = play(cbg.Instance(SMALL, clusters), 1e-10, seed=3, eta=0.25)
    four = play(cbg.Instance(4 * SMALL, clusters, cbg.Gaussian(4.0)), 1e-10, seed=3, eta=1.0)
    assert one.pulls == four.pulls
    assert one.judgement is not None
    assert four.judgement is not None
    assert np.array_equal(one.judgement.arms, four.judgement.arms)


def test_agents_are_classified_in_lock_step() -> None:
    """Ten times the agents, about as many exchanges: no loop over agents."""
    few, many = (
        play(cbg.Instance(SMALL, np.arange(n) % 3), 1e-10, seed=1, eta=0.3) for n in (1000, 10000)
    )
    assert correct(few)
    assert correct(many)
    assert many.rounds < 1.6 * few.rounds
    assert many.pulls < 11 * few.pulls


def test_near_ties_that_are_close_elsewhere_cost_little_in_every_play() -> None:
    """The gap of 0.01 between arms 0 (or 1) and 3 would take 4·10^5 pulls, and need never be
    resolved.
    """
    instance = cbg.Instance(
        [[0.31, 0.01, 0.0, 0.3], [0.01, 0.31, 0.0, 0.3]], np.arange(12) % 2, cbg.Bernoulli()
    )
    plays = [play(instance, 0.1, seed=seed, eta=0.29) for seed in range(10)]
    assert max(federation.pulls for federation in plays) < 30_000


def test_without_m_and_eta_nothing_is_spent_on_what_cannot_help() -> None:
    instance, told = CORNERS["neither told"]
    phases = play(instance, 0.01, **told).pulls_by_phase
    assert phases["discover"] < 0.2 * phases["accept"]


def test_by_name() -> None:
    assert isinstance(make("structured-bai"), StructuredBAI)
    assert StructuredBAI().label == "structured-bai"


@pytest.mark.parametrize(
    ("generator", "ratio"),
    [
        (PaperSmall(n_agents=300), 40),
        (PaperRandom(n_agents=200), 50),
        (PaperFlat(n_agents=1000), 12),
    ],
)
def test_far_fewer_pulls_than_bai_cl_plus_plus(generator: Any, ratio: float) -> None:
    """Two trials each, δ = 1e-10; `harness.beyond` has the table with twenty. What is seen is three
    times the target or (PaperFlat) 1.6 times, with a spread of a few per cent; in PaperRandom the
    larger of two very uneven ratios."""
    found = []
    for seed in range(2):
        instance = generator(np.random.default_rng(seed))
        problem = cbg.Problem.of(instance, 1e-10, **generator.declared)
        federations = [cbg.Federation(instance, problem, seed=seed) for _ in range(2)]
        for federation, policy in zip(federations, (BAIClPlusPlus(), StructuredBAI()), strict=True):
            assert federation.stop(policy.solve(federation)).correct
        found.append(federations[0].pulls / federations[1].pulls)
    assert max(found) >= ratio
