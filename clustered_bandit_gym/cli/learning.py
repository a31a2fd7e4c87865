"""Reinforcement learning: train."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import command, few
from clustered_bandit_gym.cli.options import Quiet, Seed, Traceback, pairs_of
from clustered_bandit_gym.errors import UserError


@command("train")
def train(
    env: Annotated[str, typer.Argument(metavar="ENV", help="The environment to train on.")] = "ClusteredBAI-Tiny-v0",
    algo: Annotated[str, typer.Option("--algo", help="maskable-ppo, ppo, a2c or dqn.")] = "maskable-ppo",
    steps: Annotated[int, typer.Option("--steps", help="Environment steps in all.", min=1)] = 400_000,
    n_envs: Annotated[int, typer.Option("--n-envs", help="Sub-environments stepped at once.", min=1)] = 128,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes.")] = Path("model.zip"),
    seed: Seed = 0,
    seeds: Annotated[
        int, typer.Option("--seeds", help="Train this many models, with seeds SEED, SEED + 1, ...", min=1)
    ] = 1,
    trials: Annotated[
        int, typer.Option("--trials", help="Held-out instances of the final comparison; 0 for none.", min=0)
    ] = 2000,
    evaluate_only: Annotated[
        Path | None,
        typer.Option(
            "--evaluate-only", metavar="MODEL", help="Compare this model; train nothing.", show_default="train one"
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="KEY=VALUE: a setting of the training (width, gamma, ...), else of the environment.",
            show_default="none",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start anew where OUT holds another run.")] = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Train a player with reinforcement learning, then compare it with uniform sampling at the same error rate.

    Play it as `learned:model.zip`. A run that was killed goes on where its last evaluation was. Model files hold
    pickles, which Stable-Baselines3 would run; this command and `learned:` read only their tensors and settings, and
    only files that you name. With --seeds the mean ratio over training seeds is printed with its interval.
    """
    from dataclasses import fields, replace

    from clustered_bandit_gym.policies.learned.evaluation import over_seeds
    from clustered_bandit_gym.policies.learned.training import TrainSettings, shortened
    from clustered_bandit_gym.policies.learned.training import evaluate as run_evaluate
    from clustered_bandit_gym.policies.learned.training import train as run_train

    if evaluate_only is not None:
        typer.echo(run_evaluate(evaluate_only, trials or 2000))
        return
    given = pairs_of(set_)
    own = {name: given.pop(name) for name in [field.name for field in fields(TrainSettings)] if name in given}
    if twice := sorted(set(own) & {"env", "env_kwargs", "algo", "steps", "n_envs", "seed"}):
        raise UserError(f"{', '.join(twice)} has an option or argument of its own")
    settings = TrainSettings(env=env, env_kwargs=given, algo=algo, steps=steps, n_envs=n_envs, seed=seed, **own)
    if os.environ.get("CLUSTERED_BANDIT_QUICK"):
        settings, trials = shortened(settings), few(trials, 50)
    comparisons = []
    for number in range(seeds):
        file = out if seeds == 1 else out.with_stem(f"{out.stem}-{seed + number}")
        run_train(replace(settings, seed=seed + number), file, overwrite=overwrite, progress=not quiet)
        if trials:
            comparisons.append(run_evaluate(file, trials))
            typer.echo(comparisons[-1])
        typer.echo(f"Wrote {file}: `clustered-bai compare {env} --policies learned:{file} uniform-glr`")
    if len(comparisons) > 1:
        typer.echo(over_seeds(comparisons))
