"""Rare errors: error probabilities too small to simulate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import FAILED, command, few
from clustered_bandit_gym.cli.options import (
    MaxPulls,
    OneAgents,
    OneDelta,
    OneEnv,
    OneEta,
    Quiet,
    Seed,
    Set,
    Traceback,
    default_env,
    pairs_of,
)


@command("rare")
def rare(
    policy: Annotated[
        str, typer.Argument(help="A name, or module:Class, with settings after a colon.")
    ],
    env: OneEnv = None,
    n_agents: OneAgents = None,
    delta: OneDelta = None,
    eta: OneEta = None,
    trials: Annotated[
        int, typer.Option("--trials", "-t", help="Plays of the estimate.", min=1)
    ] = 2000,
    searches: Annotated[
        int, typer.Option("--searches", help="Independent searches for ways to err.", min=1)
    ] = 3,
    search_plays: Annotated[
        int, typer.Option("--search-plays", help="Plays in a round of a search.", min=1)
    ] = 200,
    max_pulls: MaxPulls = None,
    set_: Set = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Keep the result here, beside trials; `show` then has a column.",
            show_default="nothing is kept",
        ),
    ] = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Measure the error probability of POLICY, however small, by plays tilted towards an error.

    Exit code 1 if it is certified to exceed δ.
    """
    from research.rare import keep
    from research.rare import rare as measure

    given = {"n_agents": n_agents, "delta": delta, "eta": eta, "max_pulls": max_pulls}
    settings = {key: value for key, value in given.items() if value is not None} | pairs_of(set_)
    result = measure(
        policy,
        env or default_env(settings),
        few(trials, 20),
        seed,
        searches=searches,
        search_plays=search_plays,
        progress=not quiet and sys.stderr.isatty(),
        **settings,
    )
    typer.echo(str(result))
    if out is not None:
        keep(result, out)
    if result.fails:
        raise typer.Exit(FAILED)


@command("rare-table")
def rare_table(
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policies", "-p", help="Names of policies.", show_default="all of the table"
        ),
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for results, table, figure.")
    ] = Path("out/rare"),
    keep_old: Annotated[
        bool,
        typer.Option(
            "--keep-old", help="Keep results of other versions of the code; the table names them."
        ),
    ] = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """The error of each policy at δ = 1e-10, and at larger δ: a table and a figure. An interrupted run resumes."""
    from research.rare.table import rare_table as make_table

    table, figure = make_table(
        out, policies or None, seed, keep_old=keep_old, progress=not quiet and sys.stderr.isatty()
    )
    typer.echo(table.read_text(encoding="utf-8"))
    typer.echo(f"figure: {figure}")
