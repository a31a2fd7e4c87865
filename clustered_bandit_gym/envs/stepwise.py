"""Other ways to play a `Policy`: through `env.step`, and in blocks of one agent."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.errors import BudgetExceeded, PlayOver
from clustered_bandit_gym.game.pulls import OwnStreams
from clustered_bandit_gym.game.seeds import Seed, global_seed, play_stream
from clustered_bandit_gym.policy import PULL, STOP, Policy


def play_stepwise(
    policy: Policy,
    env: gym.Env[Any, Any],
    seed: int | None = None,
    *,
    strict: bool = False,
    **seeds: Seed,
) -> Values:
    """Play a `Policy` through `env.step`, one pull at a time and through all wrappers; returns the
    last `info`.

    Pulls are the agents' own (`local_pulls`), so the bill is the policy's: results have the law of
    a play without an environment. Flat actions cannot name recommendations: a flat environment is
    played without its wrappers. Raises `BudgetExceeded` where `max_pulls`, or a wrapper's time
    limit, ends the episode first. For `strict` see `FederationView`; `seeds` are `instance_seed` and
    `play_seed` of `reset`.
    """
    core: Any = env.unwrapped
    composite = isinstance(env.action_space, spaces.OneOf)
    reset = env.reset if composite else partial(ClusteredBAIEnv.reset, core)
    make_step = env.step if composite else partial(ClusteredBAIEnv.step, core)
    reset(seed=seed, options={"local_pulls": True, **seeds})
    federation = core.federation

    def step(agent: int, arm: int) -> float:
        _, _, terminated, truncated, info = make_step((PULL, (agent, arm)))
        if terminated or truncated:
            raise BudgetExceeded(
                f"the environment ended the episode after {federation.pulls:,} pulls"
            )
        return float(info["sample"])

    with federation.stepping(step):
        arms = policy.solve(federation.view(strict, policy))
    if federation.judgement is not None:
        raise PlayOver(
            "the policy stopped the play itself; a policy that is played stepwise returns its arms"
        )
    info: Values = make_step((STOP, arms))[4]
    return info


def crosstalk(policy: Policy, env: ClusteredBAIEnv, instance_seed: Seed, play_seed: Seed) -> str:
    """Play once in ordinary blocks and once in blocks of one agent; names what differs, or "".

    Every agent has its own stream of rewards, so that both plays must be the same unless a program
    lets the agents of a block use each other's rewards (it subtracts the mean of the block, say):
    information that was never sent. An ordinary play that runs out of budget shows nothing, since
    pulls are then made in another order. A policy whose ordinary plays differ is not reproducible,
    which says nothing about its blocks.
    """

    def play(block_size: int | None) -> Values:
        instance = env.draw_instance(instance_seed)
        source = OwnStreams(instance, play_stream(play_seed, 3))  # a stream that no play uses
        federation = env.federation_on(instance, play_seed, source)
        federation.block_size = block_size
        error = ""
        try:
            # The same global seed in all plays: a policy that uses `np.random` is reproducible.
            with global_seed(0):
                arms = copy.deepcopy(policy).solve(federation.view(True, policy))
            if federation.answer is None:
                federation.stop(arms)
        except BudgetExceeded:
            return {}
        except Exception as raised:
            error = type(federation.failure or raised).__name__
        return {
            "error": error,
            "answers": federation.answer,
            "pulls": federation.pulls_per_agent,
            "communication": federation.ledger.summary(),
        }

    first = play(None)
    second = play(None)
    alone = play(1)
    if not first or _differences(first, second):
        return ""
    return ", ".join(_differences(first, alone))


def _differences(one: Values, other: Values) -> list[str]:
    return [name for name in one if not np.array_equal(one[name], other.get(name, 0))]
