"""What the pseudo-code leaves open: each corner has a defined outcome, and nothing runs for ever."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scheme_reference as ref
from elimination_rounds import watch
from scipy import stats

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies import BAICl, BAIClPlusPlus, ClBAI, NaiveSE
from clustered_bandit_gym.policies.paper import bai_cl_pp

DELTA = 1e-3
SCHEMES = [NaiveSE, ClBAI, BAICl, BAIClPlusPlus]
CONFIDENCES = ["paper", "certified"]


def build(scheme: type, confidence: str) -> cbg.Policy:
    """The naive scheme has one set of budgets."""
    return scheme() if scheme is NaiveSE else scheme(confidence)


def federation(
    instance: cbg.Instance, seed: int = 0, max_pulls: int | None = None, **told: object
) -> cbg.Federation:
    problem = cbg.Problem.of(instance, DELTA, **told)  # type: ignore[arg-type]
    return cbg.Federation(instance, problem, seed=seed, max_pulls=max_pulls, itemise=True)


def easy(n_clusters: int = 3, clusters: list[int] | None = None, n_arms: int = 5) -> cbg.Instance:
    means = np.full((n_clusters, n_arms), 0.2)
    means[np.arange(n_clusters), np.arange(n_clusters)] = 1.0
    return cbg.Instance(
        means, np.array(clusters if clusters is not None else [0, 1, 2, 0, 1, 2, 2])
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("eta", ["truth", 0.3])
def test_a_single_cluster(scheme: type, confidence: str, eta: float | str) -> None:
    """M = 1: the truth is η = η1 = ∞, and a finite lower bound may be told instead."""
    instance = easy(1, [0] * 6)
    play = federation(instance, eta=eta, eta1=eta)
    with watch() as rounds:
        assert play.stop(build(scheme, confidence).solve(play)).correct
    budgets = {g for one in rounds for g in one.gamma.tolist()}
    if scheme is ClBAI and eta == "truth":
        # No round of phase 1; one component, one representative.
        assert list(play.pulls_by_phase) == ["identify"]
        assert np.count_nonzero(play.pulls_per_agent) == 1
        assert budgets == {DELTA / 2}
    if scheme in (BAICl, BAIClPlusPlus):
        assert budgets == {DELTA / 3 if confidence == "paper" else DELTA / 6}
        assert (
            sum(
                x.phase == "identify" and x.direction == "up" and x.kind == "arm"
                for x in play.ledger.messages()
            )
            == 1
        )
    if scheme is BAICl:
        assert "assign" not in play.pulls_by_phase  # |S| = 1: nothing to choose
    if scheme is BAIClPlusPlus and eta == "truth":
        assert play.pulls_by_phase["assign"] == 5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("clusters", [[1, 1, 1, 3, 3, 1, 3], [2], [4, 0]])
def test_clusters_without_agents(scheme: type, confidence: str, clusters: list[int]) -> None:
    """M = 5 told, fewer present (and fewer agents than clusters): the draw of BAI-Cl runs out, its phase 2 is empty."""
    play = federation(easy(5, clusters, 6))
    assert play.stop(build(scheme, confidence).solve(play)).correct
    if scheme in (BAICl, BAIClPlusPlus):
        assert list(play.pulls_by_phase) == ["identify"]
        assert {x.phase for x in play.ledger.messages()} == {"identify"}
        asked = [x.agent for x in play.ledger.messages() if x.direction == "down"]
        assert sorted(asked) == list(range(len(clusters)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_arm(scheme: type) -> None:
    """K = 1: nothing to find out, and nothing is pulled but for the checks of BAI-Cl++."""
    play = federation(cbg.Instance(np.array([[0.3]]), np.zeros(4, dtype=int)))
    assert play.stop(scheme().solve(play)).correct
    assert play.pulls == (4 if scheme is BAIClPlusPlus else 0)


def test_missing_knowledge_is_named() -> None:
    for scheme in (BAICl, BAIClPlusPlus):
        with pytest.raises(ValueError, match="number of clusters"):
            scheme().solve(federation(easy(), n_clusters=None))
    for scheme in (ClBAI, BAICl, BAIClPlusPlus):
        with pytest.raises(ValueError, match="Assumption 1"):
            scheme().solve(federation(easy(), eta=None))
    with pytest.raises(ValueError, match="Assumption 2"):
        BAIClPlusPlus().solve(federation(easy(), eta1=None))
    with pytest.raises(ValueError, match=r"requires n_clusters .* and eta .* and eta1 .*told="):
        BAIClPlusPlus().solve(federation(easy(), n_clusters=None, eta=None, eta1=None))
    play = federation(easy(), n_clusters=None, eta=None, eta1=None)
    assert play.stop(NaiveSE().solve(play)).correct


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_cl_bai_does_not_need_m(confidence: str) -> None:
    """Not told, the number of components takes its place: with two of them the calls of phase 2 get δ/4."""
    means = np.array([[1.0, 0.999, 0.2, 0.2], [0.2, 0.2, 0.999, 1.0]])
    play = federation(cbg.Instance(means, np.array([0, 1, 0, 1])), n_clusters=None)
    with watch() as rounds:
        assert play.stop(ClBAI(confidence).solve(play)).correct
    assert {g for one in rounds for g, a in zip(one.gamma, one.sizes, strict=True) if a == 2} == {
        DELTA / 4
    }


def test_agents_that_are_done_leave_the_graph() -> None:
    """Cluster 0 is settled in phase 1; of cluster 1 one agent goes on. All K estimates were sent all the same."""
    means = np.array([[1.0, 0.2, 0.2], [0.2, 1.0, 0.999]])
    play = federation(cbg.Instance(means, np.array([0, 1, 0, 1, 1])))
    judgement = play.stop(ClBAI().solve(play))
    assert judgement.correct
    assert judgement.clustering_errors == 0
    assert [
        x.agent for x in play.ledger.messages() if x.phase == "identify" and x.direction == "down"
    ] == [1]


def test_several_arms_in_common_with_the_known_ones() -> None:
    """A told η beyond the truth keeps rivals in S_i: of S ∩ S_i the arm of best estimate is sent, S stays as it is."""
    means = np.array([[1.0, 0.2, 0.2, 0.2], [0.2, 1.0, 0.2, 0.2], [0.85, 0.9, 1.0, 0.2]])
    instance = cbg.Instance(means, np.array([0, 1, 2]), cbg.Gaussian(0.0))
    shown = 0
    for seed in range(20):
        play = federation(instance, seed, eta=1.0, sigma=1.0, check=False)
        arms = BAICl().solve(play)
        order = [x.agent for x in play.ledger.messages() if x.direction == "down"]
        if order[2] == 2:
            assert arms.tolist() == [0, 1, 1]
            shown += 1
        else:
            assert arms[2] == {0: 2, 1: 1 if order[0] == 1 else 0}[order.index(2)]
    assert shown > 2


def test_several_arms_left_in_a_try_of_se_hat() -> None:
    """SE of R = 1 round (told a large η) leaves several arms: the candidate is the one of best estimate."""
    means = np.array([[0.1, 0.7, 0.9, 1.0], [0.1, 0.8, 0.4, 0.7]])
    instance = cbg.Instance(means, np.arange(6) % 2, cbg.Gaussian(0.0))
    play = federation(instance, eta=2.0, eta1=0.25, sigma=1.0, check=False)

    def program(block: cbg.Block) -> tuple[cbg.ArmIndex, cbg.Reals]:
        place, averages = BAIClPlusPlus()._propose(block, np.array([1, 2, 3]), 1)
        return cbg.ArmIndex(place, among=3), cbg.Reals(averages)

    with watch() as rounds:
        places, averages = play.local(play.agents, program)
    assert [one.r for one in rounds] == [1]
    assert places.tolist() == [2, 0] * 3
    assert averages.tolist() == [1.0, float(np.float32(0.8))] * 3  # as sent, in 32 bits


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("max_pulls", [None, 10**7])
def test_a_tie_ends_with_the_budget(scheme: type, max_pulls: int | None) -> None:
    """Two best arms: SE with R = ∞ cannot end, with a budget or without (there is always one: counts are finite)."""
    means = np.array([[1.0, 0.2, 1.0, 0.2], [0.2, 1.0, 0.2, 0.2]])
    instance = cbg.Instance(means, np.array([0, 1, 0, 1]), allow_ties=True)
    # Noise breaks a tie sooner or later; without any it stands.
    for model in (
        instance,
        cbg.Instance(means, instance.clusters, cbg.Gaussian(0.0), allow_ties=True),
    ):
        play = federation(model, max_pulls=max_pulls, eta=0.5, eta1=0.5, sigma=1.0)
        if max_pulls is None and model is instance:
            continue
        with pytest.raises(cbg.BudgetExceeded):
            scheme().solve(play)
        assert max_pulls is None or play.pulls <= max_pulls


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_tie_with_a_minute_sigma(scheme: type) -> None:
    """4^r passes float64 before the sample size passes int64."""
    means = np.array([[1.0, 1.0, 0.2], [0.2, 0.2, 1.0]])
    instance = cbg.Instance(means, np.array([0, 1]), cbg.Gaussian(0.0), allow_ties=True)
    with pytest.raises(cbg.BudgetExceeded):
        scheme().solve(federation(instance, eta=0.5, eta1=0.5, sigma=1e-160))


@pytest.mark.parametrize("verify", ["centre", "agent"])
def test_se_hat_gives_up(verify: str) -> None:
    """Told M = 2 of three clusters: the third one's arm is never a candidate, and every try is rejected.

    Until then the k-th try runs SE with 10^-k and checks with ln(4k²/γ)."""
    instance = cbg.Instance(easy().means, easy().clusters, cbg.Gaussian(0.0))
    play = federation(instance, seed=1, n_clusters=2, sigma=1.0, check=False)
    with (
        watch() as rounds,
        pytest.raises(cbg.BudgetExceeded, match=f"all of {bai_cl_pp.MAX_TRIES} candidates"),
    ):
        BAIClPlusPlus(verify=verify).solve(play)
    drawn = {x.agent for x in play.ledger.messages() if x.phase == "identify"}
    third = [i for i in range(7) if instance.clusters[i] not in instance.clusters[list(drawn)]]
    others = [i for i in range(7) if i not in drawn and i not in third]
    assert third
    assert others
    gamma = DELTA / (6 * 7)
    checks = [
        ref.check_pulls(math.log(4 * k * k / gamma), play.problem.eta1)
        for k in range(1, bai_cl_pp.MAX_TRIES + 1)
    ]
    tries = [one for one in rounds if set(third) & set(one.agents.tolist())]
    # The two known arms tie at an agent of the third cluster: all R rounds are played.
    budgets = [10.0**-k for k in range(1, bai_cl_pp.MAX_TRIES + 1)]
    n_rounds = ref.rounds_bai_cl(play.problem.eta)
    assert [one.gamma[0] for one in tries] == [g for g in budgets for _ in range(n_rounds)]
    eliminations = sum(2 * ref.n_r(2, g, r) for g in budgets for r in range(1, n_rounds + 1))
    for agent in third:
        assert play.pulls_per_agent[agent] == sum(checks) + eliminations
    for agent in others:
        assert play.pulls_per_agent[agent] == checks[0] + 2 * ref.n_r(2, 0.1, 1)


@pytest.mark.parametrize("eta", [0.05, 0.15, 0.25, 0.26, 0.5, 0.53, 1.0])
def test_numbers_of_rounds(eta: float) -> None:
    """An arm 1e-9 below the best outlives phase 1: the rounds played are ⌈log2(17/η)⌉ and ⌈log2(1/η) + 1⌉."""
    means = np.array([[3.0, 3.0 - 1e-9, 0.0, 0.0], [0.0, 0.0, 3.0, 3.0 - 1e-9]])
    instance = cbg.Instance(means, np.array([0, 1, 0, 1]), cbg.Gaussian(0.0))
    for scheme, expected in ((ClBAI, ref.rounds_cl_bai(eta)), (BAICl, ref.rounds_bai_cl(eta))):
        play = federation(instance, eta=eta, sigma=1.0)
        with watch() as rounds, pytest.raises(cbg.BudgetExceeded):
            scheme().solve(play)
        assert max(one.r for one in rounds if one.sizes[0] == 4) == expected


def test_more_components_than_clusters() -> None:
    """A told η so small that noise splits clusters, or M told too small: every component is served."""
    means = np.array([[1.0, 0.9995, 0.2, 0.2], [0.2, 0.2, 0.9995, 1.0]])
    play = federation(cbg.Instance(means, np.arange(8) % 2), n_clusters=1, check=False)
    judgement = play.stop(ClBAI().solve(play))
    assert judgement.correct
    assert len({x.agent for x in play.ledger.messages() if x.phase == "identify"}) == 2


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("eta", [5.0, 17.0, 100.0])
def test_a_separation_of_many_units(scheme: type, eta: float) -> None:
    """η so large that the printed number of rounds is zero or less: one round is played, or all would look alike."""
    means = np.full((3, 4), 0.0)
    means[np.arange(3), np.arange(3)] = eta + 1
    means[:, 3] = eta + 0.995
    instance = cbg.Instance(means, np.arange(9) % 3)
    play = federation(instance, eta=eta, eta1=eta)
    assert play.stop(scheme().solve(play)).correct


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_budget_is_kept(scheme: type) -> None:
    """`BudgetExceeded` before the pulls, and the count as it stood."""
    play = federation(easy(), max_pulls=1000)
    with pytest.raises(cbg.BudgetExceeded):
        scheme().solve(play)
    assert play.pulls <= 1000


def test_a_delta_too_small_to_divide() -> None:
    """(δ/(12NK))^(4/3) underflows for δ below about 1e-240: said, not divided by."""
    problem = cbg.Problem(7, 5, 3, 1e-300, 0.5)
    with pytest.raises(ValueError, match="delta is too small"):
        ClBAI().solve(cbg.Federation(easy(), problem, seed=0))


def test_unknown_choices() -> None:
    for scheme in SCHEMES[1:]:
        with pytest.raises(ValueError, match="'paper', 'certified'"):
            scheme(confidence="sure")
    with pytest.raises(ValueError, match="'centre', 'agent'"):
        BAIClPlusPlus(verify="nobody")


def test_sample_sizes_scale_with_sigma() -> None:
    """Twice the σ, four times the pulls, up to rounding up: noiseless, so that nothing else changes."""
    instance = cbg.Instance(easy().means, easy().clusters, cbg.Gaussian(0.0))
    for scheme in SCHEMES:
        plays = [federation(instance, sigma=sigma) for sigma in (1.0, 2.0)]
        for play in plays:
            scheme().solve(play)
        assert plays[1].pulls == pytest.approx(4 * plays[0].pulls, rel=1e-2)
        assert plays[1].pulls != plays[0].pulls
        assert math.isfinite(plays[1].ledger.cost)


def test_agents_are_drawn_uniformly() -> None:
    """Who comes first (chi-square), and how many are drawn before all arms are known (mean), at level 1e-10 each."""
    sizes, plays = [1, 2, 5], 400
    clusters = np.repeat(np.arange(3), sizes)
    instance = cbg.Instance(easy().means, clusters, cbg.Gaussian(0.0))
    problem = cbg.Problem.of(instance, DELTA, sigma=0.01)
    first, draws = np.zeros(8, dtype=int), np.zeros(plays)
    for seed in range(plays):
        play = cbg.Federation(instance, problem, seed=seed, itemise=True)
        BAICl().solve(play)
        order = [
            x.agent
            for x in play.ledger.messages()
            if (x.phase, x.direction) == ("identify", "down")
        ]
        first[order[0]] += 1
        draws[seed] = len(order)
    assert stats.chisquare(first).pvalue > 1e-10
    # All orders of the clusters (8!/(1!2!5!) = 168) are equally likely.
    orders = set(itertools.permutations(clusters.tolist()))
    lengths = np.array([max(order.index(m) for m in range(3)) + 1 for order in orders])
    z = (draws.mean() - lengths.mean()) / (lengths.std() / np.sqrt(plays))
    assert abs(z) < 6.5
