"""The frozen benchmark: suite run, verify, board."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import typer

from clustered_bandit_gym.cli.app import FAILED, Several, command, say, write
from clustered_bandit_gym.errors import UserError


@command("suite run")
def run(
    policy: str,
    *,
    out: Path,
    quick: bool = False,
    jobs: int = 1,
    name: str | None = None,
    authors: str = "",
    link: str = "",
    guarantee: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Play suite v2 with one policy and write a submission. The same command again resumes an
    interrupted run.

    Example: clustered-bai suite run mine:Mine --out submissions/mine --jobs 2
    """
    from clustered_bandit_gym.suite.files import cell_table
    from clustered_bandit_gym.suite.submission import run_suite

    submission = run_suite(
        policy,
        out,
        quick=quick,
        n_jobs=jobs,
        name=name,
        authors=authors,
        link=link,
        guarantee=guarantee,
        overwrite=overwrite,
        progress=not quiet,
    )
    typer.echo(cell_table(submission))
    shown = shlex.quote(str(out))
    say(
        f"Wrote {out}: `clustered-bai suite verify {shown}`, `clustered-bai suite board {shown} ...`"
    )
    if all(row["outcome"] in ("error", "crash") for row in submission.rows):
        say(f"{policy} raised in every trial", fg="red")
        raise typer.Exit(FAILED)


@command("suite verify")
def verify(folder: Path, *, replay: int = 20, secret_seed: bool = False, yes: bool = False) -> None:
    """Check a submission: format, digest, completeness, scores, a sample of trials. Exit code 1 on
    any mismatch.

    Replaying runs the submission's code, so the command asks first: read its source, or use
    --replay 0.
    """
    from clustered_bandit_gym.suite.checker import checked, fresh
    from clustered_bandit_gym.suite.checker import verify as check

    question = f"Replaying trials runs the code of {folder}. Run it (--yes: do not ask)?"
    try:
        if checked(folder) and (replay or secret_seed) and not yes:
            typer.confirm(question, abort=True, err=True)
        found = check(folder, replay)
        others = ""
        if secret_seed:
            table = fresh(folder).rename_axis(columns=None).reset_index()
            others = table.to_string(index=False, float_format="{:.3g}".format)
            others = others if len(table) else "none: no cell is solved"
    except UserError as error:
        say(f"NOT VERIFIED: {error}", fg="red")
        raise typer.Exit(FAILED) from None
    for note in found.notes:
        say(f"note: {note}")
    how = "bit for bit" if found.exact else f"on another platform, {found.different} differ"
    typer.echo(
        f"VERIFIED: {folder}: format, digest, completeness and scores hold; {len(found.replayed)} "
        f"trials replayed {how}"
    )
    if others:
        typer.echo(f"Fresh instances, pulls over those on the shipped ones:\n{others}")


@command("suite board")
def board(
    folders: list[Path],
    *,
    out: Path = Path("leaderboard.html"),
    format_: Literal["html", "json", "text"] = "html",
    highlight: Several = None,
) -> None:
    """The leaderboard: one self-contained HTML page, JSON, or a table. No trial is replayed.

    Example: clustered-bai suite board mine submissions/quick/* --highlight mine
    """
    from clustered_bandit_gym.suite.leaderboard import board_json, board_text, leaderboard_page

    if format_ != "html":
        typer.echo(board_json(folders) if format_ == "json" else board_text(folders))
    else:
        write(leaderboard_page(folders, highlight or []), out)
