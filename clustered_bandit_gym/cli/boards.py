"""Playing policies and showing the results: list, compare, show, report."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustered_bandit_gym.cli.app import (
    FAILED,
    INTERRUPTED,
    command,
    console,
    few,
    say,
    tell_reused,
)
from clustered_bandit_gym.cli.options import (
    FOUR,
    Address,
    Agents,
    Backend,
    Columns,
    Delta,
    Envs,
    Eta,
    Export,
    Folder,
    Format,
    Jobs,
    MaxPulls,
    MaxSeconds,
    OpenSeed,
    Out,
    Plot,
    Policies,
    Quiet,
    Replays,
    Set,
    Strict,
    Traceback,
    X,
    check_format,
    default_env,
    grid_of,
)
from clustered_bandit_gym.errors import UserError

if TYPE_CHECKING:
    from clustered_bandit_gym.harness.output.board import Board


@command("list")
def list_all() -> None:
    """Environments and policies."""
    from rich.table import Table

    from clustered_bandit_gym.envs_registry import CATALOGUE
    from clustered_bandit_gym.policies import POLICIES

    screen = console()
    table = Table("environment", "what it is", title="Environments", title_justify="left", box=None)
    for name, entry in CATALOGUE.items():
        needs = " (needs your copy of the data)" if entry.needs_data else ""
        table.add_row(name, entry.about + needs)
    screen.print(table)
    screen.print()
    table = Table("policy", "class", "promise", title="Policies", title_justify="left", box=None)
    for name, target in POLICIES.items():
        module, _, cls = target.partition(":")
        table.add_row(name, cls, getattr(import_module(module), cls).guarantee)
    screen.print(table)
    screen.print(
        "\nYour own: module:Class, e.g. my_module:Mine:c=3 for Mine(c=3) in my_module.py of this "
        "folder."
    )


@command("compare")
def compare(
    envs: Envs = None,
    policies: Policies = None,
    n_agents: Agents = None,
    delta: Delta = None,
    eta: Eta = None,
    max_pulls: MaxPulls = None,
    set_: Set = None,
    trials: Annotated[
        int, typer.Option("--trials", "-t", help="Trials of each policy.", min=1)
    ] = 50,
    seed: OpenSeed = 0,
    jobs: Jobs = 1,
    out: Out = None,
    backend: Backend = None,
    address: Address = None,
    max_seconds: MaxSeconds = None,
    output: Format = "text",
    columns: Columns = None,
    plot: Plot = None,
    x: X = None,
    export: Export = None,
    bound: Annotated[bool, typer.Option(help="Compute the instances' lower bounds.")] = True,
    strict: Strict = True,
    replays: Replays = 0,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Score policies on environments: correctness, pulls, communication.

    Several values of --n-agents, --delta or --eta are swept in all combinations. With --out
    finished trials are kept as they end: the same command again plays only what is missing, and
    --trials may be raised. `show` has more ways to print what is kept.

    Exit code 1 if every trial of a policy raised, 130 if the run was interrupted.

    Example: clustered-bai compare ClusteredBAI-PaperSmall-v0 --n-agents 10 30 100 --delta 1e-10
    --jobs 2 --out out
    """
    from clustered_bandit_gym.harness.run import resolve_policies, sweep

    shown = Shown(output, columns, plot, x, export)
    if misplaced := [name for name in policies or [] if name.startswith("ClusteredBAI-")]:
        raise UserError(
            f"{misplaced[0]} is an environment, not a policy: name it before --policies"
        )
    grid = grid_of(n_agents, delta, eta, max_pulls, set_)
    varied = [key for key, value in grid.items() if isinstance(value, list) and len(value) > 1]
    if len(set(envs or [])) > 1:
        varied.insert(0, "env")
    shown.check_columns(varied)
    players = resolve_policies(policies or FOUR)
    board = sweep(
        [player for _, player in players],
        envs or [default_env(grid)],
        trials=few(trials),
        seed=seed,
        n_jobs=jobs,
        out=out,
        backend=backend,
        address=address,
        max_seconds=max_seconds,
        progress=not quiet,
        bound=bound,
        strict=strict,
        replays=replays,
        **grid,
    )
    shown.show(board)
    tell_reused(board.reused, len(board.trials), out, quiet)
    if out is not None and not quiet:
        say(f"Trials are in {out}: `clustered-bai show {out}`, `clustered-bai report {out}`.")
    broken = tell_broken(board, dict(players), traceback)
    if board.missing:
        raise typer.Exit(INTERRUPTED)
    if broken:
        raise typer.Exit(FAILED)


