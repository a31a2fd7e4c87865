"""The verb `audit`."""

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
    OpenSeed,
    Out,
    Quiet,
    Replays,
    Traceback,
    check_format,
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
    search: Annotated[
        str | None,
        typer.Option(
            "--search",
            metavar="TIME",
            help="Search for a worse game instead, for this processor time: 90s, 10m, 1h.",
            show_default="play the suite",
        ),
    ] = None,
    save: Annotated[
        Path, typer.Option("--save", help="With --search: where the worst game is saved.")
    ] = Path("worst-game.json"),
    game: Annotated[
        Path | None,
        typer.Option(
            "--game",
            help="Play only a game that --search saved, at its δ.",
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
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Play instances built to provoke errors, and judge each by a sequential test.

    Exit code 1 if the policy fails.

    With --out finished trials are kept as they end, and the same command resumes an interrupted
    audit. With --search small games are varied until the policy errs more often than δ on one of
    them, judged by fresh trials; --game plays that one again.
    """
    from clustered_bandit_gym.harness.audit.audit import audit as run_audit
    from clustered_bandit_gym.harness.audit.search import load_game

    check_format(output)
    if search is not None:
        if game or quick or out or delta or trials or max_pulls:
            raise UserError(
                "--search plays games of its own, at δ of its own: leave out --game, --quick, "
                "--out, --delta, --trials and --max-pulls"
            )
        return run_search(policy, seconds_of(search), seed, save, quiet)
    found, saved_delta = (None, 0.1) if game is None else load_game(game)
    delta = saved_delta if delta is None else delta
    report = run_audit(
        policy,
        delta,
        trials,
        seed,
        jobs,
        quick=quick,
        cells=None if found is None else [found],
        max_pulls=max_pulls,
        replays=replays,
        out=out,
        max_seconds=max_seconds,
        progress=not quiet and sys.stderr.isatty(),
    )
    if output == "text":
        report.print(console())
        typer.echo(f"Seed: {seed}.")
    else:
        typer.echo(getattr(report, f"to_{output}")().rstrip("\n"))
    tell_reused(report.reused, int(report.cells["trials"].sum()), out, quiet)
    if traceback and report.raised is not None:
        from clustered_bandit_gym.harness.replay import traceback_of

        typer.echo(traceback_of(report.raised, make(policy)), err=True)
    if not (report.cells["trials"] > report.cells["unfinished"]).any():
        raise UserError("no trial ended with an answer; the reasons are shown above")
    if report.word == "FAIL":
        raise typer.Exit(FAILED)


def run_search(policy: str, seconds: float, seed: int, save: Path, quiet: bool) -> None:
    """`audit --search`: print the worst game found and save it."""
    from clustered_bandit_gym.harness.audit.search import search

    def tell(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    # A search may take hours: find out first that its result can be written.
    save.parent.mkdir(parents=True, exist_ok=True)
    save.touch()
    found = search(policy, seconds, seed, progress=tell)
    typer.echo(str(found))
    found.save(save)
    tell(f"Saved {save}: `clustered-bai audit {policy} --game {save}` plays it again.")
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
            f"--search takes a number followed by s, m or h, e.g. 10m; got {text!r}"
        ) from None
    if not 0 < seconds < float("inf"):
        raise UserError(f"--search takes a positive time, got {text!r}")
    return seconds
