"""How an episode begins and ends, for the single and the vector environment alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Ints

Seed = int | np.random.SeedSequence


def episode_seeds(rng: np.random.Generator) -> tuple[np.random.SeedSequence, np.random.SeedSequence]:
    """Seeds of the next episode's instance and rewards, from the environment's own generator: 128 fresh bits each."""
    words = rng.integers(2**32, size=8, dtype=np.uint32).tolist()
    return np.random.SeedSequence(words[:4]), np.random.SeedSequence(words[4:])


def outcome(
    instance: Instance, arms: Ints | None, pulls_per_agent: Ints, communication: dict[str, Any]
) -> dict[str, Any]:
    """`info` at the end of an episode; `arms` (N,) is what was recommended, None for a truncated one."""
    if arms is None:
        right = np.zeros(instance.n_agents, dtype=np.bool_)
    else:
        right = instance.is_best[instance.clusters, arms]
    return {
        "stopped": arms is not None,
        "correct": bool(right.all()),
        "agent_correct": right,
        "wrong_agents": 0 if arms is None else int(right.size - right.sum()),
        "pulls": int(pulls_per_agent.sum()),
        "pulls_per_agent": pulls_per_agent,
        "communication": communication,
        "best_arms": instance.agent_best_arms.copy(),
    }
