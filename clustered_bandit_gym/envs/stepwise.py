"""A `Policy` played through `env.step`, one pull at a time."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import gymnasium as gym
from gymnasium import spaces

from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.errors import BudgetExceeded, PlayOver
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.seeds import Seed
from clustered_bandit_gym.policy import PULL, STOP, Policy


def play_stepwise(
    policy: Policy,
    env: gym.Env[Any, Any],
    seed: int | None = None,
    *,
    instance_seed: Seed | None = None,
    play_seed: Seed | None = None,
    strict: bool = False,
) -> dict[str, Any]:
    """Play a `Policy` through `env.step`, one pull at a time and through all wrappers; returns the last `info`.

    Pulls are the agents' own (`local_pulls`), so the bill is the policy's: results have the law of a play without an
    environment. Flat actions cannot name recommendations: a flat environment is played without its wrappers.
    Raises `BudgetExceeded` where `max_pulls`, or a wrapper's time limit, ends the episode first. For `strict` see
    `FederationView`.
    """
    core = env.unwrapped
    if not isinstance(core, ClusteredBAIEnv):
        raise TypeError(f"expected a ClusteredBAIEnv, wrapped or not, got {env}")
    composite = isinstance(env.action_space, spaces.OneOf)
    reset = env.reset if composite else partial(ClusteredBAIEnv.reset, core)
    make_step = env.step if composite else partial(ClusteredBAIEnv.step, core)
    options: dict[str, Any] = {"local_pulls": True}
    if instance_seed is not None:
        options["instance_seed"] = instance_seed
    if play_seed is not None:
        options["play_seed"] = play_seed
    reset(seed=seed, options=options)
    federation = core.federation
    over = False

    def step(agent: int, arm: int) -> float:
        nonlocal over
        if over:
            raise BudgetExceeded(
                f"the environment ended the episode after {federation.pulls:,} pulls"
            )
        _, _, terminated, truncated, info = make_step((PULL, (agent, arm)))
        over = bool(terminated or truncated)
        return float(info["sample"])

    with federation.stepping(step):
        arms = policy.solve(cast(Federation, federation.view(strict)))
    if over:
        raise BudgetExceeded(f"the environment ended the episode after {federation.pulls:,} pulls")
    if federation.judgement is not None:
        raise PlayOver(
            "the policy stopped the play itself; a policy that is played stepwise returns its arms"
        )
    return make_step((STOP, arms))[4]
