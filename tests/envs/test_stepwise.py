"""Policies played through `env.step`: the same game as without an environment."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats
from scripted import same_data

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.stepwise import play_stepwise
from clustered_bandit_gym.policies import BAICl, BAIClPlusPlus, ClBAI, NaiveSE

INSTANCE = cbg.Instance([[0.9, 0.1, 0.2], [0.1, 0.8, 0.3]], [0, 1, 1, 0])


class Fixed(cbg.Policy):
    """Five pulls of arm 1 at every agent, locally; two of arm 0 at agent 0, ordered by the centre."""

    def __init__(self, times: int = 5) -> None:
        self.times = times

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        def program(block: cbg.Block) -> cbg.Reals:
            return cbg.Reals(block.pull(np.arange(len(block)), 1, self.times))

        with federation.phase("local"):
            self._seen = federation.local(federation.agents, program)
        with federation.phase("central"):
            federation.pull([0], [0], 2)
        return np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    "policy", [NaiveSE(), ClBAI(), BAICl(), BAIClPlusPlus()], ids=lambda policy: policy.label
)
def test_schemes_play_the_same_game(policy: cbg.Policy) -> None:
    """On noiseless rewards both plays see the same numbers: pulls, bill and answers are the same."""
    means = [[1.0, 0.25, 0.5], [0.25, 1.0, 0.0]]
    instance = cbg.Instance(means, [0, 1, 1, 0, 1], cbg.Gaussian(0.0))
    env = ClusteredBAIEnv(instance, delta=0.2, sigma=0.1)
    rows = [cbg.play(policy, env, 4, stepwise, bound=False) for stepwise in (False, True)]
    for row in rows:
        del row["seconds"], row["stepwise"]
    assert same_data(*rows)


def test_counts_and_bill() -> None:
    env = ClusteredBAIEnv(INSTANCE)
    policy = Fixed()
    info = play_stepwise(policy, env, seed=1)
    assert info["correct"]
    assert info["pulls_per_agent"].tolist() == [7, 5, 5, 5]
    assert env.federation.pulls_by_phase == {"local": 20, "central": 2}
    # One real from every agent; then ⌈log2 3⌉ bits and 4 for the number 2 (Elias δ) down and one real up.
    assert info["communication"] == {
        "cost": 5 * 32.0 + 6,
        "bits_up": 0,
        "bits_down": 6,
        "reals_up": 5,
        "reals_down": 0,
    }


def test_law_of_an_average() -> None:
    """Averages of five single pulls are N(μ, 1/5), as when drawn in one go. False alarm below 1e-9."""
    env, policy = ClusteredBAIEnv(INSTANCE), Fixed()
    seen = []
    for seed in range(400):
        play_stepwise(policy, env, instance_seed=0, play_seed=seed)
        seen.append(policy._seen)
    deviations = (np.array(seen) - INSTANCE.means[INSTANCE.clusters, 1]).ravel()
    assert stats.kstest(deviations, stats.norm(0, np.sqrt(0.2)).cdf).pvalue > 1e-9


def test_goes_through_wrappers() -> None:
    seen = []

    class Watch(gym.Wrapper):
        def step(self, action):  # type: ignore[no-untyped-def]
            seen.append(action[0])
            return self.env.step(action)

    wrapped = gym.wrappers.RecordEpisodeStatistics(
        Watch(gym.make("ClusteredBAI-v0", instance=INSTANCE))
    )
    info = play_stepwise(Fixed(), wrapped, seed=0)
    assert seen == [cbg.PULL] * 22 + [cbg.STOP]
    assert info["episode"]["l"] == 23
    flat = gym.make("ClusteredBAI-Discrete-v0", instance=INSTANCE)
    assert play_stepwise(Fixed(), flat, seed=0)["pulls"] == 22


def test_budget() -> None:
    """Exactly max_pulls are allowed, one more is not: as in a play without an environment."""
    for limit, fits in ((22, True), (21, False), (7, False)):
        env = ClusteredBAIEnv(INSTANCE, max_pulls=limit)
        play = env.new_federation(0, 0)
        if fits:
            assert play_stepwise(Fixed(), env, seed=0)["pulls"] == 22
            Fixed().solve(play)
            continue
        with pytest.raises(cbg.BudgetExceeded):
            play_stepwise(Fixed(), env, seed=0)
        with pytest.raises(cbg.BudgetExceeded):
            Fixed().solve(play)
        assert env.federation.pulls == play.pulls <= limit
    short = gym.make("ClusteredBAI-v0", instance=INSTANCE, max_episode_steps=10)
    with pytest.raises(cbg.BudgetExceeded, match="after 10 pulls"):
        play_stepwise(Fixed(), short, seed=0)


def test_the_federation_is_itself_again_afterwards() -> None:
    env = ClusteredBAIEnv(INSTANCE)
    play_stepwise(Fixed(), env, seed=0)
    assert env.federation._requests is env.federation._source

    class Stops(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            federation.stop(np.zeros(4, dtype=int))
            return np.zeros(4, dtype=int)

    with pytest.raises(cbg.PlayOver, match="returns its arms"):
        play_stepwise(Stops(), env, seed=0)


class Scalars(cbg.Policy):
    """One order for one arm of one agent, as plain numbers."""

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        assert federation.pull(0, 0).shape == ()
        return np.array([0, 1, 1, 0])


def test_an_order_of_plain_numbers() -> None:
    assert play_stepwise(Scalars(), ClusteredBAIEnv(INSTANCE), seed=1)["pulls"] == 1
