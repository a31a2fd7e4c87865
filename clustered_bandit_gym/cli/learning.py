"""Reinforcement learning: train."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import command
from clustered_bandit_gym.cli.options import Quiet, Seed, Traceback, pairs_of
from clustered_bandit_gym.errors import UserError


@command("train")
def train(
    env: Annotated[
        str, typer.Argument(metavar="ENV", help="The environment to train on.")
    ] = "ClusteredBAI-Tiny-v0",
    algo: Annotated[str, typer.Option("--algo", help="ppo or maskable-ppo.")] = "ppo",
    steps: Annotated[
        int, typer.Option("--steps", help="Environment steps in all.", min=1)
    ] = 500_000,
    n_envs: Annotated[
        int, typer.Option("--n-envs", help="Sub-environments stepped at once.", min=1)
    ] = 64,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes.")] = Path(
        "model.zip"
    ),
    seed: Seed = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="KEY=VALUE: a setting of the training (pull_cost, n_steps, ...), else of the environment.",
            show_default="none",
        ),
    ] = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option(
            "--tensorboard",
            metavar="DIR",
            help="Log to TensorBoard here; needs tensorboard.",
            show_default="no log",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace OUT if it exists.")
    ] = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Train a player with Stable-Baselines3, and play it on held-out instances.

    Compare it with others as `learned:model.zip`. Model files hold pickles, which Stable-Baselines3
    would run when it loads them; `learned:` reads only their tensors.
    """
    from dataclasses import fields

    from clustered_bandit_gym.policies.learned.training import TrainSettings
    from clustered_bandit_gym.policies.learned.training import train as run_train

    given = pairs_of(set_)
    known = {one.name for one in fields(TrainSettings)}
    own = {name: given.pop(name) for name in sorted(known & set(given))}
    if twice := sorted(set(own) & {"env", "env_kwargs", "algo", "steps", "n_envs", "seed"}):
        raise UserError(
            f"--set cannot change {', '.join(twice)}: use the command's own argument or option"
        )
    trials = 2000
    if os.environ.get("CLUSTERED_BANDIT_QUICK"):
        steps, trials, own = min(steps, 2000), 100, {"n_steps": 16, **own}
    settings = TrainSettings(
        env=env, env_kwargs=given, algo=algo, steps=steps, n_envs=n_envs, seed=seed, **own
    )
    found = run_train(
        settings,
        out,
        overwrite=overwrite,
        progress=not quiet,
        tensorboard=tensorboard,
        trials=trials,
    )
    typer.echo(
        f"On held-out instances: return {found['return']:+.3f}, pulls {found['pulls']:.1f}, "
        f"error rate {found['error_rate']:.4f}"
    )
    typer.echo(f"Wrote {out}: `clustered-bai compare {env} --policies learned:{out} uniform-glr`")
