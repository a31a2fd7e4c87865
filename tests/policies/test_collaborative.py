"""Collaborative learning: one bandit, N agents, R rounds; right with probability at least 1 − δ."""

from __future__ import annotations

from math import ceil, exp

import numpy as np
import pytest
from scipy.stats import binom

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import NotApplicable, UserError
from clustered_bandit_gym.policies import CollaborativeBAI, collaborative, make
from clustered_bandit_gym.policies.sequential.paired import drift_evidence, shows_drift
from clustered_bandit_gym.suite.cells import cells_of


def play(
    means: list[float],
    n_agents: int,
    delta: float,
    seed: int,
    policy: str = "collaborative",
    **told: object,
) -> cbg.Federation:
    instance = cbg.Instance([means], [0] * n_agents, allow_ties=True)
    problem = cbg.Problem.of(instance, delta, **told)
    federation = cbg.Federation(instance, problem, seed, max_pulls=10**12)
    federation.stop(make(policy).solve(federation.view(strict=True)))
    return federation


def test_levels_add_up_to_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """K − 1 walks, one per arm against the best one: the levels that are asked for sum up to δ."""
    asked: list[float] = []

    def recorded(s: object, v: object, level: float) -> object:
        asked.append(float(level))
        return shows_drift(s, v, level)

    monkeypatch.setattr(collaborative, "shows_drift", recorded)
    for k, delta in ((2, 0.3), (5, 0.05), (12, 1e-9)):
        asked.clear()
        play([1.0] + [0.5] * (k - 1), 6, delta, 0)
        assert asked
        assert (k - 1) * exp(-min(asked)) <= delta * (1 + 1e-9)


def test_error_rate_on_a_near_tie() -> None:
    """200 plays at δ = 0.3: at most 30% wrong; false-alarm rate below 1e-9 (exact binomial)."""
    means = [0.5, 0.4999, 0.4998, 0.4997]
    plays = [play(means, 10, 0.3, seed) for seed in range(200)]
    wrong = sum(not f.judgement.correct for f in plays if f.judgement)
    assert wrong <= binom.isf(1e-9, 200, 0.3)
    assert min(f.rounds for f in plays) > 3  # it is not decided by luck in the first rounds


def test_rounds_are_large_enough_to_show_their_precision() -> None:
    """Also if the walk falls short by what happens with probability at most e^−level."""
    for k, delta in ((2, 0.3), (10, 0.05), (1000, 1e-10)):  # L from 1.2 to 30
        level = np.log((k - 1) / delta)
        problem = cbg.Problem(7, k, 1, delta, sigma=3.0)
        for gap in (0.01, 0.03, 0.1, 0.3, 1.0, 2.0):
            n = CollaborativeBAI(rounds=1, gap=3.0 * gap).pulls_after(problem, 1, level)
            walk = gap * n / 2 - np.sqrt(2 * level * n / 2)
            assert drift_evidence(walk, n / 2, level) >= level


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_at_most_r_rounds_if_the_gap_is_known(rounds: int) -> None:
    """100 plays at δ = 0.1: 10% may take longer; false-alarm rate below 1e-9 (exact binomial)."""
    policy = f"collaborative:rounds={rounds},gap=0.1"
    plays = [play([0.9, 0.8, 0.7, 0.0], 20, 0.1, seed, policy) for seed in range(100)]
    assert sum(f.rounds > rounds for f in plays) <= binom.isf(1e-9, 100, 0.1)
    if rounds > 1:
        assert np.mean([f.rounds for f in plays]) > 1


def test_fewer_rounds_take_more_pulls() -> None:
    means = [0.9, 0.8, 0.2]
    few = [play(means, 20, 0.1, seed, "collaborative:rounds=4").pulls for seed in range(20)]
    many = [play(means, 20, 0.1, seed).pulls for seed in range(20)]
    assert np.mean(few) > 2 * np.mean(many)


