"""A scripted play of an environment, and what every environment owes over it."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from clustered_bandit_gym import PULL, STOP, Problem

#: What `info` holds after `reset`, and after each step.
PROBLEM_KEYS = set(Problem.__slots__)
OUTCOME_KEYS = {"sample", "stopped", "correct", "agent_correct", "wrong_agents", "best_arms"}
OUTCOME_KEYS |= {"pulls", "pulls_per_agent", "communication"}


def same_data(one: Any, other: Any) -> bool:
    """Whether nested dictionaries, lists and arrays are equal, types of arrays included."""
    try:
        np.testing.assert_equal(one, other, strict=True)
    except AssertionError:
        return False
    return True


def scripted_play(env: gym.Env[Any, Any], seed: int) -> list[Any]:
    """Everything that `reset` and `step` return over a fixed script of 25 pulls and a stop; ends
    early if the env does."""
    obs, info = env.reset(seed=seed)
    seen: list[Any] = [(obs, info)]
    n, k = info["n_agents"], info["n_arms"]
    actions: list[Any] = np.random.default_rng(seed).integers(n * k, size=25).tolist()
    if isinstance(env.action_space, spaces.Discrete):
        actions.append(n * k)
    else:
        actions = [(PULL, divmod(action, k)) for action in actions]
        actions.append((STOP, np.arange(n) % k))
    for action in actions:
        seen.append(env.step(action))
        if any(seen[-1][2:4]):
            break
    return seen


def check_clustered_env(env: gym.Env[Any, Any], seed: int = 0) -> None:
    """Check an environment of this kind: a `ClusteredBAIEnv`, wrapped or not, with composite or
    flat actions.

    Seeds and copies give the same play, `info` has its keys and hides the truth until the end,
    and counts add up. It must allow 25 pulls before it truncates.
    """
    copy = pickle.loads(pickle.dumps(env))  # our own object, made here
    first = scripted_play(env, seed)
    assert first[0][1].keys() >= PROBLEM_KEYS, f"info after reset lacks some of {PROBLEM_KEYS}"
    for number, (obs, reward, terminated, _, info) in enumerate(first[1:], start=1):
        assert obs in env.observation_space, f"step {number}: obs is outside its space"
        assert np.isfinite(reward), f"step {number}: the reward is {reward}"
        assert info.keys() >= OUTCOME_KEYS, f"step {number}: info lacks some of {OUTCOME_KEYS}"
        counts = {obs["pulls"].sum(), info["pulls"], info["pulls_per_agent"].sum()}
        assert counts == {min(number, 25)}, f"step {number}: pulls do not add up: {counts}"
        hidden = not info["stopped"] and (info["best_arms"] == -1).all()
        assert hidden or terminated, f"step {number}: info shows the outcome before the end"
    assert terminated, "the episode was truncated within 25 pulls: allow more"
    assert same_data(first, scripted_play(env, seed)), "the same seed and actions gave another play"
    assert same_data(first, scripted_play(copy, seed)), "a copy gave another play"
    assert not same_data(first, scripted_play(env, seed + 1)), "another seed gave the same play"
