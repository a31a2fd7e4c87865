"""Judging: audit, bounds."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import FAILED, command, console
from clustered_bandit_gym.cli.options import (
    DEFAULT_ENV,
    Jobs,
    MaxPulls,
    OpenSeed,
    Quiet,
    Replays,
    Seed,
    Set,
    Traceback,
    pairs_of,
)
from clustered_bandit_gym.errors import UserError


@command("audit")
def audit(
    policy: Annotated[str, typer.Argument(help="A name, or module:Class, with settings after a colon.")],
    delta: Annotated[float, typer.Option("--delta", "-d", help="δ at which the policy is tested.")] = 0.1,
    trials: Annotated[int | None, typer.Option("--trials", "-t", help="Trials per cell.", min=1)] = None,
    seed: OpenSeed = 0,
    jobs: Jobs = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter suite.")] = False,
    max_pulls: MaxPulls = None,
    replays: Replays = 1,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Hunt for errors on instances built to provoke them. Exit code 1 if the policy fails."""
    from clustered_bandit_gym.harness.audit.audit import audit as run_audit

    progress = not quiet and sys.stderr.isatty()
    report = run_audit(
        policy, delta, trials, seed, jobs, quick=quick, max_pulls=max_pulls, replays=replays, progress=progress
    )
    typer.echo(str(report))
    typer.echo(f"Seed: {seed}.")
    if not (report.cells["trials"] > report.cells["unfinished"]).any():
        raise UserError("no trial came to an answer; the reasons are above")
    if report.word == "FAIL":
        raise typer.Exit(FAILED)


@command("bounds")
def bounds(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An environment.")] = DEFAULT_ENV,
    n_agents: Annotated[int | None, typer.Option("--n-agents", "-n", help="N.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", "-d", help="δ.")] = None,
    eta: Annotated[float | None, typer.Option("--eta", help="η of the generator.")] = None,
    set_: Set = None,
    seed: Seed = 0,
    traceback: Traceback = False,
) -> None:
    """Lower bounds and the order of each scheme's pulls on an instance of ENV (trial 0 of the seed)."""
    from clustered_bandit_gym.experiments.bounds import bounds_tables
    from clustered_bandit_gym.harness.output.tables import to_rich

    given = {"n_agents": n_agents, "delta": delta, "eta": eta}
    head, found = bounds_tables(env, {k: v for k, v in given.items() if v is not None} | pairs_of(set_), seed)
    screen = console()
    screen.print(head, highlight=False)
    for table in found:
        screen.print(to_rich(table, screen.width))
