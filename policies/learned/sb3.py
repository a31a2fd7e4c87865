"""The native vector environment as a Stable-Baselines3 `VecEnv`. Needs the extra `rl`."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from clustered_bandit_gym._types import Array, Values
from clustered_bandit_gym.envs.actions import action_mask, integers
from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv, row_of
from clustered_bandit_gym.errors import UnknownSetting, UserError, needs_extra
from clustered_bandit_gym.game.checks import check_choice
from clustered_bandit_gym.policies.learned.features import SIZE, TOP, Features, Seen

with needs_extra("rl"):
    from stable_baselines3.common.vec_env import VecEnv


class SB3VecEnv(VecEnv):
    """The native vector environment as a Stable-Baselines3 `VecEnv`.

    ```python
    env = cbg.SB3VecEnv("ClusteredBAI-Tiny-Box-v0", n_envs=64, pull_cost=0.01)
    env = VecMonitor(env, info_keywords=("pulls", "wrong_agents", "cost"))
    model = stable_baselines3.PPO("MlpPolicy", env)
    ```

    It takes the place of `DummyVecEnv`: actions and observations are those of the flat or Box variant
    of an id. As SB3 expects it, the observation after the end of an episode is the first one of the
    next, and the last one is in `infos[i]["terminal_observation"]`. Every `infos[i]` has the `sample`
    of the step. At the end of an episode it has all keys of the single environment's last `info`
    (`stopped`, `agent_correct`, `best_arms`, `communication`, ...), and the communication `cost`.
    `reset_infos` has what the learner was told at the start of each episode.

    Args:
        env_id: of an environment of this package.
        features: "auto" for those of `learned.features`, made from what the learner is told. With
            sizes s_0, s_1, ... in `pull_sizes` action i·TOP + r then orders s_i pulls of the cell of
            rank r; the last action stops and recommends the most probable arms. None passes on
            observations and actions as they are.
        n_envs: number of sub-environments.
        settings: of the environment.
    """

    def __init__(
        self,
        env_id: str,
        features: Literal["auto"] | None = None,
        *,
        n_envs: int = 64,
        **settings: Any,
    ) -> None:
        spec = gym.registry.get(env_id.rpartition(":")[2])
        if spec is None or "clustered_bandit_gym" not in str(spec.entry_point):
            raise UserError(
                f"{env_id} is not an environment of this package; `clustered-bai list` shows them"
            )
        check_choice("features", features, (None, "auto"))
        if features == "auto":  # they are made from counts and means, on Box ids as well
            settings["observation"] = "dict"
        if settings.get("render_mode") is not None:
            raise UserError("SB3VecEnv draws no pictures; gym.make(id, render_mode=...) does")
        try:
            self.envs = envs = ClusteredBAIVectorEnv(n_envs, **{**spec.kwargs, **settings})
        except UnknownSetting as error:
            raise error.among(SB3VecEnv) from None
        self.features = None
        space = envs.single_observation_space
        action_space = envs.single_action_space
        if features == "auto":
            problems = map(envs.game.problem_of, map(envs.game.draw_instance, range(8)))
            told = {(p.n_clusters, p.eta, p.sigma) for p in problems}
            if len(told) > 1:
                raise UserError(
                    "the environment tells another eta, sigma or number of clusters with every "
                    "instance, but training needs fixed ones: set them, e.g. "
                    'told={"eta": 0.1}, or None for not told'
                )
            self.features = Features(*told.pop())
            space = spaces.Box(-np.inf, np.inf, (SIZE,), np.float32)
            action_space = spaces.Discrete(TOP * len(envs.game.pull_sizes) + 1)
        super().__init__(n_envs, space, action_space)
        self._seen: Seen | None = None

    def reset(self) -> Any:
        seeds = None if self._seeds[0] is None else self._seeds
        # Options, if there are any, are refused there.
        obs, _ = self.envs.reset(seed=seeds, options=max(self._options, key=len))
        self._reset_seeds()
        self.reset_infos = [self.envs.told_of(i) for i in range(self.num_envs)]
        return self._look(obs)

    def step_async(self, actions: Array) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, Array, Array, list[Values]]:
        envs = self.envs
        actions = self._actions if self._seen is None else self._orders(self._actions, self._seen)
        rewards, terminated, truncated, values = envs.play(actions)
        dones = terminated | truncated
        infos: list[Values] = [{"sample": one} for one in values["sample"].tolist()]
        ended = dones.nonzero()[0]
        last = envs.observe(ended)
        if ended.size:
            envs.begin(ended)
        obs = envs.observe()
        if self.features is not None:  # one call for both takes half the time of two
            both = self._look({key: np.concatenate([obs[key], last[key]]) for key in obs})
            obs, last = np.split(both, [self.num_envs])
        for row, i in enumerate(ended.tolist()):
            info = row_of(values, i)
            infos[i] = info | {
                "cost": info["communication"]["cost"],
                "terminal_observation": row_of(last, row),
                "TimeLimit.truncated": truncated.item(i),
            }
            self.reset_infos[i] = envs.told_of(i)
        return obs, rewards.astype(np.float32), dones, infos

    def _orders(self, actions: Array, seen: Seen) -> Array:
        """Ranks of cells as flat actions; a stop recommends the most probable arms."""
        actions = integers(actions, (self.num_envs,), self.action_space.n)  # type: ignore[attr-defined]
        self.envs.recommendations = seen.arms[: self.num_envs]
        game = self.envs.game
        size, rank = np.divmod(actions, TOP)
        cells = seen.cells[np.arange(self.num_envs), rank]
        stops = actions == TOP * len(game.pull_sizes)
        return np.where(stops, game.stop_action, size * game.n_agents * game.n_arms + cells)

    def _look(self, obs: Any) -> Any:
        """What the learner sees of observations."""
        if self.features is None:
            return obs
        self._seen = self.features(obs["pulls"], obs["means"])
        return self._seen.features

    def action_masks(self) -> Array:
        """(num_envs, actions) booleans, for MaskablePPO: to stop, every agent must have a pull."""
        actions: Any = self.action_space
        return action_mask(actions.n, self.envs.pulls_per_agent).astype(bool)

    # --- SB3's calls to sub-environments: one object answers for all ------------------------------

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs.game, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise UserError(f"cannot set {attr_name}: make the environment with it")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        if method_name != "action_masks":
            raise UserError(f"cannot call {method_name} of single environments; use make_vec_env")
        return list(self.action_masks()[list(self._get_indices(indices))])

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]

    def close(self) -> None:
        self.envs.close()
