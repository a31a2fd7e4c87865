"""Flat actions, for libraries that know no composite action spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.actions import whole
from clustered_bandit_gym.envs.env import ClusteredBAIEnv, Obs
from clustered_bandit_gym.policy import PULL, STOP


class DiscreteActions(gym.Wrapper[Obs, Any, Obs, Any], gym.utils.RecordConstructorArgs):
    """`Discrete(N*K + 1)`: action `agent * K + arm` pulls, the last stops and recommends each agent's empirical best.

    The recommendation comes from the observation. Ties, and agents without a pull, are decided by a fair draw: an arm's
    index must not tell anything. `action_masks` forbids to stop before every agent has a pull, which libraries with
    masks (MaskablePPO) make use of; without masks an early stop is legal, and a guess.
    """

    def __init__(self, env: gym.Env[Obs, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        core = env.unwrapped
        if not isinstance(core, ClusteredBAIEnv):
            raise TypeError(f"DiscreteActions wraps a ClusteredBAIEnv, got {type(core).__name__}")
        self._core = core
        self._n_arms, self._stop = core.n_arms, core.n_agents * core.n_arms
        self.action_space = spaces.Discrete(self._stop + 1)

    def step(self, action: int) -> tuple[Obs, Any, bool, bool, dict[str, Any]]:
        number = action if type(action) is int else whole(action, "a flat action")
        if 0 <= number < self._stop:
            return self.env.step((PULL, divmod(number, self._n_arms)))
        if number != self._stop:
            raise ValueError(f"action {number} is out of range: agent * {self._n_arms} + arm pulls, {self._stop} stops")
        core = self._core
        return self.env.step((STOP, empirical_best(*core.seen, lambda: core.federation.rng)))

    def action_masks(self) -> np.ndarray:
        """(N*K + 1,) booleans: which actions make sense now."""
        mask = np.ones(self._stop + 1, dtype=np.bool_)
        mask[-1] = self._core.seen[0].any(axis=1).all()
        return mask


def empirical_best(pulls: Ints, means: Floats, rng: Callable[[], np.random.Generator]) -> Ints:
    """(N,) the arm with the largest average among those pulled, from `pulls` and `means` (N, K).

    Ties are broken by `rng()`, which is called only where there are any.
    """
    seen = np.where(pulls > 0, means, -np.inf)
    tied = seen == seen.max(axis=1, keepdims=True)
    if np.count_nonzero(tied) > len(tied):
        return (tied * (1 - rng().random(tied.shape))).argmax(axis=1)
    return tied.argmax(axis=1)


def make_discrete(**kwargs: Any) -> DiscreteActions:
    """`ClusteredBAI-Discrete-v0`: a `ClusteredBAIEnv` with these settings, with flat actions."""
    return DiscreteActions(ClusteredBAIEnv(**kwargs))


# Gymnasium looks for the render modes on what it is given to call.
make_discrete.metadata = ClusteredBAIEnv.metadata  # type: ignore[attr-defined]
