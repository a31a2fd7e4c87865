"""Flat actions."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.actions import empirical_best
from clustered_bandit_gym.testing import same_data

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


def test_recommendation_ignores_arms_without_pulls() -> None:
    """An arm that was never pulled shows 0 in the observation, which beats a negative average."""
    pulls, means = np.array([[1, 0, 2], [0, 3, 0]]), np.array([[-0.5, 0.0, -0.2], [0.0, -4.0, 0.0]])
    assert empirical_best(pulls, means, np.random.default_rng()).tolist() == [2, 1]


def test_ties_are_broken_fairly() -> None:
    """Uniform over the tied arms, agent by agent. χ² tests, false alarms below 1e-9 each."""
    rng = np.random.default_rng(0)
    pulls = np.array([[2, 2, 2, 0], [0, 0, 0, 0]])
    means = np.array([[0.5, 0.5, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0]])
    arms = np.array([empirical_best(pulls, means, rng) for _ in range(3000)])
    first, second = (np.bincount(column, minlength=4) for column in arms.T)
    assert first[2:].tolist() == [0, 0]
    assert stats.chisquare(first[:2]).pvalue > 1e-9
    assert stats.chisquare(second).pvalue > 1e-9


def test_an_early_stop_is_a_guess() -> None:
    """Without a pull a third of the answers are right, whichever arms are best. False alarm below 1e-9."""
    env = gym.make("ClusteredBAI-Discrete-v0", instance=cbg.Instance(np.eye(3), [0, 1, 2]))
    right = np.zeros(3, dtype=int)
    env.reset(seed=0)
    for _ in range(600):
        right += env.step(9)[4]["agent_correct"]
        env.reset()
    assert min(stats.binomtest(int(count), 600, 1 / 3).pvalue for count in right) > 1e-9


def test_wraps_this_kind_only() -> None:
    with pytest.raises(TypeError, match="ClusteredBAIEnv"):
        cbg.DiscreteActions(gym.make("CartPole-v1"))
