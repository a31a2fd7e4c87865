"""The verb `audit`."""

from __future__ import annotations

from pathlib import Path

import typer

from clustered_bandit_gym.cli.app import FAILED, bar, command, console, say, tell_reused
from clustered_bandit_gym.cli.options import check_format, seed_of
from clustered_bandit_gym.errors import UserError


@command("audit")
def audit(
    policy: str,
    *,
    delta: float | None = None,
    trials: int | None = None,
    seed: str = "0",
    jobs: int = 1,
    quick: bool = False,
    search: str | None = None,
    save: Path = Path("worst-game.json"),
    game: Path | None = None,
    max_pulls: int | None = None,
    max_seconds: float | None = None,
    out: Path | None = None,
    format_: str = "text",
    replays: int = 1,
    quiet: bool = False,
    traceback: bool = False,
) -> None:
    """Play instances built to provoke errors, and judge each by a sequential test.

    Exit code 1 if the policy fails.

    With --out finished trials are kept as they end, and the same command resumes an interrupted
    audit. With --search small games are varied until the policy errs more often than δ on one of
    them, judged by fresh trials; --game plays that one again.
    """
    from clustered_bandit_gym.harness.audit.audit import audit as run_audit
    from clustered_bandit_gym.harness.audit.search import load_game

    check_format(format_)
    root = seed_of(seed)
    if search is not None:
        if game or quick or out or delta or trials or max_pulls:
            raise UserError(
                "--search plays games of its own, at δ of its own: leave out --game, --quick, "
                "--out, --delta, --trials and --max-pulls"
            )
        return run_search(policy, seconds_of(search), root, save, quiet)
    found, saved_delta = (None, 0.1) if game is None else load_game(game)
    report = run_audit(
        policy,
        saved_delta if delta is None else delta,
        trials,
        root,
        jobs,
        quick=quick,
        cells=None if found is None else [found],
        max_pulls=max_pulls,
        replays=replays,
        out=out,
        max_seconds=max_seconds,
        progress=bar(quiet),
    )
    if format_ == "text":
        report.print(console())
        typer.echo(f"Seed: {root}.")
    else:
        typer.echo(getattr(report, f"to_{format_}")().rstrip("\n"))
    tell_reused(report.reused, int(report.cells["trials"].sum()), out, quiet)
    if traceback and report.raised is not None:
        from clustered_bandit_gym.harness.replay import traceback_of
        from clustered_bandit_gym.policies.registry import make

        say(traceback_of(report.raised, make(policy)))
    if not (report.cells["trials"] > report.cells["unfinished"]).any():
        raise UserError("no trial ended with an answer; the reasons are shown above")
    if report.word == "FAIL":
        raise typer.Exit(FAILED)


def run_search(policy: str, seconds: float, seed: int, save: Path, quiet: bool) -> None:
    """`audit --search`: print the worst game found and save it."""
    from clustered_bandit_gym.harness.audit.search import search

    def tell(text: str) -> None:
        if not quiet:
            say(text)

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
    import pandas as pd

    try:
        seconds = pd.Timedelta(text).total_seconds()
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UserError(f"--search takes a number followed by s, m or h, e.g. 10m; got {text!r}")
    return seconds
