"""The native vector environment as a Stable-Baselines3 `VecEnv`: one object, no environment per copy. Needs `rl`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv
from clustered_bandit_gym.envs.vector_info import Ended
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.features import Features, Seen


class SB3VecEnv(VecEnv):
    """The native vector environment as a Stable-Baselines3 `VecEnv`.

    ```python
    env = cbg.SB3VecEnv("ClusteredBAI-Tiny-v0", n_envs=64, pull_cost=0.01)
    model = stable_baselines3.PPO("MultiInputPolicy", env, tensorboard_log="runs")
    model.learn(100_000, callback=LogOutcomes())
    ```

    It takes the place of `DummyVecEnv`: actions, observations and infos are those of the flat twin of an id, e.g.
    `ClusteredBAI-Tiny-Discrete-v0`. SB3 expects what Gymnasium calls same-step autoreset: the observation after the end
    of an episode is the first one of the next, the last one is in `infos[i]["terminal_observation"]`. At the end of an
    episode `infos[i]` also has `pulls`, `correct`, `wrong_agents` and `cost` (communication), for `VecMonitor(env,
    info_keywords=("pulls", "wrong_agents", "cost"))`, and `episode` with return and length as SB3's `Monitor` writes
    them.

    Args:
        envs: an id (flat or not), or a `ClusteredBAIVectorEnv` made with `autoreset_mode=AutoresetMode.SAME_STEP`.
        features: what observations are turned into, and the recommendations that go with the stop. None passes on
            the raw `pulls` and `means` (for `MultiInputPolicy`), and the stop recommends each agent's empirical best.
        n_envs: number of sub-environments, where an id is given.
        settings: of the environment, where an id is given; `render_mode="rgb_array"` for videos.
    """

    def __init__(
        self,
        envs: ClusteredBAIVectorEnv | str,
        features: Features | None = None,
        *,
        n_envs: int | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(envs, str):
            envs = _make(envs, 64 if n_envs is None else n_envs, settings)
        elif n_envs is not None or settings:
            raise UserError(
                "n_envs and settings need an environment id; a vector environment is already made"
            )
        if envs.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
            raise UserError(
                "SB3 expects autoreset in the step that ends an episode: make envs with autoreset_mode=SAME_STEP"
            )
        self.envs, self.features = envs, features
        self.metadata = envs.metadata
        space: spaces.Space[Any] = envs.single_observation_space
        if features is not None:
            space = spaces.Box(-np.inf, np.inf, (features.size,), np.float32)
        super().__init__(envs.num_envs, space, envs.single_action_space)
        self._actions: np.ndarray = np.zeros(envs.num_envs, dtype=np.int64)
        self._returns, self._lengths = (
            np.zeros(envs.num_envs),
            np.zeros(envs.num_envs, dtype=np.int64),
        )
        self._start = time.monotonic()
        self._seen: Seen | None = None
        self._obs: Any = None

    def reset(self) -> Any:
        seeds = None if all(seed is None for seed in self._seeds) else list(self._seeds)
        obs, _ = self.envs.reset(seed=seeds, options=self._merged_options())
        self._reset_seeds()
        self._reset_options()
        self._returns[:] = 0
        self._lengths[:] = 0
        self._obs = self._look(obs)
        return self._obs

    def _merged_options(self) -> dict[str, Any]:
        """What `set_options` has set, one dictionary for each sub-environment, as options of the vector environment."""
        keys = {key for options in self._options for key in options}
        missing = [key for key in keys if any(key not in options for options in self._options)]
        if missing:
            raise UserError(
                f"set_options: {', '.join(sorted(missing))} must be set for all sub-environments or none"
            )
        return {key: [options[key] for options in self._options] for key in keys}

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        if self._seen is not None:
            self.envs.recommendations = self._seen.arms
        rewards, terminated, truncated, ended = self.envs.advance(self._actions)
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if ended is not None:
            self._report(ended, infos)
        self._obs = self._look(self.envs.observe())
        return self._obs, rewards.astype(np.float32), terminated | truncated, infos

    def _look(self, obs: dict[str, np.ndarray]) -> Any:
        if self.features is None:
            return obs
        self._seen = self.features(obs["pulls"], obs["means"])
        return self._seen.features

    def _report(self, ended: Ended, infos: list[dict[str, Any]]) -> None:
        """Fill in the infos of the episodes that have ended."""
        which = ended.which
        last: Any
        if self.features is None:
            last = [
                {"pulls": pulls, "means": means}
                for pulls, means in zip(ended.pulls, ended.means, strict=True)
            ]
        else:
            # A stop leaves the observation as it was: only what a time limit has cut off must be looked at again.
            last = self._obs[which]
            cut = ~ended.stopped
            if cut.any():
                last[cut] = self.features(ended.pulls[cut], ended.means[cut]).features
        now = round(time.monotonic() - self._start, 6)
        cost = self.envs.cost(ended.n_pulls)
        rows = (
            a.tolist()
            for a in (
                which,
                self._returns[which],
                self._lengths[which],
                ended.stopped,
                ended.n_pulls,
            )
        )
        for i, total, length, stopped, pulls, wrong, price, seen in zip(
            *rows, ended.wrong.tolist(), cost.tolist(), last, strict=True
        ):
            infos[i] = {
                "terminal_observation": seen,
                "TimeLimit.truncated": not stopped,
                "episode": {"r": total, "l": length, "t": now},
                "pulls": pulls,
                "correct": stopped and wrong == 0,
                "wrong_agents": wrong,
                "cost": price,
            }
        self._returns[which] = 0
        self._lengths[which] = 0

    def action_masks(self) -> np.ndarray:
        """(num_envs, N·K + 1) booleans, for MaskablePPO."""
        return self.envs.action_masks()

    def mistakes(self) -> np.ndarray:
        """(num_envs, N) booleans: agents that a stop now would recommend a wrong arm. The truth: for training signals,
        not for observations. Needs features, which say what would be recommended."""
        if self._seen is None:
            raise UserError(
                "mistakes() needs features, which determine the recommendations; pass features="
            )
        return ~self.envs.are_best(self._seen.arms)

    def get_images(self) -> Sequence[np.ndarray | None]:
        """A frame of each sub-environment; `render()` tiles them."""
        frames = self.envs.render()
        if frames is None:
            raise UserError('cannot render: make the environment with render_mode="rgb_array"')
        return list(frames)

    # --- SB3's calls to sub-environments: one object answers for all -------------------------------------------

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs, attr_name)] * len(self._which(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        if len(self._which(indices)) < self.num_envs:
            raise UserError(
                "the sub-environments are one object: set an attribute for all of them (indices=None)"
            )
        setattr(self.envs, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
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


def _make(name: str, n_envs: int, settings: dict[str, Any]) -> ClusteredBAIVectorEnv:
    spec = gym.spec(name)
    if "clustered_bandit_gym" not in str(spec.entry_point):
        raise UserError(
            f"{name} is not an environment of this package; `clustered-bai list` shows them"
        )
    return ClusteredBAIVectorEnv(
        n_envs, autoreset_mode=AutoresetMode.SAME_STEP, **{**spec.kwargs, **settings}
    )


class LogOutcomes(BaseCallback):
    """Logs pulls, wrong agents, share of correct answers and communication cost, averaged over the episodes that ended
    since the last entry: in TensorBoard as `episode/pulls` and so on. For SB3VecEnv and for `make_vec_env` alike."""

    def __init__(self) -> None:
        super().__init__()
        self._ended: list[tuple[float, ...]] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "wrong_agents" in info:
                cost = info["cost"] if "cost" in info else info["communication"]["cost"]
                self._ended.append((info["pulls"], info["wrong_agents"], info["correct"], cost))
        return True

    def _on_rollout_end(self) -> None:
        if self._ended:
            names = ("pulls", "wrong_agents", "correct", "cost")
            for name, value in zip(names, np.mean(self._ended, axis=0).tolist(), strict=True):
                self.logger.record(f"episode/{name}", value)
            self._ended = []
