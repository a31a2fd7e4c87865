"""Checking a folder of trials: verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import FAILED, command
from clustered_bandit_gym.cli.options import Quiet, Traceback


@command("verify")
def verify(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A folder that `compare --out` or `audit --out` has filled."
        ),
    ],
    replay: Annotated[
        int,
        typer.Option(
            "--replay",
            help="Trials to play once more, chosen at random; 0 checks the file alone.",
            min=0,
        ),
    ] = 0,
    seed: Annotated[
        int, typer.Option("--seed", "-s", help="Seed of the random choice.", min=0)
    ] = 0,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="MODULE",
            help="Modules of your own whose policies and generators rows may name.",
            show_default="none",
        ),
    ] = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Check a folder of kept trials and, with --replay, play some once more.

    Rows run no code but that of this package and of the modules that --allow names, which are
    looked for in this folder and in what is installed.

    Exit code 1 if a row comes out differently, or if none of those asked for could be played.
    """
    from clustered_bandit_gym.harness.replay import verify as run_verify

    found = run_verify(folder, replay, seed, allow or ())
    typer.echo(str(found))
    if not replay and not quiet:
        typer.echo("No trial was played once more; --replay 10 plays ten of them.", err=True)
    if replay and not found.replayed:
        typer.secho("clustered-bai verify: no trial could be played once more", err=True, fg="red")
    if not found.fine:
        raise typer.Exit(FAILED)
