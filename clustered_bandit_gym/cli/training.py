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

    Compare it with others as `learned:model.zip`. Model files hold pickles, which Stable-Baselines3
    would run when it loads them; `learned:` reads only their tensors.
    """
    from clustered_bandit_gym.policies.learned.training import train as run_train

    settings = settings_of({"algo": algo, "steps": steps, "seed": seed}, set_)
    if is_quick():
        settings = {"n_steps": 16, **settings, "steps": min(steps, 2000)}
    run_train(env, out, overwrite=overwrite, progress=not quiet, **settings)
    player = shlex.quote(f"learned:{out}")
    plain = re.sub("-(Discrete|Box)", "", env)  # the harness plays games, not their flat variants
    typer.echo(f"Wrote {out}: `clustered-bai compare {plain} --policies {player} uniform-glr`")
