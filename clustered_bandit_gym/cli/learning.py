"""Reinforcement learning: train."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import command, few
from clustered_bandit_gym.cli.options import Quiet, Seed, Traceback, pairs_of
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.settings_text import parse_pairs


@command("train")
def train(
    env: Annotated[
        str, typer.Argument(metavar="ENV", help="The environment to train on.")
    ] = "ClusteredBAI-Tiny-v0",
    algo: Annotated[
        str, typer.Option("--algo", help="maskable-ppo, ppo, a2c or dqn.")
    ] = "maskable-ppo",
    steps: Annotated[
        int, typer.Option("--steps", help="Environment steps in all.", min=1)
    ] = 800_000,
    n_envs: Annotated[
        int, typer.Option("--n-envs", help="Sub-environments stepped at once.", min=1)
    ] = 128,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes.")] = Path(
        "model.zip"
    ),
    seed: Seed = 0,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", help="Train this many models, with seeds SEED, SEED + 1, ...", min=1
        ),
    ] = 1,
    trials: Annotated[
        int,
        typer.Option(
            "--trials", help="Held-out instances of the final comparison; 0 for none.", min=0
        ),
    ] = 2000,
    test_seed: Annotated[
        int,
        typer.Option("--test-seed", help="Seed of the instances of the final comparison.", min=0),
    ] = 2_000_003,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            help="KEY=VALUE,...: with --report, play also with these settings, e.g. n_agents=8,trials=500.",
            show_default="none",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="PAGE.md",
            help="Compare with the rule it starts from; write PAGE.md and .json.",
            show_default="no page",
        ),
    ] = None,
    evaluate_only: Annotated[
        Path | None,
        typer.Option(
            "--evaluate-only",
            metavar="MODEL",
            help="Compare this model; train nothing.",
            show_default="train one",
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
        bool, typer.Option("--overwrite", help="Start anew where OUT holds another run.")
    ] = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Train a player with reinforcement learning, then compare it with uniform sampling at the same
    error rate.

    Play it as `learned:model.zip`. A killed run resumes from its last evaluation. Model files hold
    pickles, which Stable-Baselines3 would run; this command and `learned:` read only their tensors
    and settings, and only files that you name. With --seeds the mean ratio over training seeds is
    printed with its interval; models that are there already, with the same settings, are not
    trained again. With --report the rule that training starts from is played as well, and the
    figures go to a page.
    """
    from dataclasses import fields, replace

    from clustered_bandit_gym.policies.learned import page, study
    from clustered_bandit_gym.policies.learned.evaluation import over_seeds
    from clustered_bandit_gym.policies.learned.files import TrainingFiles
    from clustered_bandit_gym.policies.learned.training import TrainSettings, shortened
    from clustered_bandit_gym.policies.learned.training import evaluate as run_evaluate
    from clustered_bandit_gym.policies.learned.training import train as run_train

    if evaluate_only is not None:
        typer.echo(run_evaluate(evaluate_only, trials or 2000, test_seed))
        return
    given = pairs_of(set_)
    own = {
        name: given.pop(name)
        for name in [field.name for field in fields(TrainSettings)]
        if name in given
    }
    if twice := sorted(set(own) & {"env", "env_kwargs", "algo", "steps", "n_envs", "seed"}):
        raise UserError(
            f"--set cannot change {', '.join(twice)}: use the command's own argument or option"
        )
    settings = TrainSettings(
        env=env, env_kwargs=given, algo=algo, steps=steps, n_envs=n_envs, seed=seed, **own
    )
    if os.environ.get("CLUSTERED_BANDIT_QUICK"):
        settings, trials = shortened(settings), few(trials, 50)
    if also and report is None:
        raise UserError("--also needs --report: further sizes are played for the report only")
    sizes = [parse_pairs(one.split(","), "--also") for one in also or []]
    files = [
        out if seeds == 1 else out.with_stem(f"{out.stem}-{seed + number}")
        for number in range(seeds)
    ]
    comparisons = []
    for number, file in enumerate(files):
        mine = replace(settings, seed=seed + number)
        if seeds == 1 or overwrite or not TrainingFiles(file).is_finished(mine):
            run_train(mine, file, overwrite=overwrite, progress=not quiet, tensorboard=tensorboard)
        if trials and report is None:
            comparisons.append(run_evaluate(file, trials, test_seed))
            typer.echo(comparisons[-1])
        typer.echo(
            f"Wrote {file}: `clustered-bai compare {env} --policies learned:{file} uniform-glr`"
        )
    if len(comparisons) > 1:
        typer.echo(over_seeds(comparisons))
    if report is not None:
        found = study.measure(files, sizes, max(1, trials), test_seed, typer.echo)
        study.enter(report, out.stem, found)
        typer.echo(page.table({out.stem: found}))
        typer.echo(f"Wrote {report} and {report.with_suffix('.json')}")
