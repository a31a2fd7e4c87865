"""Reinforcement learning: train."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Literal

import typer

from clustered_bandit_gym.cli.app import Several, command, is_quick, settings_of


@command("train")
def train(
    env: str = "ClusteredBAI-Tiny-v0",
    *,
    algo: Literal["ppo", "maskable-ppo"] = "ppo",
    steps: int = 500_000,
    out: Path = Path("model.zip"),
    seed: int = 0,
    set_: Several = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Train a player with Stable-Baselines3.

    An episode is answered after ten pulls for each arm of each agent at the latest. Compare the model
    with others as `learned:model.zip`. Model files hold pickles, which Stable-Baselines3
    would run when it loads them; `learned:` reads only their tensors.
    """
    from clustered_bandit_gym.policies.learned.training import train as run_train

    settings = settings_of({"algo": algo, "steps": steps, "seed": seed}, set_)
    if is_quick():
        settings = {"n_steps": 16, **settings, "steps": min(steps, 2000)}
    run_train(env, out, overwrite=overwrite, progress=not quiet, **settings)
    # The harness plays games, not their flat variants.
    words = ["clustered-bai", "compare", re.sub("-(Discrete|Box)", "", env)]
    training = ("n_envs", "n_steps", "pull_cost", "error_penalty")
    for pair in (pair for pair in set_ or () if not pair.startswith(training)):
        words += ["--set", pair]
    typer.echo(
        f"Wrote {out}: `{shlex.join([*words, '--policies', f'learned:{out}', 'uniform-glr'])}`"
    )
