"""Flat twins of every id, what the composite action space says to libraries that cannot use it, normalised features."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.wrappers import normalised_features
from clustered_bandit_gym.envs_registry import CATALOGUE, flat_id


def test_every_id_has_a_flat_twin_with_the_same_settings() -> None:
    for name in CATALOGUE:
        twin = gym.spec(flat_id(name))
        assert twin.kwargs == gym.spec(name).kwargs
        assert twin.vector_entry_point is not None
    assert (
        flat_id("ClusteredBAI-v0")
        == flat_id("ClusteredBAI-Discrete-v0")
        == "ClusteredBAI-Discrete-v0"
    )


@pytest.mark.parametrize(
    "name", ["ClusteredBAI-Tiny-Discrete-v0", "ClusteredBAI-NearTie-Discrete-v0"]
)
def test_twins_are_good_environments(name: str) -> None:
    env = gym.make(name)
    assert isinstance(env.action_space, gym.spaces.Discrete)
    check_env(env.unwrapped, skip_render_check=True)
    vector = gym.make_vec(name, num_envs=2)
    assert isinstance(vector.unwrapped, cbg.ClusteredBAIVectorEnv)
    assert vector.single_action_space == env.action_space


def test_the_composite_space_names_the_twin() -> None:
    """Libraries print the space they cannot use."""
    sb3 = pytest.importorskip("stable_baselines3")
    with pytest.raises(
        AssertionError,
        match=r'gym\.make\("ClusteredBAI-Tiny-Discrete-v0"\) or cbg\.DiscreteActions',
    ):
        sb3.PPO("MultiInputPolicy", gym.make("ClusteredBAI-Tiny-v0"))
    assert 'gym.make("ClusteredBAI-Discrete-v0")' in repr(cbg.ClusteredBAIEnv().action_space)


def test_normalised_features_have_one_size_for_all_games() -> None:
    small = cbg.NormalisedFeatures(
        gym.make("ClusteredBAI-Tiny-Discrete-v0"), max_agents=6, max_arms=5
    )
    large = cbg.NormalisedFeatures(
        gym.make("ClusteredBAI-Tiny-Discrete-v0", n_agents=6, n_arms=5), max_agents=6, max_arms=5
    )
    assert small.observation_space == large.observation_space
    assert small.action_space == large.action_space == gym.spaces.Discrete(31)
    for env in (small, large):
        obs, _ = env.reset(seed=0)
        assert env.observation_space.contains(obs)
        for action in range(0, 30, 3):
            obs, *_ = env.step(action)
            assert env.observation_space.contains(obs)
    masks = small.action_masks()
    assert masks[:-1].reshape(6, 5).tolist() == [[True] * 3 + [False] * 2] * 4 + [[False] * 5] * 2
    # Action 7 is agent 1, arm 2; absent cells are taken modulo the game's size.
    small.reset(seed=1)
    small.step(7)
    small.step(5 * 5 + 4)
    pulls, _ = small.unwrapped.seen  # type: ignore[attr-defined]
    assert np.argwhere(pulls).tolist() == [[1, 1], [1, 2]]
    small.step(30)
    with pytest.raises(ValueError, match="more than max_agents = 2"):
        cbg.NormalisedFeatures(gym.make("ClusteredBAI-Tiny-Discrete-v0"), max_agents=2)
    with pytest.raises(ValueError, match="wraps a flat environment"):
        cbg.NormalisedFeatures(gym.make("ClusteredBAI-Tiny-v0"))


def test_normalised_features_know_neither_shift_nor_scale() -> None:
    rng = np.random.default_rng(0)
    pulls = rng.integers(0, 5, (4, 3))
    means = np.where(pulls > 0, rng.random((4, 3)), 0.0)
    here = normalised_features(pulls, means, 0.5)
    there = normalised_features(pulls, np.where(pulls > 0, 3 + 7 * means, 0.0), 3.5)
    np.testing.assert_allclose(here, there, atol=1e-6)
    assert np.abs(here).max() <= 1
