"""The native vector environment as a Stable-Baselines3 `VecEnv`: one object, no environment per copy. Needs `rl`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from clustered_bandit_gym.envs.game import GameSettings
from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv
from clustered_bandit_gym.envs.vector_info import Ended, Step
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.features import TOP, Features, Seen


class SB3VecEnv(VecEnv):
    """The native vector environment as a Stable-Baselines3 `VecEnv`.

    ```python
    env = cbg.SB3VecEnv("ClusteredBAI-Tiny-Box-v0", n_envs=64, pull_cost=0.01)
    model = stable_baselines3.PPO("MlpPolicy", env, tensorboard_log="runs")
    model.learn(100_000, callback=LogOutcomes())
    ```

    It takes the place of `DummyVecEnv`: actions and observations are those of the flat or Box variant of an id. SB3
    expects what Gymnasium calls same-step autoreset: the observation after the end of an episode is the first one of
    the next, the last one is in `infos[i]["terminal_observation"]`. Every `infos[i]` has the `sample` of the step. At
    the end of an episode it has all keys of the single environment's last `info`, the communication `cost` beside
    them, for `VecMonitor(env, info_keywords=("pulls", "wrong_agents", "cost"))`, and `episode` with return and length
    as SB3's `Monitor` writes them. `reset_infos` has what the learner was told at the start of each episode.

    Args:
        envs: an id, or a `ClusteredBAIVectorEnv` made with `autoreset_mode=AutoresetMode.SAME_STEP`.
        features: what observations are turned into (`learned.features`). Action r < TOP then pulls the cell of rank
            r, action TOP stops and recommends the most probable arms. "auto" makes them from what the learner is told.
            None passes on observations and actions as they are.
        n_envs: number of sub-environments, where an id is given.
        settings: of the environment, where an id is given; `render_mode="rgb_array"` for videos.
    """

    def __init__(
        self,
        envs: ClusteredBAIVectorEnv | str,
        features: Features | Literal["auto"] | None = None,
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
        if features == "auto":
            features = features_of(envs.game)
        self.envs, self.features = envs, features
        self.metadata = envs.metadata
        space: spaces.Space[Any] = envs.single_observation_space
        action_space = envs.single_action_space
        if features is not None:
            space = spaces.Box(-np.inf, np.inf, (features.size,), np.float32)
            action_space = spaces.Discrete(TOP + 1)
        super().__init__(envs.num_envs, space, action_space)
        self.render_mode = envs.render_mode
        self._actions: np.ndarray = np.zeros(envs.num_envs, dtype=np.int64)
        self._returns = np.zeros(envs.num_envs)
        self._lengths = np.zeros(envs.num_envs, dtype=np.int64)
        self._start = time.monotonic()
        self._seen: Seen | None = None

    def reset(self) -> Any:
        seeds = None if all(seed is None for seed in self._seeds) else list(self._seeds)
        obs, _ = self.envs.reset(seed=seeds, options=self._merged_options())
        self._reset_seeds()
        self._reset_options()
        self._returns[:] = 0
        self._lengths[:] = 0
        self.reset_infos = list(self.envs.told)
        return self._look(obs)

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
        actions = self._actions
        if self._seen is not None:
            self.envs.recommendations = self._seen.arms
            rank = np.minimum(actions, TOP - 1)[:, None]
            chosen = np.take_along_axis(self._seen.cells, rank, axis=1)[:, 0]
            actions = np.where(actions == TOP, self.envs.game.actions.stop, chosen)
        step = self.envs.advance(actions)
        self._returns += step.rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{"sample": one} for one in step.samples.tolist()]
        if step.ended is not None:
            self._report(step, step.ended, infos)
        obs = self._look(self.envs.observe())
        return obs, step.rewards.astype(np.float32), step.terminated | step.truncated, infos

    def _look(self, obs: dict[str, np.ndarray]) -> Any:
        if self.features is None:
            return obs
        self._seen = self.features(obs["pulls"], obs["means"])
        return self._seen.features

    def _report(self, step: Step, ended: Ended, infos: list[dict[str, Any]]) -> None:
        """Fill in the infos of the episodes that have ended."""
        which = ended.which
        last = (
            self.envs.last_observations(ended)
            if self.features is None
            else list(self.features(ended.pulls, ended.means).features)
        )
        now = round(time.monotonic() - self._start, 6)
        cut = np.asarray(step.truncated & ~step.terminated)[which]
        correct = np.asarray(ended.right.all(axis=1))
        for row, i in enumerate(which.tolist()):
            communication = {key: one.item(row) for key, one in ended.communication.items()}
            infos[i] |= {
                "terminal_observation": last[row],
                "TimeLimit.truncated": bool(cut[row]),
                "episode": {"r": float(self._returns[i]), "l": int(self._lengths[i]), "t": now},
                "stopped": bool(ended.stopped[row]),
                "correct": bool(correct[row]),
                "agent_correct": ended.right[row],
                "wrong_agents": int(ended.wrong[row]),
                "pulls": int(ended.n_pulls[row]),
                "pulls_per_agent": ended.pulls[row].sum(axis=1),
                "communication": communication,
                "best_arms": ended.best_arms[row],
                "cost": communication["cost"],
            }
            self.reset_infos[i] = self.envs.told[i]
        self._returns[which] = 0
        self._lengths[which] = 0

    def action_masks(self) -> np.ndarray:
        """(num_envs, actions) booleans, for MaskablePPO: to stop, every agent must have a pull."""
        masks = self.envs.action_masks()
        return masks if self.features is None else masks[:, -TOP - 1 :]

    def get_images(self) -> Sequence[np.ndarray | None]:
        """A frame of each sub-environment; `render()` tiles them."""
        frames = self.envs.render()
        if frames is None:
            raise UserError('cannot render: make the environment with render_mode="rgb_array"')
        return list(frames)

    # --- SB3's calls to sub-environments: one object answers for all -------------------------------------------

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        owner = self.envs if hasattr(self.envs, attr_name) else self.envs.game
        return [getattr(owner, attr_name)] * len(self._which(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        if len(self._which(indices)) < self.num_envs:
            raise UserError(
                "the sub-environments are one object: set an attribute for all of them (indices=None)"
            )
        setattr(self.envs if hasattr(self.envs, attr_name) else self.envs.game, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        owner = self if method_name == "action_masks" else self.envs
        answer = getattr(owner, method_name)(*method_args, **method_kwargs)
        which = self._which(indices)
        if isinstance(answer, np.ndarray) and len(answer) == self.num_envs:
            return [answer[i] for i in which]
        return [answer] * len(which)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * len(self._which(indices))

    def close(self) -> None:
        self.envs.close()

    def _which(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))


def features_of(game: GameSettings) -> Features:
    """The features of an environment that tells its learner the same in every episode."""
    told = [game.problem_of(game.draw_instance(seed)) for seed in range(8)]
    if len({(one.n_clusters, one.eta, one.sigma) for one in told}) > 1:
        raise UserError(
            "the environment tells another eta, sigma or number of clusters with every instance, but training "
            'needs fixed ones: set them, e.g. told={"eta": 0.1}, or None for not told'
        )
    one = told[0]
    return Features(one.n_agents, one.n_arms, one.n_clusters, one.eta, one.sigma)


def _make(name: str, n_envs: int, settings: dict[str, Any]) -> ClusteredBAIVectorEnv:
    spec = gym.spec(name)
    if "clustered_bandit_gym" not in str(spec.entry_point):
        raise UserError(
            f"{name} is not an environment of this package; `clustered-bai list` shows them"
        )
    kwargs = {**spec.kwargs, **settings}
    return ClusteredBAIVectorEnv(n_envs, autoreset_mode=AutoresetMode.SAME_STEP, **kwargs)


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
