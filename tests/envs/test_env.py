"""The environment's own rules: what is seen, billed, told, judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats
from scripted import OUTCOME_KEYS, PROBLEM_KEYS, same_data

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.env import ClusteredBAIEnv

MEANS = [[0.9, 0.1, 0.2], [0.1, 0.8, 0.3]]
INSTANCE = cbg.Instance(MEANS, [0, 1, 1, 0])


def test_observation_is_the_average_of_the_samples() -> None:
    env = ClusteredBAIEnv(INSTANCE)
    obs, _ = env.reset(seed=0)
    samples: dict[tuple[int, int], list[float]] = {}
    for agent, arm in np.random.default_rng(0).integers([4, 3], size=(60, 2)).tolist():
        before = obs
        copies = {key: value.copy() for key, value in before.items()}
        obs, reward, terminated, truncated, info = env.step((cbg.PULL, (agent, arm)))
        assert same_data(before, copies), "an observation handed out earlier was changed"
        samples.setdefault((agent, arm), []).append(info["sample"])
        assert (reward, terminated, truncated) == (-0.001, False, False)
        assert info.keys() == OUTCOME_KEYS
        assert (info["best_arms"] == -1).all()
    for (agent, arm), values in samples.items():
        assert obs["pulls"][agent, arm] == len(values)
        assert obs["means"][agent, arm] == pytest.approx(np.mean(values), rel=1e-12)
    assert obs["pulls"].sum() == 60


def test_outcome() -> None:
    env = ClusteredBAIEnv(INSTANCE, pull_cost=0.5, error_penalty=3.0, c_b=2.0, c_r=10.0)
    env.reset(seed=0)
    for agent in (0, 0, 1):
        assert env.step((cbg.PULL, (agent, 2)))[1] == -0.5
    _, reward, terminated, truncated, info = env.step((cbg.STOP, [0, 1, 0, 1]))
    assert (reward, terminated, truncated) == (-6.0, True, False)
    assert info.keys() == OUTCOME_KEYS
    assert (info["stopped"], info["correct"], info["wrong_agents"], info["pulls"]) == (
        True,
        False,
        2,
        3,
    )
    assert info["agent_correct"].tolist() == [True, True, False, False]
    assert info["pulls_per_agent"].tolist() == [2, 1, 0, 0]
    assert info["best_arms"].tolist() == [0, 1, 1, 0]
    # ⌈log2 3⌉ = 2 bits down and one real up for each pull.
    assert info["communication"] == {
        "cost": 3 * (2 * 2.0 + 10.0),
        "bits_up": 0,
        "bits_down": 6,
        "reals_up": 3,
        "reals_down": 0,
    }
    env.reset()
    assert env.step((cbg.STOP, [0, 1, 1, 0]))[1] == 0.0


def test_tied_best_arms_all_count_as_right() -> None:
    env = ClusteredBAIEnv(cbg.Instance([[1.0, 1.0, 0.0]], [0, 0], allow_ties=True))
    env.reset(seed=0)
    assert env.step((cbg.STOP, [0, 1]))[4]["correct"]


def test_bill_is_that_of_central_pulls() -> None:
    """A step is billed by phase as `Federation.pull` bills one pull, but for the bit that says how
    many: a step is one pull."""
    env = ClusteredBAIEnv(INSTANCE)
    env.reset(seed=0)
    central = env.new_federation(0, 0)
    script = np.random.default_rng(1).integers([4, 3], size=(12, 2)).tolist()
    for number, (agent, arm) in enumerate(script):
        phase = "first" if number < 5 else "second"
        with env.federation.phase(phase), central.phase(phase):
            env.step((cbg.PULL, (agent, arm)))
            central.pull([agent], [arm])
    mine = env.federation
    for (_, _, kind), total in central.ledger.totals.items():
        if kind == "order":
            total.bits -= total.messages
    assert mine.ledger.totals == central.ledger.totals
    assert mine.pulls_by_phase == central.pulls_by_phase == {"first": 5, "second": 7}
    assert (mine.rounds, mine.pulls) == (central.rounds, central.pulls) == (12, 12)


def test_rewards_follow_the_arms_law() -> None:
    """Samples against their exact laws; false alarms below 1e-9 each."""
    env = ClusteredBAIEnv(INSTANCE)
    env.reset(seed=12)
    samples = [env.step((cbg.PULL, (2, 1)))[4]["sample"] for _ in range(3000)]
    assert stats.kstest(samples, stats.norm(0.8, 1.0).cdf).pvalue > 1e-9
    coin = ClusteredBAIEnv(cbg.Instance(MEANS, [0, 1], cbg.Bernoulli()))
    coin.reset(seed=12)
    ones = sum(coin.step((cbg.PULL, (1, 2)))[4]["sample"] for _ in range(3000))
    assert stats.binomtest(int(ones), 3000, 0.3).pvalue > 1e-9


def test_seeds_choose_the_game() -> None:
    """Both seeds given, the episode is the play that `new_federation` gives, whatever happened before."""
    env = gym.make("ClusteredBAI-Tiny-v0")
    core = env.unwrapped
    assert isinstance(core, ClusteredBAIEnv)
    for seed in (5, np.random.SeedSequence(5, spawn_key=(1, 2))):
        play = core.new_federation(seed, seed)
        env.reset(seed=9, options={"instance_seed": seed, "play_seed": seed})
        assert core.federation._instance == play._instance
        assert core.federation.problem == play.problem
        for agent, arm in [(0, 1), (3, 2), (0, 1), (2, 0)]:
            assert env.step((cbg.PULL, (agent, arm)))[4]["sample"] == play.single(agent, arm)
        assert core.federation.rng.random() == play.rng.random()


def test_a_play_of_its_own_leaves_the_episode_alone() -> None:
    env, twin = ClusteredBAIEnv(), ClusteredBAIEnv()
    for one in (env, twin):
        one.reset(seed=1)
        one.step((cbg.PULL, (0, 0)))
    env.new_federation(3, 4).pull([0], [1], 1000)
    env.draw_instance(3)
    for action in ((cbg.PULL, (1, 1)), (cbg.STOP, [0] * 9)):
        assert same_data(env.step(action), twin.step(action))
    assert same_data(env.reset(), twin.reset())


def test_instances_are_fresh_unless_fixed() -> None:
    env = ClusteredBAIEnv(generator="tiny")
    drawn = []
    for seed in (0, 1, None, None):
        env.reset(seed=seed)
        drawn.append(env.federation._instance)
    assert all(drawn[i] != drawn[j] for i in range(4) for j in range(i))
    for fixed in (ClusteredBAIEnv(INSTANCE), ClusteredBAIEnv(generator="tiny", instance_seed=3)):
        fixed.reset(seed=0)
        first = fixed.federation._instance
        fixed.reset(seed=1, options={"instance_seed": 77})
        assert fixed.federation._instance is first
        assert fixed.new_federation(5, 5)._instance is first
    assert ClusteredBAIEnv(generator="tiny", instance_seed=3).draw_instance(0) == env.draw_instance(
        3
    )


def test_local_pulls_are_neither_shown_nor_billed() -> None:
    env = ClusteredBAIEnv(INSTANCE, max_pulls=3)
    env.reset(seed=0, options={"local_pulls": True})
    for _ in range(3):
        obs, _, terminated, truncated, info = env.step((cbg.PULL, (1, 1)))
        assert not obs["pulls"].any()
        assert not obs["means"].any()
        assert isinstance(info["sample"], float)
        assert not terminated
        assert not truncated
    with pytest.raises(cbg.BudgetExceeded):
        env.step((cbg.PULL, (1, 1)))
    info = env.step((cbg.STOP, [0, 1, 1, 0]))[4]
    assert info["pulls_per_agent"].tolist() == [0, 3, 0, 0]
    assert info["communication"]["cost"] == 0
    assert info["correct"]


def test_what_the_learner_is_told() -> None:
    assert ClusteredBAIEnv(INSTANCE).problem_of(INSTANCE) == cbg.Problem.of(INSTANCE, 0.05)
    small = ClusteredBAIEnv(delta=0.01)
    _, info = small.reset(seed=0)
    assert info.keys() == PROBLEM_KEYS
    assert info.pop("support").tolist() == [-np.inf, np.inf]
    assert info == {
        "n_agents": 9,
        "n_arms": 10,
        "n_clusters": 3,
        "delta": 0.01,
        "eta": 0.3,
        "eta1": 0.3,
        "sigma": 1.0,
        "epsilon": 0.0,
        "max_pulls_per_agent": 0,
    }
    coins = cbg.Instance([[0.9, 0.1], [0.1, 0.8]], [0, 1], cbg.Bernoulli())
    assert ClusteredBAIEnv(coins).reset(seed=0)[1]["support"].tolist() == [0.0, 1.0]
    hidden = ClusteredBAIEnv(coins, told={"support": None}).reset(seed=0)[1]
    assert hidden["support"].tolist() == [-np.inf, np.inf]
    hidden = ClusteredBAIEnv(told={"n_clusters": None, "eta1": None, "eta": 0.1}, sigma=2.0).reset(
        seed=0
    )[1]
    assert (hidden["n_clusters"], hidden["eta1"], hidden["eta"], hidden["sigma"]) == (0, 0, 0.1, 2)
    assert ClusteredBAIEnv(told={"eta": "truth"}).reset(seed=0)[1]["eta"] == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"the instance has 0\.5"):
        ClusteredBAIEnv(told={"eta": 0.6})
    assert ClusteredBAIEnv(told={"eta": 0.6}, check=False).reset(seed=0)[1]["eta"] == 0.6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_agents": 0}, "n_agents"),
        ({"delta": 0.0}, "delta"),
        ({"max_pulls": 0}, "max_pulls"),
        ({"c_r": -1.0}, "c_r"),
        ({"pull_cost": float("nan")}, "pull_cost"),
        ({"error_penalty": -1.0}, "error_penalty"),
        ({"told": {"eta2": 1}}, "told takes a dict of n_clusters, eta, eta1, support, .*eta2"),
        (
            {"max_pull": 3},
            r"argument 'max_pull' \(did you mean 'max_pulls'\?\); keywords that cbg.ClusteredBAIEnv",
        ),
        ({"n_agent": 3}, r"argument 'n_agent' \(did you mean 'n_agents'"),
        ({"pull_sizes": (1, 4)}, "pull_sizes is a setting of the flat ids"),
        ({"delta": "0.1"}, "delta must be a number, got '0.1'"),
        ({"sigma": [1]}, r"sigma must be a number, got \[1\]"),
        ({"pull_cost": "much"}, "pull_cost must be a finite number >= 0, got 'much'"),
        ({"eta": 0.2}, "told="),
        ({"generator": "paper-smal"}, "known: paper-small"),
        ({"instance": INSTANCE, "generator": "tiny"}, "not both; here the generator is 'tiny'"),
        ({"instance": "nowhere.npz"}, "there is no file nowhere.npz"),
        ({"instance": "nowhere.csv"}, "there is no file nowhere.csv"),
        ({"instance": "."}, "there is no file ."),
        ({"instance": 5}, "must be an Instance or the path of a file, got 5"),
        ({"instance": INSTANCE, "n_agents": 4}, "'n_agents': a setting of generators"),
        (
            {"n_agents": 4, "generator_kwargs": {"n_agents": 4}},
            "both as a keyword and in generator_kwargs",
        ),
        ({"render_mode": "rgb"}, "render_mode"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gym.make("ClusteredBAI-v0", **settings)


def test_ways_to_name_an_instance(tmp_path: Path) -> None:
    INSTANCE.save(tmp_path / "mine.npz")
    for env in (
        gym.make("ClusteredBAI-v0", instance=INSTANCE),
        gym.make("ClusteredBAI-v0", instance=str(tmp_path / "mine.npz")),
        gym.make("ClusteredBAI-v0", generator=lambda rng: INSTANCE),
    ):
        env.reset(seed=0)
        assert env.unwrapped.federation._instance == INSTANCE
    wide = gym.make("ClusteredBAI-v0", generator="near-tie", n_agents=5, n_arms=8, gap=0.05)
    assert wide.observation_space["means"].shape == (5, 8)
    sizes = iter([3, 3, 4])

    def growing(rng: np.random.Generator) -> cbg.Instance:
        return cbg.Instance(MEANS, np.arange(next(sizes)) % 2)

    changing = ClusteredBAIEnv(generator=growing)
    changing.reset(seed=0)
    with pytest.raises(ValueError, match="all have one size"):
        changing.reset()
    with pytest.raises(TypeError, match="must return an Instance"):
        ClusteredBAIEnv(generator=lambda rng: 3)  # type: ignore[arg-type,return-value]


def test_reset_options_are_checked() -> None:
    env = ClusteredBAIEnv()
    with pytest.raises(ValueError, match="known: instance_seed, play_seed, local_pulls"):
        env.reset(options={"seed": 3})


def test_a_million_agents_need_no_spaces() -> None:
    env = gym.make("ClusteredBAI-PaperFlat-v0", n_agents=1_000_000, disable_env_checker=True)
    core = env.unwrapped
    assert isinstance(core, ClusteredBAIEnv)
    play = core.new_federation(1, 2)
    assert play.problem.n_agents == 1_000_000
    assert "observation_space" not in vars(core)
