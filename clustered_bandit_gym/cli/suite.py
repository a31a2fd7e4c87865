"""The frozen benchmark: suite run, verify, board, rescore, reference, cells."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from clustered_bandit_gym.cli.app import FAILED, app, command, console
from clustered_bandit_gym.cli.options import Jobs, Quiet, Traceback

group = typer.Typer(
    no_args_is_help=True,
    help="The frozen benchmark: run it, verify a submission, build the leaderboard.",
)
app.add_typer(group, name="suite")

Quick = Annotated[
    bool, typer.Option("--quick", help="The short run: a stated subset of cells and trials.")
]


@command("run", group)
def run(
    policy: Annotated[
        str, typer.Argument(help="A name, or module:Class, with settings after a colon.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the submission.")],
    quick: Quick = False,
    jobs: Jobs = 1,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name on the leaderboard.", show_default="the policy's"),
    ] = None,
    authors: Annotated[str, typer.Option("--authors", help="Who made the policy.")] = "",
    link: Annotated[str, typer.Option("--link", help="Paper, proof or repository.")] = "",
    guarantee: Annotated[
        str | None,
        typer.Option(
            "--guarantee",
            help="proved (needs --link), claimed or none.",
            show_default="the policy's",
        ),
    ] = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Play suite v2 with one policy and write a submission. The same command again resumes an
    interrupted run.

    Example: clustered-bai suite run mine:Mine --out submissions/mine --jobs 2
    """
    from clustered_bandit_gym.suite.files import readme
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
        progress=not quiet and sys.stderr.isatty(),
    )
    typer.echo(readme(submission))
    typer.echo(
        f"Wrote {out}. Next: `clustered-bai suite verify {out}`, `clustered-bai suite board {out} "
        "...`",
        err=True,
    )


@command("verify", group)
def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A submission.")],
    replay: Annotated[
        int, typer.Option("--replay", help="Trials to play again; 0 runs no code of it.", min=0)
    ] = 20,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Of the choice of these trials.", show_default="random"),
    ] = None,
    secret_seed: Annotated[
        bool,
        typer.Option("--secret-seed", help="Play fresh instances of each family as well."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Replay without asking first.")] = False,
    traceback: Traceback = False,
) -> None:
    """Check a submission: format, digest, completeness, scores, a sample of trials. Exit code 1 on
    any mismatch.

    Replaying runs the submission's code, so the command asks first: read its source, or use
    --replay 0.
    """
    from clustered_bandit_gym.errors import UserError
    from clustered_bandit_gym.suite.checker import Mismatch, fresh
    from clustered_bandit_gym.suite.checker import verify as check

    if (replay or secret_seed) and not yes:
        question = f"Replaying trials runs the code of the submission {folder}. Run it?"
        typer.confirm(question, abort=True, err=True)
    try:
        found = check(folder, replay, seed)
        others = fresh(folder) if secret_seed else []
    except (Mismatch, UserError) as error:
        typer.secho(f"NOT VERIFIED: {error}", err=True, fg="red")
        raise typer.Exit(FAILED) from None
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    count = len(found.replayed)
    how = (
        "bit for bit"
        if found.exact
        else f"for another platform: {count - found.different} agree, {found.different} do not"
    )
    typer.echo(
        f"VERIFIED: {folder}: format, digest, completeness and scores hold; {count} trials "
        f"replayed {how}"
    )
    if others:
        typer.echo(f"Fresh instances of each family (seed {others[0]['seed']}):")
    for one in others:
        ratio = one["pulls"] / one["pulls_shipped"]
        typer.echo(
            f"  {one['cell']}: {one['wrong']} of {one['trials']} wrong, {one['without_answer']} "
            f"without an answer, {ratio:.3g} times the pulls on the shipped instances"
        )


@command("reference", group)
def reference(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the submissions.")] = Path(
        "submissions"
    ),
    names: Annotated[
        list[str] | None, typer.Option("--only", help="Only these folders.", show_default="all")
    ] = None,
    quick: Quick = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Make the reference submissions: every policy that ships."""
    from clustered_bandit_gym.suite.submission import make_references

    progress = not quiet and sys.stderr.isatty()
    make_references(out, quick=quick, n_jobs=jobs, names=names, progress=progress)


@command("rescore", group)
def rescore(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Submissions.")],
    traceback: Traceback = False,
) -> None:
    """Compute the scores of submissions again from their rows, after lower bounds have been
    replaced by larger ones.
    """
    from clustered_bandit_gym.suite.submission import rescore as compute

    for folder in folders:
        compute(folder)
        typer.echo(f"Wrote {folder}")


@command("cells", group)
def cells(traceback: Traceback = False) -> None:
    """The cells of suite v2, with what each of them probes."""
    from rich.table import Table

    from clustered_bandit_gym.suite.cells import cells_of

    table = Table("cell", "track", "δ", "trials", "quick", "tags", "probes", box=None)
    for cell in cells_of("v2").values():
        counts = (f"{cell.delta:g}", str(cell.trials), str(cell.quick or ""))
        table.add_row(cell.name, cell.track, *counts, ", ".join(cell.tags), cell.probes)
    console().print(table)


@command("board", group)
def board(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Submissions, all full or all quick.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "leaderboard.html"
    ),
    format_: Annotated[
        str, typer.Option("--format", help="html writes the page; json prints the order.")
    ] = "html",
    highlight: Annotated[
        list[str] | None,
        typer.Option("--highlight", help="Mark the submission of this name.", show_default="none"),
    ] = None,
    traceback: Traceback = False,
) -> None:
    """The leaderboard: one self-contained HTML page, or JSON. No trial is replayed.

    Example: clustered-bai suite board mine submissions/quick/* --highlight mine
    """
    from clustered_bandit_gym.suite.leaderboard import board_json, leaderboard_page

    if format_ == "json":
        typer.echo(board_json(folders))
        return
    if format_ != "html":
        raise typer.BadParameter("--format must be html or json")
    page = leaderboard_page(folders, highlight or [])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    typer.echo(f"Wrote {out}")
