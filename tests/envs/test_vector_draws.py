"""Draws of the vector environment: of the law of the single environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import scipy.stats
from vector_plays import ID, scripted

import clustered_bandit_gym as cbg


def play_through(seed: int | list[int], steps: int = 80) -> list[Any]:
    envs = gym.make_vec(ID, num_envs=3, generator="tiny", max_pulls=30)
    trace = [envs.reset(seed=seed)[0]["means"]]
    for action in scripted(np.random.default_rng(2), 3, 13, steps):
        trace.append(envs.step(action)[0]["means"])
    return trace


def test_the_seed_determines_everything() -> None:
    for seed in (3, [3, 4, 5]):
        np.testing.assert_array_equal(play_through(seed), play_through(seed))
    # Neighbouring seeds share no draw, in any sub-environment: nonzero means of the first steps are all different.
    first, second = np.array(play_through(3)), np.array(play_through(4))
    assert not np.intersect1d(first[first != 0], second[second != 0]).size


def test_rewards_and_instances_have_the_law_of_the_single_environment() -> None:
    """Over autoresets. Each test has a fixed seed and fails by chance with probability below 1e-9."""
    envs = cbg.ClusteredBAIVectorEnv(num_envs=500, generator="tiny", max_pulls=2)
    envs.reset(seed=8)
    noise, best, together = [], [], []
    rng = np.random.default_rng(0)
    for _ in range(6):
        action = rng.integers(12, size=500)
        samples = envs.step(action)[4]["sample"]
        truth = [envs.instance(i) for i in range(500)]
        agents, arms = np.divmod(action, 3)
        means = np.array(
            [one.means[one.clusters[a], k] for one, a, k in zip(truth, agents, arms, strict=True)]
        )
        noise.append((samples - means) / 0.4)
        best += [one.means.max(axis=1) for one in truth]
        together += [one.clusters[0] == one.clusters[1] for one in truth]
        envs.step(action)  # the second pull truncates
        envs.step(action)  # and this step resets
    assert scipy.stats.kstest(np.concatenate(noise), "norm").pvalue > 1e-9
    # Best means are U(0.5, 1); two of four agents in two clusters of two are together with probability 1/3.
    assert scipy.stats.kstest(np.concatenate(best), "uniform", (0.5, 0.5)).pvalue > 1e-9
    assert scipy.stats.binomtest(int(np.sum(together)), len(together), 1 / 3).pvalue > 1e-9


def test_ties_are_broken_at_random() -> None:
    """Stops without a pull guess: each arm is as likely. False alarms below 1e-9."""
    envs = cbg.ClusteredBAIVectorEnv(num_envs=2000, instance=cbg.Instance(np.eye(2), [0, 1, 1]))
    envs.reset(seed=0)
    right = envs.step(np.full(2000, 6))[4]["agent_correct"]
    assert scipy.stats.binomtest(int(right.sum()), right.size, 0.5).pvalue > 1e-9
