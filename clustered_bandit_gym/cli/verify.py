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
            help="Trials to play once more, chosen at random; 0 checks hashes and plays nothing.",
            min=0,
        ),
    ] = 0,
    seed: Annotated[
        int, typer.Option("--seed", "-s", help="Seed of the random choice.", min=0)
    ] = 0,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Check the hash of every kept trial and, with --replay, play some once more.

    A policy of your own is looked for in this folder and in what is installed, as by `compare`.

    Exit code 1 if any row is damaged or comes out differently, or if none of those asked for could be played.
    """
    from clustered_bandit_gym.harness.verification import verify as run_verify

    found = run_verify(folder, replay, seed)
    typer.echo(str(found))
    if not replay and not quiet:
        typer.echo("No trial was played once more; --replay 10 plays ten of them.", err=True)
    if replay and not found.replayed:
        typer.secho("clustered-bai verify: no trial could be played once more", err=True, fg="red")
    if not found.fine:
        raise typer.Exit(FAILED)
