"""`DiscreteActions`: flat actions for a composite environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from clustered_bandit_gym.envs.actions import empirical_best, whole
from clustered_bandit_gym.envs.env import ClusteredBAIEnv, Obs
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policy import PULL, STOP


class DiscreteActions(gym.Wrapper[Obs, Any, Obs, Any], gym.utils.RecordConstructorArgs):
    """`Discrete(N*K + 1)`: action `agent * K + arm` pulls, the last stops and recommends each agent's empirical best.

    The recommendation comes from the observation. Ties, and agents without a pull, are decided by a fair draw: an arm's
    index carries no information. `action_masks` excludes the stop until every agent has a pull, for libraries with
    masks (MaskablePPO); without masks an early stop is legal, and a guess.
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
            raise UserError(
                f"action {number} is out of range: agent * {self._n_arms} + arm pulls, {self._stop} stops"
            )
        core = self._core
        return self.env.step((STOP, empirical_best(*core.seen, lambda: core.federation.rng)))

    def action_masks(self) -> np.ndarray:
        """(N*K + 1,) booleans: which actions make sense now."""
        mask = np.ones(self._stop + 1, dtype=np.bool_)
        mask[-1] = self._core.seen[0].any(axis=1).all()
        return mask
