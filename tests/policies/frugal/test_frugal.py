"""FrugalBAI plays: right answers, corners, few bits, programs that depend on nothing but their block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game import federation as federation_module
from clustered_bandit_gym.generators import (
    NearTie,
    PaperFlat,
    PaperRandom,
    PaperSmall,
    RandomFamily,
)
from clustered_bandit_gym.policies import BAIClPlusPlus, FrugalBAI, StructuredBAI
from clustered_bandit_gym.policies.frugal import policy as policy_module
from clustered_bandit_gym.policies.frugal.settings import SETTINGS, Stuck
from clustered_bandit_gym.policies.registry import make


def play(
    generator: Any, seed: int, delta: float, policy: cbg.Policy | None = None, **told: Any
) -> cbg.Federation:
    instance = generator(np.random.default_rng(seed))
    problem = cbg.Problem.of(instance, delta, **{**generator.declared, **told})
    federation = cbg.Federation(instance, problem, seed=seed)
    federation.stop((policy or FrugalBAI()).solve(federation))
    return federation


def correct(federation: cbg.Federation) -> bool:
    assert federation.judgement is not None
    return federation.judgement.correct


CASES = {
    "near ties": NearTie(n_agents=8, n_clusters=2, n_arms=5, gap=0.15, eta=0.4),
    "eta exactly tight": PaperFlat(n_agents=16, n_clusters=4, n_arms=8, eta=0.5),
    "singletons": PaperRandom(n_agents=4, n_clusters=4, n_arms=6, eta=0.4),
    "many clusters": PaperFlat(n_agents=40, n_clusters=10, n_arms=14, eta=0.5),
    "many clusters, not flat": NearTie(n_agents=40, n_clusters=9, n_arms=20, eta=0.5, gap=0.3),
    "coins": RandomFamily(
        n_agents=16, n_clusters=3, n_arms=6, rewards="bernoulli", eta=0.4, gap=0.2
    ),
    "five values": RandomFamily(
        n_agents=16, n_clusters=3, n_arms=6, rewards="categorical", eta=0.4, gap=0.2
    ),
    "far from zero": RandomFamily(n_agents=16, n_clusters=3, n_arms=6, sigma=0.3, eta=0.4, gap=0.2),
    "far out": RandomFamily(n_agents=16, n_clusters=3, n_arms=6, sigma=0.001, eta=0.4, gap=0.2),
    "skew": NearTie(
        n_agents=30, n_clusters=3, n_arms=8, eta=0.4, gap=0.2, sizes="power", alpha=2.0
    ),
}


def test_errors_at_a_large_delta() -> None:
    """6 plays of each case at δ = 0.05. False alarm below 1e-7 for all, and 2e-8 for each case; a
    policy that errs in half of its plays passes with probability below 1e-4."""
    wrong = []
    for case in CASES.values():
        wrong.append(sum(not correct(play(case, seed, 0.05)) for seed in range(6)))
    assert sum(wrong) <= binom.isf(1e-7, 6 * len(CASES), 0.05)
    assert max(wrong) < 6


@pytest.mark.parametrize(
    "told",
    [{"n_clusters": None}, {"eta": None}, {"n_clusters": None, "eta": None}, {"support": None}],
    ids=["M not told", "eta not told", "neither told", "support not told"],
)
def test_less_is_told(told: dict) -> None:
    assert correct(play(CASES["coins"], 3, 1e-9, **told))


def test_one_cluster_and_one_agent() -> None:
    one = cbg.Instance([[0.2, 0.9, 0.5]], [0] * 7)
    federation = cbg.Federation(one, cbg.Problem.of(one, 1e-9), seed=1)
    federation.stop(FrugalBAI().solve(federation))
    assert correct(federation)
    assert federation.ledger.cost == 2, "one agent names one of three arms"
    assert (federation.pulls_per_agent > 0).sum() == 1
    assert federation.judgement is not None
    assert federation.judgement.clustering_errors == 0
    near = cbg.Instance([[0.2, 0.9, 0.9 - 1e-6]], [0] * 7)
    federation = cbg.Federation(near, cbg.Problem.of(near, 1e-9, epsilon=0.1), 1, max_pulls=10**6)
    federation.stop(FrugalBAI().solve(federation))
    assert correct(federation)
    single = cbg.Instance([[0.2, 0.9, 0.5], [0.9, 0.1, 0.2]], [1])
    federation = cbg.Federation(single, cbg.Problem.of(single, 1e-9), seed=1)
    federation.stop(FrugalBAI().solve(federation))
    assert correct(federation)


def test_empty_clusters_and_fewer_agents_than_clusters() -> None:
    means = PaperFlat(n_agents=4, n_clusters=4, n_arms=5, eta=0.8)(np.random.default_rng(0)).means
    for clusters in ([0] * 6 + [2] * 6, [3, 1], [1] * 9):
        instance = cbg.Instance(means, clusters)
        federation = cbg.Federation(instance, cbg.Problem.of(instance, 1e-9), seed=5)
        federation.stop(FrugalBAI().solve(federation))
        assert correct(federation)


@pytest.mark.parametrize("n_agents", [2, 12])
def test_references_are_measured_for_other_agents_only(n_agents: int) -> None:
    instance = cbg.Instance([[1.0, 0.7, -3.0], [0.7, 1.0, 0.0]], np.arange(n_agents) % 2)
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 1e-9), seed=5)
    federation.stop(FrugalBAI().solve(federation))
    assert correct(federation)
    assert ("references" in federation.pulls_by_phase) == (n_agents > 2)


def test_more_clusters_than_arms_are_told() -> None:
    instance = cbg.Instance([[0.9, 0.0], [0.0, 0.8]], [0, 1] * 6)
    problem = cbg.Problem(12, 2, 3, 1e-9, eta=0.8)
    pulls = []
    for policy in (FrugalBAI(), StructuredBAI()):
        federation = cbg.Federation(instance, problem, seed=5)
        federation.stop(policy.solve(federation))
        pulls.append(federation.pulls_by_phase)
    assert pulls[0] == pulls[1], "StructuredBAI plays at once, with all of δ"


def test_two_arms() -> None:
    instance = cbg.Instance([[0.9, 0.0], [0.0, 0.8]], [0, 1] * 6)
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 1e-9), seed=5)
    federation.stop(FrugalBAI().solve(federation))
    assert correct(federation)


def test_structured_bai_gets_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spy(cbg.Policy):
        def __init__(self, share: float = 1.0) -> None:
            self.share = share

        def solve(self, federation: cbg.Federation) -> np.ndarray:
            seen.append(self.share)
            return np.zeros(federation.problem.n_agents, dtype=np.int64)

    def stuck(federation: cbg.Federation, growth: float) -> None:
        seen.append(1 - SETTINGS.fallback)
        raise Stuck("for the test")

    seen: list[float] = []
    monkeypatch.setattr(policy_module, "StructuredBAI", Spy)
    monkeypatch.setattr(policy_module, "solve_together", stuck)
    play(PaperSmall(9), 0, 0.1)
    assert sum(seen) == pytest.approx(1)
    seen.clear()
    play(PaperSmall(9), 0, 0.1, n_clusters=None)
    assert seen == [1.0], "without M all of it"


@pytest.mark.parametrize("name", ["eta exactly tight", "many clusters, not flat", "coins"])
def test_agents_run_in_blocks_of_any_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One agent a block: rows of a block do not know of each other."""
    monkeypatch.setattr(federation_module, "BLOCK_CELLS", 1)
    assert correct(play(CASES[name], 2, 1e-9))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "name", ["eta exactly tight", "many clusters", "many clusters, not flat", "coins"]
)
def test_plays_of_the_harness(name: str, strict: bool) -> None:
    """Also where programs run as serialised copies that share nothing with the centre."""
    env = {"generator": CASES[name], "delta": 1e-9}
    row = cbg.play(FrugalBAI(), "ClusteredBAI-v0", seed=2, env_kwargs=env, strict=strict)
    assert row["outcome"] == "solved", row["message"]


