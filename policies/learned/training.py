"""Training with Stable-Baselines3 on the native vector environment. Needs the extra `rl`.

Plain PPO with a plain network (`MlpPolicy`). What makes it learn is what it sees: `learned.features`.
"""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

from clustered_bandit_gym._types import FilePath, Values
from clustered_bandit_gym.errors import UnknownSetting, UserError, needs_extra
from clustered_bandit_gym.game.checks import check_choice, whole


def train(
    env: str,
    out: FilePath = "model.zip",
    *,
    steps: int = 500_000,
    overwrite: bool = False,
    progress: bool = True,
    **settings: Any,
) -> None:
    """Train a player on the environment `env` and write the model to `out`.

    Args:
        steps: environment steps in all.
        overwrite: write `out` even if it is there already, instead of raising `ValueError`.
        progress: show a progress bar.
        settings: of `make_model`.
    """
    file = Path(out)
    if file.suffix != ".zip" or not file.parent.is_dir():
        raise UserError(f"{file}: expected a name that ends in .zip in a folder that exists")
    if file.exists() and not overwrite:
        raise UserError(f"{file} exists: choose another file, or overwrite it (--overwrite)")
    with needs_extra("rl"):
        model = make_model(env, steps=steps, **settings)
    model.learn(steps, progress_bar=progress)
    model.save(file)


def make_model(
    env: str,
    *,
    algo: str = "ppo",
    steps: int = 500_000,
    n_envs: int = 64,
    n_steps: int = 128,
    seed: int = 0,
    pull_cost: float = 0.01,
    error_penalty: float = 8.0,
    **settings: Any,
) -> Any:
    """An untrained model that sees the features of `env`.

    An episode is answered after ten pulls for each arm of each agent at the latest.

    Args:
        algo: "ppo" or "maskable-ppo".
        steps: environment steps of the training.
        n_envs: sub-environments stepped at once.
        n_steps: steps of each sub-environment between updates, at most.
        seed: of weights and training episodes.
        pull_cost, error_penalty: rewards lost with a pull and with each wrong agent. By default a
            wrong agent costs as much as 800 pulls: on Tiny that keeps the error rate near 1%.
        settings: of the environment.
    """
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import PPO

    from clustered_bandit_gym.policies.learned.sb3 import SB3VecEnv

    kinds: Values = {"ppo": PPO, "maskable-ppo": MaskablePPO}
    check_choice("algo", algo, tuple(kinds))
    whole(steps, "steps")
    whole(n_steps, "n_steps")
    if whole(seed, "seed", 0) >= 2**32:
        raise UserError(f"seed must be below 2**32 here, got {seed}")
    if "pull_sizes" in settings:
        raise UserError("players of the board make single pulls; pull_sizes is for SB3VecEnv")
    torch.set_num_threads(1)  # the networks are small: more threads only wait for each other
    rewards = {"pull_cost": pull_cost, "error_penalty": error_penalty}
    try:
        envs = SB3VecEnv(env, "auto", n_envs=whole(n_envs, "n_envs"), **rewards, **settings)
    except UnknownSetting as error:
        raise error.among(make_model) from None
    game = envs.envs.game
    game.limit = min(game.limit, 10 * game.n_agents * game.n_arms)
    n_steps = max(min(n_steps, ceil(steps / n_envs)), ceil(2 / n_envs))
    size = n_steps * n_envs
    return kinds[algo](
        "MlpPolicy",
        envs,
        n_steps=n_steps,
        batch_size=max(batch for batch in range(1, 2049) if size % batch == 0),
        n_epochs=4,
        gamma=1.0,  # all pulls count alike
        ent_coef=0.005,
        learning_rate=lambda left: 1e-3 * left,
        seed=seed,
        device="cpu",
    )
