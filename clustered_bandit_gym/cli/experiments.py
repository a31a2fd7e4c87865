"""Experiments: reproduce, beyond, counterexample, demo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import command, console, few
from clustered_bandit_gym.cli.options import Jobs, Out, Quiet, Seed, Traceback


@command("reproduce")
def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="FIGURE...", help="fig1a, ...", show_default="all")
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", "-t", help="Runs of each setting.", min=2)
    ] = 50,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for trials, tables, figures.")
    ] = Path("out/reproduce"),
    data: Annotated[
        str | None,
        typer.Option("--data", help="Your copy of MovieLens-1M or Yelp.", show_default="stand-ins"),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """The paper's experiments again: its figures, and what it claims beside what was measured."""
    from clustered_bandit_gym.reproduce.run import reproduce as run_reproduce

    progress = not quiet and sys.stderr.isatty()
    run_reproduce(
        figures or ["all"],
        few(trials),
        out,
        seed=seed,
        n_jobs=jobs,
        data=data,
        progress=progress,
        console=console(),
    )


@command("beyond")
def beyond(
    trials: Annotated[
        int, typer.Option("--trials", "-t", help="Trials of each setting.", min=1)
    ] = 20,
    seed: Seed = 0,
    jobs: Jobs = -1,
    out: Out = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """StructuredBAI and FrugalBAI beside the paper's schemes: pulls, communication, distance to the lower bound.

    With --out the trials are kept, and the table and a picture go to beyond.md and beyond.png there.
    """
    from research.beyond.table import beyond_table

    progress = not quiet and sys.stderr.isatty()
    typer.echo(beyond_table(few(trials), seed, out, jobs, progress))


@command("counterexample")
def counterexample(
    trials: Annotated[
        int, typer.Option("--trials", "-t", help="Trials of each policy.", min=1)
    ] = 16,
    n_agents: Annotated[
        int, typer.Option("--n-agents", "-n", help="N; one agent has a cluster of its own.")
    ] = 1600,
    seed: Seed = 0,
    jobs: Jobs = -1,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """BAI-Cl's printed error budgets with another engine than the paper's: wrong far more often than δ.

    Beside it, on the same instance: certified budgets, and the printed ones with the paper's elimination. Takes about
    three minutes of processor time. Exit code 1 if a policy fails.
    """
    from clustered_bandit_gym.cli.app import FAILED
    from research.counterexample.__main__ import counterexample as run_counterexample

    board = run_counterexample(few(trials), n_agents, seed, jobs, not quiet and sys.stderr.isatty())
    typer.echo(str(board))
    if (board.summary["verdict"] == "FAIL").any():
        raise typer.Exit(FAILED)


@command("demo")
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for trials, picture and report.")
    ] = Path("out/demo"),
    jobs: Jobs = -1,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """The four schemes on the paper's small instance, in under a minute: as in the paper, then with a verdict."""
    from clustered_bandit_gym.cli.demo import run_demo

    run_demo(out, jobs, not quiet and sys.stderr.isatty(), console())