def test_goes_on_after_r_rounds_until_it_is_sure() -> None:
    """10 plays at δ = 1e-9: a wrong answer has probability below 1e-8."""
    for seed in range(10):
        federation = play([0.5, 0.49], 20, 1e-9, seed, "collaborative:rounds=2,gap=0.5")
        assert federation.judgement is not None
        assert federation.judgement.correct
        assert federation.rounds > 2


def test_agents_share_the_pulls() -> None:
    """64 agents need 1/64 of the pulls of one agent each, and none more than another by two."""
    policy = (
        "collaborative:rounds=2,gap=0.02"  # gaps of 0.02: decided in round 2, with few exceptions
    )
    alone = [play([0.52, 0.5, 0.5], 1, 0.01, seed, policy).pulls for seed in range(5)]
    shared = [play([0.52, 0.5, 0.5], 64, 0.01, seed, policy) for seed in range(5)]
    busiest = np.median([f.pulls_per_agent.max() for f in shared])
    assert busiest == pytest.approx(np.median(alone) / 64, rel=0.01)
    for federation in shared:
        assert federation.pulls_per_agent.max() == ceil(federation.pulls / 64)
        assert np.ptp(federation.pulls_per_agent) <= 1


def test_not_every_agent_pulls_if_few_pulls_suffice() -> None:
    federation = play([3.0, 0.0, 0.0], 5000, 0.1, 0)
    assert federation.pulls < 5000
    assert federation.pulls_per_agent.max() == 1


def test_epsilon_ends_a_near_tie_within_the_planned_rounds() -> None:
    federation = play([0.5, 0.49999, 0.0], 10, 1e-6, 2, "collaborative:rounds=6", epsilon=0.1)
    assert federation.judgement is not None
    assert federation.judgement.correct
    assert federation.rounds <= 6


def test_rows_are_the_same_in_strict_mode_and_on_every_play() -> None:
    env = cbg.ClusteredBAIEnv(cbg.Instance([[0.9, 0.5, 0.1]], [0] * 8), delta=0.1)
    rows = [cbg.play("collaborative", env, strict=strict) for strict in (False, True, True)]
    assert rows[0]["outcome"] == "solved"
    plain, strict, again = ({**row, "seconds": 0, "strict": True} for row in rows)
    assert plain == strict == again


def test_plays_problems_with_one_cluster_only() -> None:
    with pytest.raises(NotApplicable, match="n_clusters"):
        play([1.0, 0.0], 4, 0.1, 0, n_clusters=None)
    assert play([1.0], 4, 0.1, 0).pulls == 0  # one arm
    cells = cells_of("v2")
    outcomes = {}
    for name in ("one-ladder", "one-pair", "tiny-5"):
        instance = cells[name].instances[0]
        federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), 0)
        try:
            outcomes[name] = federation.stop(make("collaborative").solve(federation)).correct
        except NotApplicable as error:
            outcomes[name] = str(error)
    assert outcomes["one-ladder"] is outcomes["one-pair"] is True
    assert "M = 2" in outcomes["tiny-5"]


@pytest.mark.parametrize(
    ("settings", "epsilon"), [("rounds=300", 0.0), ("gap=10", 0.0), ("gap=1000", 0.0), ("", 5.0)]
)
def test_every_round_pulls_every_arm_that_is_left(settings: str, epsilon: float) -> None:
    """Also where rounding gives two rounds the same number of pulls. 10 plays at δ = 0.05: a false
    alarm has probability 3e-6."""
    policy = f"collaborative:{settings}".rstrip(":")
    plays = [play([1.0, 0.5, 0.0], 7, 0.05, seed, policy, epsilon=epsilon) for seed in range(10)]
    assert sum(not f.judgement.correct for f in plays if f.judgement) <= 5


@pytest.mark.parametrize("settings", ["rounds=0", "gap=0", "gap=-1"])
def test_settings_are_checked(settings: str) -> None:
    with pytest.raises(UserError):
        make(f"collaborative:{settings}")
