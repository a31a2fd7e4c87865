"""Checking a folder of trials: verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import FAILED, command
from clustered_bandit_gym.cli.options import Quiet, Seed, Traceback


@command("verify")
def verify(
    folder: Annotated[Path, typer.Argument(help="A folder of trials (--out of compare).")],
    replay: Annotated[int, typer.Option("--replay", help="Trials to play once more, chosen at random.", min=0)] = 0,
    seed: Seed = 0,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Check the hash of every kept trial, and play some once more. Exit code 1 if any row differs."""
    from clustered_bandit_gym.harness.verification import verify as run_verify

    found = run_verify(folder, replay, seed)
    typer.echo(str(found))
    if not found.fine:
        raise typer.Exit(FAILED)
