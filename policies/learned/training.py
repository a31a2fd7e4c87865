"""Training with Stable-Baselines3 on the native vector environment. Needs `pip install clustered-bandit-gym[rl]`.

Plain algorithms with plain networks (`MlpPolicy`). What makes them learn is what they see: `learned.features`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.player import require_rl

ALGOS = ("ppo", "maskable-ppo", "a2c", "dqn")
#: Seed of the held-out instances of `validate`.
VALIDATION_SEED = 1_000_003


@dataclass(frozen=True)
class TrainSettings:
    """Everything a training run depends on.

    Attributes:
        env, env_kwargs: environment to train on.
        algo: one of `ALGOS`.
        steps: environment steps in all.
        n_envs: sub-environments stepped at once.
        seed: of weights and training episodes.
        pull_cost, error_penalty: rewards lost with a pull and with each wrong agent. By default a wrong agent costs as
            much as 800 pulls: on Tiny that keeps the error rate near 1%.
        pulls_per_arm: an episode is cut off after so many pulls for each arm of each agent, and answered.
        width: units in each of the two layers.
        learning_rate: at the start; falls linearly to 0.
        entropy: weight of the entropy bonus (not for dqn).
        n_steps, batch_size, n_epochs: of PPO: steps of each sub-environment between updates, samples in a minibatch,
            passes over each batch of experience.
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
    width: int = 64
    learning_rate: float = 1e-3
    entropy: float = 0.005
    n_steps: int = 128
    batch_size: int = 2048
    n_epochs: int = 4

    def __post_init__(self) -> None:
        if self.algo not in ALGOS:
            raise UserError(f"algo must be one of {', '.join(ALGOS)}, got {self.algo!r}")
        counts = ("steps", "n_envs", "pulls_per_arm", "width", "n_steps", "batch_size", "n_epochs")
        for name in counts:
            value = getattr(self, name)
            if isinstance(value, bool) or value != int(value) or value < 1:
                raise UserError(f"{name} must be a whole number >= 1, got {value!r}")
        if isinstance(self.seed, bool) or self.seed != int(self.seed) or self.seed < 0:
            raise UserError(f"seed must be a whole number >= 0, got {self.seed!r}")
        if reserved := sorted({"pull_cost", "error_penalty", "max_pulls"} & set(self.env_kwargs)):
            raise UserError(
                f"{', '.join(reserved)}: settings of the training, not of the environment"
            )


def train(
    settings: TrainSettings,
    out: str | os.PathLike[str] = "model.zip",
    *,
    overwrite: bool = False,
    progress: bool = True,
    tensorboard: str | os.PathLike[str] | None = None,
    trials: int = 2000,
) -> dict[str, float]:
    """Train and write the model to `out`; returns what `validate` says of it.

    Args:
        overwrite: write `out` even if it is there already, instead of raising `ValueError`.
        progress: show a progress bar.
        tensorboard: folder for TensorBoard's files: losses, and pulls, wrong agents and cost of an episode. Needs
            `pip install tensorboard`.
        trials: held-out episodes of the final validation.
    """
    require_rl()
    import torch

    from clustered_bandit_gym.policies.learned.sb3 import LogOutcomes

    file = Path(out)
    if file.suffix != ".zip" or not file.parent.is_dir():
        raise UserError(f"{file}: expected a name that ends in .zip in a folder that exists")
    if file.exists() and not overwrite:
        raise UserError(f"{file} exists: choose another file, or overwrite it")
    torch.set_num_threads(1)  # the networks are small: more threads only wait for each other
    env = make_vec_env(settings)
    log = None if tensorboard is None else str(tensorboard)
    model = make_model(settings, env, log)
    model.learn(settings.steps, LogOutcomes(), tb_log_name=file.stem, progress_bar=progress)
    env.close()
    model.save(file)
    return validate(model, settings, trials)


def make_vec_env(settings: TrainSettings, n_envs: int | None = None) -> Any:
    """The native vector environment of `settings.env` with features, as an SB3 `VecEnv`."""
    from clustered_bandit_gym.policies.learned.sb3 import SB3VecEnv

    kwargs = {
        **settings.env_kwargs,
        "pull_cost": settings.pull_cost,
        "error_penalty": settings.error_penalty,
    }
    n = settings.n_envs if n_envs is None else n_envs
    env = SB3VecEnv(settings.env, "auto", n_envs=n, **kwargs)
    game = env.envs.game
    game.max_pulls = settings.pulls_per_arm * game.n_agents * game.n_arms
    env.seed(settings.seed)
    return env


def make_model(settings: TrainSettings, env: Any, tensorboard: str | None = None) -> Any:
    """An untrained model of `settings.algo`."""
    import stable_baselines3 as sb3
    from sb3_contrib import MaskablePPO

    common: dict[str, Any] = {
        "policy": "MlpPolicy",
        "env": env,
        "seed": settings.seed,
        "device": "cpu",
        "gamma": 1.0,  # all pulls count alike
        "learning_rate": lambda left: settings.learning_rate * left,
        "policy_kwargs": {"net_arch": [settings.width, settings.width]},
        "tensorboard_log": tensorboard,
    }
    if settings.algo == "dqn":
        return sb3.DQN(
            buffer_size=100_000,
            learning_starts=min(10_000, settings.steps // 10),
            batch_size=256,
            gradient_steps=16,
            exploration_fraction=0.4,
            exploration_final_eps=0.02,
            **common,
        )
    common["ent_coef"] = settings.entropy
    if settings.algo == "a2c":
        return sb3.A2C(n_steps=16, normalize_advantage=True, **common)
    common |= {"n_steps": settings.n_steps, "n_epochs": settings.n_epochs}
    common["batch_size"] = min(settings.batch_size, settings.n_steps * settings.n_envs)
    return (sb3.PPO if settings.algo == "ppo" else MaskablePPO)(**common)


def validate(model: Any, settings: TrainSettings, trials: int = 2000) -> dict[str, float]:
    """Mean return, mean pulls and share of wrong episodes of the deterministic policy on `trials` held-out instances."""
    from sb3_contrib.common.maskable.utils import is_masking_supported

    env = make_vec_env(settings, n_envs=min(trials, 500))
    env.seed(VALIDATION_SEED)
    masked = settings.algo == "maskable-ppo" and is_masking_supported(env)
    obs = env.reset()
    # Each sub-environment plays the same number of episodes: the first ones to end are the short ones.
    rest = np.full(env.num_envs, -(-trials // env.num_envs))
    rows: list[tuple[float, float, float]] = []
    while rest.any():
        masks = {"action_masks": env.action_masks()} if masked else {}
        actions, _ = model.predict(obs, deterministic=True, **masks)
        obs, _, dones, infos = env.step(actions)
        for i in np.flatnonzero(dones & (rest > 0)).tolist():
            rest[i] -= 1
            info = infos[i]
            rows.append((info["episode"]["r"], info["pulls"], not info["correct"]))
    env.close()
    names = ("return", "pulls", "error_rate")
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))
