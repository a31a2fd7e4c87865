"""Training with Stable-Baselines3 on the native vector environment. Needs the extra `rl`.

Plain PPO with a plain network (`MlpPolicy`). What makes it learn is what it sees: `learned.features`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.player import require_rl


@dataclass(frozen=True)
class TrainSettings:
    """Everything a training run depends on.

    Attributes:
        env, env_kwargs: environment to train on.
        algo: "ppo" or "maskable-ppo".
        steps: environment steps in all.
        n_envs: sub-environments stepped at once.
        seed: of weights and training episodes.
        pull_cost, error_penalty: rewards lost with a pull and with each wrong agent. By default a
            wrong agent costs as much as 800 pulls: on Tiny that keeps the error rate near 1%.
        pulls_per_arm: an episode is answered after so many pulls for each arm of each agent.
        n_steps: steps of each sub-environment between updates, at most.
    """

    env: str = "ClusteredBAI-Tiny-v0"
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    algo: str = "ppo"
    steps: int = 500_000
    n_envs: int = 64
    seed: int = 0
    pull_cost: float = 0.01
    error_penalty: float = 8.0
    pulls_per_arm: int = 10
    n_steps: int = 128

    def __post_init__(self) -> None:
        if self.algo not in ("ppo", "maskable-ppo"):
            raise UserError(f"algo must be ppo or maskable-ppo, got {self.algo!r}")
        if "max_pulls" in self.env_kwargs:
            raise UserError("max_pulls is set by pulls_per_arm")


def train(
    settings: TrainSettings,
    out: str | os.PathLike[str] = "model.zip",
    *,
    overwrite: bool = False,
    progress: bool = True,
    trials: int = 2000,
) -> dict[str, float]:
    """Train and write the model to `out`; returns what `held_out` says of it.

    Args:
        overwrite: write `out` even if it is there already, instead of raising `ValueError`.
        progress: show a progress bar.
        trials: held-out episodes of the final validation.
    """
    require_rl()
    import torch

    file = Path(out)
    if file.suffix != ".zip" or not file.parent.is_dir():
        raise UserError(f"{file}: expected a name that ends in .zip in a folder that exists")
    if file.exists() and not overwrite:
        raise UserError(f"{file} exists: choose another file, or overwrite it")
    torch.set_num_threads(1)  # the networks are small: more threads only wait for each other
    env = make_vec_env(settings)
    model = make_model(settings, env)
    model.learn(settings.steps, progress_bar=progress)
    env.close()
    model.save(file)
    fresh = make_vec_env(settings, min(trials, 500))
    return held_out(chooser(model), fresh, trials, seed=1_000_003)


def make_vec_env(settings: TrainSettings, n_envs: int | None = None) -> Any:
    """The native vector environment of `settings.env` with features, as an SB3 `VecEnv`."""
    from clustered_bandit_gym.policies.learned.sb3 import SB3VecEnv

    env = SB3VecEnv(
        settings.env,
        "auto",
        n_envs=n_envs or settings.n_envs,
        pull_cost=settings.pull_cost,
        error_penalty=settings.error_penalty,
        **settings.env_kwargs,
    )
    game = env.envs.game
    game.limit = settings.pulls_per_arm * game.n_agents * game.n_arms
    env.seed(settings.seed)
    return env


def make_model(settings: TrainSettings, env: Any) -> Any:
    """An untrained model of `settings.algo`."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import PPO

    kind: Any = PPO if settings.algo == "ppo" else MaskablePPO
    n_steps = min(settings.n_steps, ceil(settings.steps / settings.n_envs))
    return kind(
        "MlpPolicy",
        env,
        n_steps=n_steps,
        batch_size=min(2048, n_steps * settings.n_envs),
        n_epochs=4,
        gamma=1.0,  # all pulls count alike
        ent_coef=0.005,
        learning_rate=lambda left: 1e-3 * left,
        seed=settings.seed,
        device="cpu",
    )


#: Observations (E, ...) and masks (E, actions) -> actions (E,).
Chooser = Callable[[np.ndarray, np.ndarray], np.ndarray]


def chooser(model: Any) -> Chooser:
    """The deterministic policy of an SB3 model."""
    from sb3_contrib import MaskablePPO

    def choose(observations: np.ndarray, masks: np.ndarray) -> np.ndarray:
        more = {"action_masks": masks} if isinstance(model, MaskablePPO) else {}
        return np.asarray(model.predict(observations, deterministic=True, **more)[0])

    return choose


def held_out(choose: Chooser, envs: Any, trials: int, seed: int) -> dict[str, float]:
    """Mean return, mean pulls and share of wrong episodes in `trials` episodes of an `SB3VecEnv`."""
    envs.seed(seed)
    obs = envs.reset()
    # All sub-environments play equally many episodes: the first ones to end are the short ones.
    rest = np.full(envs.num_envs, -(-trials // envs.num_envs))
    rows = []
    while rest.any():
        obs, _, dones, infos = envs.step(choose(obs, envs.action_masks()))
        for i in np.flatnonzero(dones & (rest > 0)).tolist():
            rest[i] -= 1
            info = infos[i]
            rows.append((info["episode"]["r"], info["pulls"], not info["correct"]))
    returns, pulls, wrong = np.mean(rows, axis=0).tolist()
    return {"return": returns, "pulls": pulls, "error_rate": wrong}
