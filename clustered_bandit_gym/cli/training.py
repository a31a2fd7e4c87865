"""Reinforcement learning: train."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import typer

from clustered_bandit_gym.cli.app import command
from clustered_bandit_gym.cli.options import settings_of
from clustered_bandit_gym.errors import UserError


@command("train")
def train(
    env: str = "ClusteredBAI-Tiny-v0",
    *,
    algo: str = "ppo",
    steps: int = 500_000,
    out: Path = Path("model.zip"),
    seed: int = 0,
    set_: list[str] | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Train a player with Stable-Baselines3, and play it on held-out instances.

    Compare it with others as `learned:model.zip`. Model files hold pickles, which Stable-Baselines3
    would run when it loads them; `learned:` reads only their tensors.
    """
    from dataclasses import fields

    from clustered_bandit_gym.policies.learned.training import TrainSettings
    from clustered_bandit_gym.policies.learned.training import train as run_train

    options = {"env": env, "algo": algo, "steps": steps, "seed": seed}
    settings = settings_of(options, set_)
    trials = 2000
    if os.environ.get("CLUSTERED_BANDIT_QUICK"):
        trials = 100
        settings = {"n_steps": 16, **settings, "steps": min(steps, 2000)}
    known = {one.name for one in fields(TrainSettings)}
    if "env_kwargs" in settings:
        raise UserError("--set takes the keywords of the environment themselves, not env_kwargs")
    others = {name: settings.pop(name) for name in sorted(set(settings) - known)}
    found = run_train(
        TrainSettings(env_kwargs=others, **settings),
        out,
        overwrite=overwrite,
        progress=not quiet,
        trials=trials,
    )
    typer.echo(
        f"On held-out instances: return {found['return']:+.3f}, pulls {found['pulls']:.1f}, "
        f"error rate {found['error_rate']:.4f}"
    )
    player = shlex.quote(f"learned:{out}")
    typer.echo(f"Wrote {out}: `clustered-bai compare {env} --policies {player} uniform-glr`")