def test_few_bits_and_few_pulls() -> None:
    ours, theirs = (
        play(PaperSmall(300), 7, 1e-10, policy) for policy in (FrugalBAI(), BAIClPlusPlus())
    )
    assert correct(ours)
    assert correct(theirs)
    assert ours.ledger.cost < 1.3 * theirs.ledger.cost
    assert ours.pulls < theirs.pulls / 80
    assert set(ours.pulls_by_phase) == {"discover", "best arms", "references", "classify"}


def test_no_fixed_cost_on_easy_games() -> None:
    """The earlier version took 26,000 pulls here, each agent alone takes 2,800 in all."""
    instance = cbg.Instance([[0.8, 0.5, 0.2], [0.2, 0.5, 0.8]], [0, 1] * 5, cbg.Bernoulli())
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.05), seed=3)
    federation.stop(FrugalBAI().solve(federation))
    assert federation.pulls < 2500


def test_betting_uses_the_small_variance_of_ratings() -> None:
    """One play of the MovieLens stand-in, with and without the support: several times fewer pulls."""
    from clustered_bandit_gym.datasets.generators import MovieLensLike

    generator = MovieLensLike(n_agents=30)
    told, hidden = play(generator, 1, 1e-3), play(generator, 1, 1e-3, support=None)
    assert correct(told)
    assert correct(hidden)
    assert told.pulls < hidden.pulls / 3


def test_settings_are_checked() -> None:
    with pytest.raises(UserError, match="growth must lie between"):
        make("frugal-bai:growth=1")
    assert correct(play(CASES["coins"], 4, 1e-9, make("frugal-bai:growth=2")))
