"""What the stop of a flat environment recommends."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from scipy import stats

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.actions import empirical_best


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
