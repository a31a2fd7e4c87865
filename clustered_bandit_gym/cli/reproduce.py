"""The verb `reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import command, console, few
from clustered_bandit_gym.cli.options import Jobs, Quiet, Seed, Traceback


@command("reproduce")
def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="FIGURE...", help="fig1a, ...", show_default="all")
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", "-t", help="Runs of each setting.", min=2)
    ] = 50,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for trials and figures.")] = Path(
        "out/reproduce"
    ),
    data: Annotated[
        str | None,
        typer.Option("--data", help="Your copy of MovieLens-1M or Yelp.", show_default="stand-ins"),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Play the settings of the paper's figures and plot them. An interrupted run resumes."""
    from clustered_bandit_gym.reproduce import reproduce as run_reproduce

    run_reproduce(
        figures or ["all"],
        few(trials),
        out,
        seed=seed,
        n_jobs=jobs,
        data=data,
        progress=not quiet and sys.stderr.isatty(),
        console=console(),
    )
