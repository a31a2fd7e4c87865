"""Flat actions for environments of one's own."""

from __future__ import annotations

import gymnasium as gym
import pytest
from scripted import same_data

import clustered_bandit_gym as cbg

INSTANCE = cbg.Instance([[0.9, 0.1, 0.2], [0.1, 0.8, 0.3]], [0, 1])


def test_flat_actions_are_the_composite_ones() -> None:
    flat = cbg.DiscreteActions(gym.make("ClusteredBAI-v0", instance=INSTANCE))
    plain = gym.make("ClusteredBAI-v0", instance=INSTANCE)
    assert flat.action_space == gym.spaces.Discrete(7)
    assert same_data(flat.reset(seed=4), plain.reset(seed=4))
    for action in range(6):
        assert same_data(flat.step(action), plain.step((cbg.PULL, divmod(action, 3))))
    obs, _, _, _, info = flat.step(6)
    other = plain.step((cbg.STOP, obs["means"].argmax(axis=1)))[4]
    assert same_data(info, other)


def test_masks() -> None:
    env = cbg.DiscreteActions(cbg.ClusteredBAIEnv(INSTANCE))
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True] * 6 + [False]
    env.step(0)
    assert not env.action_masks()[-1]
    env.step(5)
    assert env.action_masks().all()


def test_wraps_this_kind_only() -> None:
    with pytest.raises(TypeError, match="ClusteredBAIEnv"):
        cbg.DiscreteActions(gym.make("CartPole-v1"))
