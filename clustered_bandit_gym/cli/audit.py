"""The verb `audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from clustered_bandit_gym.cli.app import FAILED, command, say, seed_of, show_document
from clustered_bandit_gym.errors import UserError


@command("audit")
def audit(
    policy: str,
    *,
    delta: float = 0.1,
    trials: int | None = None,
    seed: str = "0",
    jobs: int = 1,
    quick: bool = False,
    search: str | None = None,
    max_pulls: int | None = None,
    max_seconds: float | None = None,
    out: Path | None = None,
    format_: Literal["text", "json"] = "text",
    replays: int = 1,
    quiet: bool = False,
) -> None:
    """Play instances built to provoke errors, and judge each by a sequential test.

    Exit code 1 if the policy fails.

    With --out finished trials are kept as they end, and the same command resumes an interrupted
    audit. With --search small games are varied until the policy errs more often than δ on one of
    them, judged by fresh trials; --seed is the only other option that a search takes.
    """
    import pandas as pd

    from clustered_bandit_gym.harness.audit.audit import audit as run_audit
    from clustered_bandit_gym.harness.audit.search import search as run_search

    root = seed_of(seed)
    if search is not None:
        try:
            seconds = pd.Timedelta(search).total_seconds()
        except ValueError as error:
            raise UserError(f"--search takes a duration such as 10m, got {search!r}") from error
        game, played, report = run_search(policy, seconds, root)
        typer.echo(f"The worst game in {played:,} trials: {game}\n", err=format_ != "text")
    else:
        report = run_audit(
            policy,
            delta,
            trials,
            root,
            jobs,
            quick=quick,
            max_pulls=max_pulls,
            replays=replays,
            out=out,
            max_seconds=max_seconds,
            progress=not quiet,
        )
    show_document(report, format_)
    if format_ == "text":
        typer.echo(f"Seed: {root}.")
    if report.reused and not quiet:
        say(f"{report.reused:,} of these trials were played before and kept in {out}.")
    if not (report.cells["trials"] > report.cells["unfinished"]).any():
        raise UserError("no trial ended with an answer; the reasons are shown above")
    if report.word == "FAIL":
        raise typer.Exit(FAILED)