@command("show")
def show(
    folder: Folder,
    output: Format = "text",
    columns: Columns = None,
    plot: Plot = None,
    x: X = None,
    panel: Annotated[
        str | None,
        typer.Option(
            help="One panel: pulls, communication, busiest (agent) or tradeoff.",
            show_default="pulls and communication",
        ),
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(help="paper: one panel in small type, no title.", show_default="for a screen"),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(
            help="Of the picture, in inches: 3.25 for a column.", show_default="automatic"
        ),
    ] = None,
    pivot: Annotated[
        str | None,
        typer.Option(
            metavar="SETTING",
            help="With --format latex: pulls in one table, a row per policy, a column per value.",
            show_default="two tables",
        ),
    ] = None,
    ci: Annotated[
        bool, typer.Option("--ci", help="With --pivot: intervals after the means.")
    ] = False,
    bold_best: Annotated[
        bool, typer.Option("--bold-best", help="With --pivot: the best of each column in bold.")
    ] = False,
    export: Export = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also trials of policies whose code has changed since.")
    ] = False,
    traceback: Traceback = False,
) -> None:
    """Scoreboard of kept trials. Files are written only with --plot and --export."""
    from clustered_bandit_gym.harness.output.board import Board
    from clustered_bandit_gym.harness.store import Store

    picture = {"panel": panel, "style": style, "width": width}
    table = {"pivot": pivot, "ci": ci, "bold_best": bold_best}
    if plot is None and any(value is not None for value in picture.values()):
        raise UserError("--panel, --style and --width are for a picture: add --plot FILE")
    if pivot is None and (ci or bold_best):
        raise UserError("--ci and --bold-best are for one table: add --pivot SETTING")
    if pivot is not None and output != "latex":
        raise UserError("--pivot writes a table for LaTeX: add --format latex")
    shown = Shown(output, columns, plot, x, export, picture, table)
    board = Board.load(folder, everything)
    if not len(board.trials):
        raise UserError(f"{folder} holds no trials yet")
    shown.show(board)
    with Store(folder, create=False) as store:
        outdated = store.outdated()
    if outdated and not everything:
        say(f"{outdated:,} trials of code that has changed since are left out (--all shows them).")


@command("report")
def report(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    x: X = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing page.")] = False,
    traceback: Traceback = False,
) -> None:
    """One self-contained HTML page of kept trials."""
    from clustered_bandit_gym.harness.output.report import write_report

    write_report(folder, out, x=x, overwrite=force)
    typer.echo(f"Wrote {out}")


def tell_broken(board: Board, players: dict[str, Any], traceback: bool) -> list[str]:
    """The policies that raised in every trial.

    They are named on stderr, with tracebacks if those were asked for.
    """
    fails = board.trials["outcome"].isin(["error", "crash"])
    raised = board.trials[fails]
    answered = set(board.trials[~fails]["policy"])
    broken = [name for name in players if name in set(raised["policy"]) - answered]
    if traceback:
        from clustered_bandit_gym.harness.replay import traceback_of

        errors = raised[raised["outcome"] == "error"].drop_duplicates("policy")
        for _, found in errors.iterrows():
            row = {str(key): value for key, value in found.items()}
            name = row["policy"]
            say(f"{name}, trial {row['trial']}:\n{traceback_of(row, players[name])}")
    hint = "" if traceback else "; --traceback shows where"
    for name in broken:
        say(f"clustered-bai compare: {name} raised in every trial{hint}", fg="red")
    return broken


class Shown:
    """How a board is printed and which files are written.

    Mistakes raise here, before any trial is played.
    """

    def __init__(
        self,
        output: str,
        columns: str | None,
        plot: Path | None,
        x: str | None,
        export: Path | None,
        picture: dict[str, Any] | None = None,
        table: dict[str, Any] | None = None,
    ) -> None:
        check_format(output)
        if x is not None and plot is None:
            raise UserError("--x chooses the axis of a picture: add --plot FILE")
        self.output = output
        self.plot = plot
        self.x = x
        self.export = export
        self.picture = picture or {}
        self.table = table or {}
        self.columns = None if columns is None else [name.strip() for name in columns.split(",")]
        self.varied: list[str] = []
        if plot is not None:
            from clustered_bandit_gym.harness.output.panels import check_panel
            from clustered_bandit_gym.harness.output.plots import check_suffix

            check_suffix(plot)
            if self.picture.get("panel") is not None:
                check_panel(self.picture["panel"])
        if export is not None:
            from clustered_bandit_gym.harness.output.board import check_export

            check_export(export)

    def check_columns(self, varied: list[str]) -> None:
        """Refuse columns that a board in which these settings vary does not have."""
        if self.columns is not None:
            from clustered_bandit_gym.harness.output.layout import check_columns

            check_columns(self.columns, varied)
            self.varied = varied

    def show(self, board: Board) -> None:
        """Print the board and write the files."""
        if self.columns is not None:
            # A run that is interrupted at the first value of a setting has no column for it.
            columns = [
                name for name in self.columns if name not in self.varied or name in board.summary
            ]
            self.columns = columns or None
        self.check_columns(board.varied)
        if self.output == "text":
            board.print(console(), self.columns)
        elif self.output == "latex":
            typer.echo(board.to_latex(self.columns, **self.table))
        elif self.output == "csv":
            typer.echo(board.to_csv(self.columns))
        elif self.output == "markdown":
            typer.echo(board.to_markdown(self.columns))
        else:
            typer.echo(board.to_json(self.columns))
        if self.plot is not None:
            board.plot(self.plot, self.x, **self.picture)
            say(f"Wrote {self.plot}")
        if self.export is not None:
            board.export(self.export)
            say(f"Wrote {self.export}")
