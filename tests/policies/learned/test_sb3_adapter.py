"""`SB3VecEnv` beside Stable-Baselines3's own vectorisation, and with features as observations."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("sb3_contrib")

from learned_models import small
from stable_baselines3.common.vec_env import DummyVecEnv

from clustered_bandit_gym.policies.learned.sb3 import SB3VecEnv
from clustered_bandit_gym.policies.learned.training import make_vec_env


def test_adapter_equals_dummy_vec_env_step_by_step() -> None:
    """With the same instance and play seeds: same observations, rewards, ends and terminal observations as SB3's own
    vectorisation of the single environment, until the first episode of each ends."""
    kwargs = {"max_pulls": 7, "pull_cost": 0.1, "error_penalty": 2.0}
    n_envs = 5
    mine = SB3VecEnv("ClusteredBAI-Discrete-v0", n_envs=n_envs, generator="tiny", **kwargs)
    theirs = DummyVecEnv(
        [lambda: gym.make("ClusteredBAI-Discrete-v0", generator="tiny", **kwargs)] * n_envs
    )
    rng = np.random.default_rng(0)
    ends = {True: 0, False: 0}
    for episode in range(12):
        options = [
            {"instance_seed": 10 * episode + i, "play_seed": 500 + 10 * episode + i}
            for i in range(n_envs)
        ]
        mine.set_options(options)
        theirs.set_options(options)
        a, b = mine.reset(), theirs.reset()
        live = np.ones(n_envs, dtype=bool)
        for _ in range(8):
            for key in ("pulls", "means"):
                np.testing.assert_allclose(a[key][live], b[key][live], rtol=1e-12)
            actions = rng.choice(13, n_envs, p=[0.07] * 12 + [0.16])
            a, rewards, dones, infos = mine.step(actions)
            b, rewards_b, dones_b, infos_b = theirs.step(actions)
            np.testing.assert_allclose(rewards[live], rewards_b[live])
            np.testing.assert_array_equal(dones[live], dones_b[live])
            for i in np.flatnonzero(dones & live):
                assert infos[i]["TimeLimit.truncated"] is infos_b[i]["TimeLimit.truncated"] is False
                ends[infos[i]["stopped"]] += 1
                for key in ("stopped", "agent_correct", "best_arms", "pulls_per_agent", "sample"):
                    np.testing.assert_array_equal(infos[i][key], infos_b[i][key])
                assert infos[i]["communication"] == infos_b[i]["communication"]
                assert infos[i]["correct"] == infos_b[i]["correct"]
                assert infos[i]["cost"] == infos_b[i]["communication"]["cost"]
                assert infos[i]["episode"]["l"] == infos_b[i]["pulls"] + infos[i]["stopped"]
                last, their_last = (
                    infos[i]["terminal_observation"],
                    infos_b[i]["terminal_observation"],
                )
                for key in ("pulls", "means"):
                    np.testing.assert_allclose(last[key], their_last[key], rtol=1e-12)
            live &= ~dones
    assert min(ends.values()) > 5


def test_adapter_with_features() -> None:
    """Terminal observations are features of the last state, returns add up, the stop recommends the features' arms."""
    env = make_vec_env(small(n_envs=6))
    env.envs.game.max_pulls = 9
    env.seed(3)
    obs = env.reset()
    rng = np.random.default_rng(1)
    total = np.zeros(6)
    seen_truncated = seen_stop = 0
    for _ in range(80):
        before_pulls, before_arms = env.envs._pulls.copy(), env._seen.arms.copy()
        truth = np.stack([env.envs.instance(i).agent_best_arms for i in range(6)])
        actions = rng.choice(9, 6, p=[0.105] * 8 + [0.16])
        previous = obs
        obs, rewards, dones, infos = env.step(actions)
        total += rewards
        assert obs.dtype == np.float32
        np.testing.assert_allclose(
            obs, env.features(env.envs._pulls, env.envs._means).features, atol=1e-5
        )
        for i in np.flatnonzero(dones):
            assert infos[i]["episode"]["r"] == pytest.approx(total[i], abs=1e-5)
            total[i] = 0
            last = infos[i]["terminal_observation"]
            if not infos[i]["stopped"]:
                seen_truncated += 1
                assert not np.array_equal(last, previous[i])
                assert infos[i]["pulls"] == 9
            else:
                seen_stop += 1
                np.testing.assert_allclose(last, previous[i], atol=1e-5)
                assert infos[i]["wrong_agents"] == (before_arms[i] != truth[i]).sum()
                assert infos[i]["pulls"] == before_pulls[i].sum()
    assert min(seen_truncated, seen_stop) > 5
    assert env.has_attr("action_masks")
    np.testing.assert_array_equal(np.stack(env.env_method("action_masks")), env.action_masks())
    env.close()
