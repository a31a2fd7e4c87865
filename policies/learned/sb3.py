"""The native vector environment as a Stable-Baselines3 `VecEnv`: one object, no environment per copy. Needs `rl`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv

from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.features import Features, Seen


class SB3VecEnv(VecEnv):
    """Steps a `ClusteredBAIVectorEnv` for SB3.

    SB3 expects what Gymnasium calls same-step autoreset: the observation after the end of an episode is the first one
    of the next, the last one is in `infos[i]["terminal_observation"]`. `infos[i]["episode"]` holds return and length
    as SB3's `Monitor` would write them, `infos[i]["outcome"]` pulls, correctness and wrong agents.

    Args:
        envs: made with `autoreset_mode=AutoresetMode.SAME_STEP`.
        features: what observations are turned into, and the recommendations that go with the stop. None hands on
            the raw `pulls` and `means` (for `MultiInputPolicy`), and the stop recommends each agent's empirical best.
    """

    def __init__(self, envs: ClusteredBAIVectorEnv, features: Features | None = None) -> None:
        if envs.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
            raise UserError("SB3 expects autoreset at the step that ends an episode: autoreset_mode=SAME_STEP")
        self.envs, self.features = envs, features
        space: spaces.Space[Any] = envs.single_observation_space
        if features is not None:
            space = spaces.Box(-np.inf, np.inf, (features.size,), np.float32)
        super().__init__(envs.num_envs, space, envs.single_action_space)
        self._actions: np.ndarray = np.zeros(envs.num_envs, dtype=np.int64)
        self._returns, self._lengths = np.zeros(envs.num_envs), np.zeros(envs.num_envs, dtype=np.int64)
        self._start = time.monotonic()
        self._seen: Seen | None = None
        self._obs: Any = None

    def reset(self) -> Any:
        seeds = None if all(seed is None for seed in self._seeds) else list(self._seeds)
        obs, _ = self.envs.reset(seed=seeds)
        self._reset_seeds()
        self._reset_options()
        self._returns[:] = 0
        self._lengths[:] = 0
        self._obs = self._look(obs)
        return self._obs

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        if self._seen is not None:
            self.envs.recommendations = self._seen.arms
        obs, rewards, terminated, truncated, info = self.envs.step(self._actions)
        self._returns += rewards
        self._lengths += 1
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            self._report(np.flatnonzero(done), truncated & ~terminated, info, infos)
        self._obs = self._look(obs)
        return self._obs, rewards.astype(np.float32), done, infos

    def _look(self, obs: dict[str, np.ndarray]) -> Any:
        if self.features is None:
            return obs
        self._seen = self.features(obs["pulls"], obs["means"])
        return self._seen.features

    def _report(self, ended: np.ndarray, truncated: np.ndarray, info: dict[str, Any], infos: list[Any]) -> None:
        """Fill in the infos of the episodes that have ended."""
        final, result = info["final_obs"], info["final_info"]
        cut = np.flatnonzero(truncated)
        last: Any
        if self.features is None:
            last = {i: final[i] for i in ended}
        else:
            # A stop leaves the observation as it was: only what a time limit has cut off must be looked at again.
            last = {i: self._obs[i] for i in ended}
            if cut.size:
                pulls, means = (np.stack([final[i][key] for i in cut]) for key in ("pulls", "means"))
                last |= dict(zip(cut, self.features(pulls, means).features, strict=True))
        now = round(time.monotonic() - self._start, 6)
        for i in ended:
            infos[i] = {
                "terminal_observation": last[i],
                "TimeLimit.truncated": bool(truncated[i]),
                "episode": {"r": float(self._returns[i]), "l": int(self._lengths[i]), "t": now},
                "outcome": {key: result[key][i] for key in ("pulls", "correct", "wrong_agents")},
            }
        self._returns[ended] = 0
        self._lengths[ended] = 0

    def action_masks(self) -> np.ndarray:
        """(num_envs, N·K + 1) booleans, for MaskablePPO."""
        return self.envs.action_masks()

    # --- what SB3 asks of sub-environments: there is one object, it answers for all --------------------------------

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs, attr_name)] * len(self._which(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        if len(self._which(indices)) < self.num_envs:
            raise UserError("the sub-environments are one object: an attribute can be set for all of them only")
        setattr(self.envs, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        answer = getattr(self.envs, method_name)(*method_args, **method_kwargs)
        which = self._which(indices)
        if isinstance(answer, np.ndarray) and len(answer) == self.num_envs:
            return [answer[i] for i in which]
        return [answer] * len(which)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        # SB3 asks whether there is a Monitor, which would write the "episode" entry that is written here.
        from stable_baselines3.common.monitor import Monitor

        return [wrapper_class is Monitor] * len(self._which(indices))

    def close(self) -> None:
        self.envs.close()

    def _which(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))
