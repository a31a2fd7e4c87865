"""Do the agents of a block see each other? A local program must treat its rows independently."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from clustered_bandit_gym.errors import BudgetExceeded
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.seeds import Seed, global_seed, play_stream
from clustered_bandit_gym.game.source import OwnStreams
from clustered_bandit_gym.policy import Policy

if TYPE_CHECKING:
    from clustered_bandit_gym.envs.env import ClusteredBAIEnv

#: Key of the agents' own streams among those of a play.
_OWN = 3


def crosstalk(policy: Policy, env: ClusteredBAIEnv, instance_seed: Seed, play_seed: Seed) -> str:
    """Play once in ordinary blocks and once in blocks of one agent; what differs, or "" if nothing does.

    Every agent has its own stream of rewards, so that both plays must be the same unless a program lets the agents of
    a block use each other's rewards (it subtracts the mean of the block, say): information that was never sent. A play
    that runs out of budget shows nothing, since pulls are then made in another order.
    """
    # Twice in ordinary blocks: a policy that differs there is not reproducible, which says nothing about its blocks.
    first, second, alone = (
        _play(policy, env, instance_seed, play_seed, size) for size in (None, None, 1)
    )
    if first is None or second is None or alone is None or _differences(first, second):
        return ""
    return ", ".join(_differences(first, alone))


def _play(
    policy: Policy, env: ClusteredBAIEnv, instance_seed: Seed, play_seed: Seed, size: int | None
) -> dict[str, Any] | None:
    instance = env.draw_instance(instance_seed)
    federation = env.federation_on(
        instance, play_seed, OwnStreams(instance, play_stream(play_seed, _OWN))
    )
    federation.block_size = size
    error = ""
    try:
        # The same global seed in all plays: a policy that uses `np.random` is reproducible, too.
        with global_seed(0):
            arms = copy.deepcopy(policy).solve(cast(Federation, federation.view(strict=True)))
        if federation.judgement is None:
            federation.stop(arms)
    except BudgetExceeded:
        return None
    except Exception as raised:
        error = type(federation.failure or raised).__name__
    return {
        "error": error,
        "answers": None if federation.judgement is None else federation.judgement.arms,
        "pulls": federation.pulls_per_agent.copy(),
        "communication": federation.ledger.summary(),
    }


def _differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [name for name in one if not np.array_equal(one[name], other[name])]
