"""`SB3VecEnv` beside Stable-Baselines3's own vectorisation, and with features as observations."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import clustered_bandit_gym as cbg

pytest.importorskip("sb3_contrib")

from learned_models import SMALL
from stable_baselines3.common.vec_env import DummyVecEnv

from clustered_bandit_gym.policies.learned.sb3 import SB3VecEnv
from clustered_bandit_gym.policies.learned.training import make_model


def test_adapter_equals_dummy_vec_env_step_by_step() -> None:
    """Noiseless rewards of one instance: observations, rewards, ends and infos are those of SB3's own
    vectorisation of the single environment. A stop before every agent has a pull is a guess."""
    instance = cbg.Instance([[0.9, 0.1], [0.2, 0.8]], [0, 1], cbg.Gaussian(0.0))
    kwargs = {"instance": instance, "max_pulls": 7, "pull_cost": 0.1, "error_penalty": 2.0}
    mine = SB3VecEnv("ClusteredBAI-Discrete-v0", n_envs=5, **kwargs)
    theirs = DummyVecEnv([lambda: gym.make("ClusteredBAI-Discrete-v0", **kwargs)] * 5)
    rng = np.random.default_rng(0)
    ends = {True: 0, False: 0}
    a, b = mine.reset(), theirs.reset()
    for _ in range(100):
        sure = a["pulls"].any(axis=2).all(axis=1)
        actions = rng.choice(5, 5, p=[0.21] * 4 + [0.16])
        a, rewards, dones, infos = mine.step(actions)
        b, rewards_b, dones_b, infos_b = theirs.step(actions)
        for key in ("pulls", "means"):
            np.testing.assert_allclose(a[key], b[key], rtol=1e-12)
        np.testing.assert_allclose(rewards[~dones | sure], rewards_b[~dones | sure])
        np.testing.assert_array_equal(dones, dones_b)
        for i in np.flatnonzero(dones):
            assert infos[i]["TimeLimit.truncated"] is infos_b[i]["TimeLimit.truncated"] is False
            ends[infos[i]["stopped"]] += 1
            for key in ("stopped", "best_arms", "pulls_per_agent", "sample"):
                np.testing.assert_array_equal(infos[i][key], infos_b[i][key])
            if sure[i]:
                np.testing.assert_array_equal(
                    infos[i]["agent_correct"], infos_b[i]["agent_correct"]
                )
            assert infos[i]["communication"] == infos_b[i]["communication"]
            assert infos[i]["cost"] == infos_b[i]["communication"]["cost"]
            last, their_last = infos[i]["terminal_observation"], infos_b[i]["terminal_observation"]
            for key in ("pulls", "means"):
                np.testing.assert_allclose(last[key], their_last[key], rtol=1e-12)
    assert min(ends.values()) > 5


def test_adapter_with_features() -> None:
    """Terminal observations are features of the last state, the stop recommends the features' arms."""
    env: Any = make_model(
        "ClusteredBAI-Tiny-v0", **{**SMALL, "n_envs": 6, "max_pulls": 9}
    ).get_env()
    env.seed(3)
    obs = env.reset()
    rng = np.random.default_rng(1)
    seen_truncated = seen_stop = 0
    for _ in range(80):
        before_pulls, before_arms = env.envs._pulls.copy(), env._seen.arms.copy()
        truth = np.stack([env.envs.instance(i).agent_best_arms for i in range(6)])
        actions = rng.choice(9, 6, p=[0.105] * 8 + [0.16])
        previous = obs
        obs, _, dones, infos = env.step(actions)
        assert obs.dtype == np.float32
        np.testing.assert_allclose(
            obs, env.features(env.envs._pulls, env.envs._means).features, atol=1e-5
        )
        for i in np.flatnonzero(dones):
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
