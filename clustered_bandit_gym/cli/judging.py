"""Judging: audit, attack, bounds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import FAILED, command, console, tell_reused
from clustered_bandit_gym.cli.options import (
    Format,
    Jobs,
    MaxSeconds,
    OneAgents,
    OneDelta,
    OneEnv,
    OneEta,
    OpenSeed,
    Out,
    Quiet,
    Replays,
    Seed,
    Set,
    Traceback,
    check_format,
    default_env,
    pairs_of,
)
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.registry import make


@command("audit")
def audit(
    policy: Annotated[
        str, typer.Argument(help="A name, or module:Class, with settings after a colon.")
    ],
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta",
            "-d",
            help="δ at which the policy is tested.",
            show_default="0.1, or that of --game",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            "-t",
            help="Most trials per cell.",
            min=1,
            show_default="60/δ; 30/δ with --quick",
        ),
    ] = None,
    seed: OpenSeed = 0,
    jobs: Jobs = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter suite.")] = False,
    game: Annotated[
        Path | None,
        typer.Option(
            "--game",
            help="Play only a game that `attack` saved, at its δ.",
            show_default="the suite",
        ),
    ] = None,
    max_pulls: Annotated[
        int | None,
        typer.Option(
            "--max-pulls",
            help="Budget of a trial; a trial that needs more is unfinished.",
            show_default="1e12; 50,000 for a StepPolicy",
        ),
    ] = None,
    max_seconds: MaxSeconds = None,
    out: Out = None,
    output: Format = "text",
    replays: Replays = 1,
    rare: Annotated[
        bool, typer.Option("--rare", help="Also measure the error at δ = 1e-10 by tilted plays.")
    ] = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Play instances built to provoke errors, and judge each by a sequential test. Exit code 1 if the policy fails.

    With --out finished trials are kept as they end, and the same command resumes an interrupted audit.
    """
    from clustered_bandit_gym.harness.audit.attack import load_game
    from clustered_bandit_gym.harness.audit.audit import audit as run_audit

    check_format(output)
    found, saved_delta = (None, 0.1) if game is None else load_game(game)
    delta = saved_delta if delta is None else delta
    cells = None if found is None else [found]
    progress = not quiet and sys.stderr.isatty()
    report = run_audit(
        policy,
        delta,
        trials,
        seed,
        jobs,
        quick=quick,
        cells=cells,
        max_pulls=max_pulls,
        replays=replays,
        rare=rare,
        out=out,
        max_seconds=max_seconds,
        progress=progress,
    )
    if output == "text":
        console().print(report)
        typer.echo(f"Seed: {seed}.")
    else:
        typer.echo(getattr(report, f"to_{output}")().rstrip("\n"))
    tell_reused(report.reused, int(report.cells["trials"].sum()), out, quiet)
    if traceback and report.raised is not None:
        from clustered_bandit_gym.harness.run import traceback_of

        typer.echo(traceback_of(report.raised, make(policy)), err=True)
    if not (report.cells["trials"] > report.cells["unfinished"]).any():
        raise UserError("no trial ended with an answer; the reasons are shown above")
    if report.word == "FAIL":
        raise typer.Exit(FAILED)


@command("attack")
def attack(
    policy: Annotated[
        str, typer.Argument(help="A name, or module:Class, with settings after a colon.")
    ],
    budget: Annotated[
        str, typer.Option("--budget", "-b", help="Processor time: 90s, 10m, 1h.")
    ] = "10m",
    seed: Seed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the worst game is saved.")] = Path(
        "attack.json"
    ),
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Search for a small game on which the policy errs more often than δ. Exit code 1 if there is one."""
    from clustered_bandit_gym.harness.audit.attack import attack as run_attack

    def tell(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    found = run_attack(policy, seconds_of(budget), seed, progress=tell)
    typer.echo(str(found))
    found.save(out)
    typer.echo(
        f"Saved {out}: `clustered-bai audit {policy} --game {out}` plays it again.", err=True
    )
    if found.verdict.word == "FAIL":
        raise typer.Exit(FAILED)


def seconds_of(text: str) -> float:
    """A duration such as 90s, 10m or 1h in seconds."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    unit = units.get(text[-1:], 0.0)
    number = text[:-1] if unit else text
    try:
        seconds = float(number) * (unit or 1.0)
    except ValueError:
        raise UserError(
            f"a budget is a number followed by s, m or h, e.g. 10m; got {text!r}"
        ) from None
    if not 0 < seconds < float("inf"):
        raise UserError(f"a budget must be positive, got {text!r}")
    return seconds


@command("bounds")
def bounds(
    env: OneEnv = None,
    n_agents: OneAgents = None,
    delta: OneDelta = None,
    eta: OneEta = None,
    set_: Set = None,
    seed: Seed = 0,
    traceback: Traceback = False,
) -> None:
    """Lower bounds and the order of each scheme's pulls on an instance of ENV (trial 0 of the seed)."""
    from clustered_bandit_gym.cli.bounds import bounds_tables
    from clustered_bandit_gym.harness.output.tables import to_rich

    given = {"n_agents": n_agents, "delta": delta, "eta": eta}
    settings = {k: v for k, v in given.items() if v is not None} | pairs_of(set_)
    head, found = bounds_tables(env or default_env(settings), settings, seed)
    screen = console()
    screen.print(head, highlight=False)
    for table in found:
        screen.print(to_rich(table, screen.width))
