"""The command line `clustered-bai`."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from clustered_bandit_gym.cli.options import (
    DEFAULT_ENV,
    Address,
    Agents,
    Backend,
    Delta,
    Envs,
    Eta,
    Export,
    Format,
    Jobs,
    MaxPulls,
    Out,
    Plot,
    Policies,
    Quiet,
    Seed,
    Set,
    SpreadCommand,
    Traceback,
    grid_of,
    pairs_of,
)

FOUR = ["naive", "cl-bai", "bai-cl", "bai-cl++"]
#: Exit codes: an audit that fails; a mistake of the user's (as for any wrong option); Ctrl-C.
FAILED, MISTAKE, INTERRUPTED = 1, 2, 130


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Best-arm identification for clustered bandits: play policies, judge them, keep and show the results.",
    rich_markup_mode="rich",
)


def command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command of the app; what a user got wrong ends in one line and exit code 2 instead of a traceback."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
            except (ValueError, ImportError, FileNotFoundError, PermissionError, NotADirectoryError) as error:
                if "--traceback" in sys.argv:
                    raise
                text = str(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {error}"
                typer.secho(f"clustered-bai {name}: {text}", err=True, fg="red")
                raise typer.Exit(MISTAKE) from None
            except KeyboardInterrupt:
                typer.secho("interrupted", err=True)
                raise typer.Exit(INTERRUPTED) from None

        return app.command(name, cls=SpreadCommand)(guarded)

    return register


def few(trials: int, at_most: int = 3) -> int:
    """The trials to play: those asked for, or a handful where CLUSTERED_BANDIT_QUICK is set, to try a command out."""
    if not os.environ.get("CLUSTERED_BANDIT_QUICK") or trials <= at_most:
        return trials
    typer.echo(f"CLUSTERED_BANDIT_QUICK is set: {at_most} trials instead of {trials:,}", err=True)
    return at_most


@command("list")
def list_all() -> None:
    """Environments and policies."""
    from rich.table import Table

    from clustered_bandit_gym.envs_registry import CATALOGUE
    from clustered_bandit_gym.policies import POLICIES

    console = _console()
    table = Table("environment", "what it is", title="Environments", title_justify="left", box=None)
    for name, entry in CATALOGUE.items():
        table.add_row(name, entry.about + (" (needs your copy of the data)" if entry.needs_data else ""))
    console.print(table)
    console.print()
    table = Table("policy", "class", "promise", title="Policies", title_justify="left", box=None)
    for name, target in POLICIES.items():
        module, _, cls = target.partition(":")
        table.add_row(name, cls, getattr(import_module(module), cls).guarantee)
    console.print(table)
    console.print("\nYour own: module:Class, e.g. my_module:Mine:c=3 for Mine(c=3) in my_module.py of this folder.")


@command("compare")
def compare(
    envs: Envs = None,
    policies: Policies = None,
    n_agents: Agents = None,
    delta: Delta = None,
    eta: Eta = None,
    max_pulls: MaxPulls = None,
    set_: Set = None,
    trials: Annotated[int, typer.Option("--trials", "-t", help="Trials of each policy.", min=1)] = 50,
    seed: Seed = 0,
    jobs: Jobs = 1,
    out: Out = None,
    backend: Backend = None,
    address: Address = None,
    output: Format = "text",
    plot: Plot = None,
    export: Export = None,
    bound: Annotated[bool, typer.Option(help="Compute the instances' lower bounds.")] = True,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Score policies on environments: correctness, pulls, communication.

    Several values of --n-agents, --delta or --eta are swept in all combinations. With --out finished trials are kept as
    they end: the same command again plays only what is missing, and --trials may be raised.

    Example: clustered-bai compare ClusteredBAI-PaperSmall-v0 --n-agents 10 30 100 --delta 1e-10 --jobs 2 --out out
    """
    from clustered_bandit_gym.harness.run import sweep

    _check_format(output)
    if misplaced := [name for name in policies or [] if name.startswith("ClusteredBAI-")]:
        raise ValueError(f"{misplaced[0]} is no policy: name the ENV first, then --policies")
    grid = grid_of(n_agents, delta, eta, max_pulls, set_)
    board = sweep(
        policies or FOUR,
        envs or [DEFAULT_ENV],
        trials=few(trials),
        seed=seed,
        n_jobs=jobs,
        out=out,
        backend=backend,
        address=address,
        progress=not quiet and sys.stderr.isatty(),
        bound=bound,
        **grid,
    )
    _show(board, output, plot, export)
    if out is not None:
        typer.echo(f"Trials are in {out}: `clustered-bai show {out}`, `clustered-bai report {out}`.", err=True)
    if board.missing:
        raise typer.Exit(INTERRUPTED)


@command("show")
def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `compare --out` has filled.")],
    output: Format = "text",
    plot: Plot = None,
    export: Export = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also trials of policies whose code has changed since.")
    ] = False,
    traceback: Traceback = False,
) -> None:
    """Scoreboard and plots of kept trials. Without --plot the picture goes to DIR/board.png."""
    from clustered_bandit_gym.harness.output.board import Board
    from clustered_bandit_gym.harness.store import Store

    _check_format(output)
    board = Board.load(folder, everything)
    if not len(board.trials):
        raise ValueError(f"{folder} holds no trials yet")
    _show(board, output, plot or (folder / "board.png" if output == "text" else None), export)
    with Store(folder, create=False) as store:
        outdated = store.outdated()
    if outdated and not everything:
        typer.echo(f"{outdated:,} trials of code that has changed since are left out (--all shows them).", err=True)


@command("audit")
def audit(
    policy: Annotated[str, typer.Argument(help="A name, or module:Class, with settings after a colon.")],
    delta: Annotated[float, typer.Option("--delta", "-d", help="δ at which the policy is tested.")] = 0.1,
    trials: Annotated[int | None, typer.Option("--trials", "-t", help="Trials per cell.", min=1)] = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter suite.")] = False,
    max_pulls: MaxPulls = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Hunt for errors on instances built to provoke them. Exit code 1 if the policy fails."""
    from clustered_bandit_gym.harness.audit.audit import audit as run_audit

    progress = not quiet and sys.stderr.isatty()
    report = run_audit(policy, delta, trials, seed, jobs, quick=quick, max_pulls=max_pulls, progress=progress)
    typer.echo(str(report))
    if not (report.cells["trials"] > report.cells["unfinished"]).any():
        raise ValueError("no trial came to an answer; the reasons are above")
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
    console = _console()
    console.print(head, highlight=False)
    for table in found:
        console.print(to_rich(table, console.width))


@command("reproduce")
def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(metavar="FIGURE...", help="fig1a, ...; default all.")] = None,
    trials: Annotated[int, typer.Option("--trials", "-t", help="Runs of each setting.", min=2)] = 50,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for trials, tables, figures.")] = Path(
        "out/reproduce"
    ),
    data: Annotated[
        str | None, typer.Option("--data", help="Your copy of MovieLens-1M or Yelp; else stand-ins.")
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """The paper's experiments again: its figures, and what it claims beside what was measured."""
    from clustered_bandit_gym.experiments.reproduce import reproduce as run_reproduce

    progress = not quiet and sys.stderr.isatty()
    run_reproduce(
        figures or ["all"], few(trials), out, seed=seed, n_jobs=jobs, data=data, progress=progress, console=_console()
    )


@command("beyond")
def beyond(
    trials: Annotated[int, typer.Option("--trials", "-t", help="Trials of each setting.", min=1)] = 20,
    seed: Seed = 0,
    jobs: Jobs = -1,
    out: Out = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """StructuredBAI beside BAI-Cl++ on the paper's settings: pulls, ratio, distance to the lower bound.

    With --out the trials are kept, and the table goes to beyond.md there.
    """
    from clustered_bandit_gym.experiments.beyond import beyond_table

    progress = not quiet and sys.stderr.isatty()
    typer.echo(beyond_table(few(trials), seed, out, jobs, progress))


@command("train")
def train(
    env: Annotated[str, typer.Argument(metavar="ENV", help="The environment to train on.")] = "ClusteredBAI-Tiny-v0",
    algo: Annotated[str, typer.Option("--algo", help="maskable-ppo, ppo, a2c or dqn.")] = "maskable-ppo",
    steps: Annotated[int, typer.Option("--steps", help="Environment steps in all.", min=1)] = 1_200_000,
    n_envs: Annotated[int, typer.Option("--n-envs", help="Sub-environments stepped at once.", min=1)] = 128,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes.")] = Path("model.zip"),
    seed: Seed = 0,
    trials: Annotated[
        int, typer.Option("--trials", help="Held-out instances of the final comparison; 0 for none.", min=0)
    ] = 2000,
    evaluate_only: Annotated[
        Path | None, typer.Option("--evaluate-only", metavar="MODEL", help="Compare this model; train nothing.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="KEY=VALUE: a setting of the training (width, gamma, ...), else of the environment."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start anew where OUT holds another run.")] = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Train a player with reinforcement learning, then compare it with uniform sampling at the same error rate.

    Play it as `learned:model.zip`. A run that was killed goes on where its last evaluation was. Model files hold
    pickles, which Stable-Baselines3 would run; this command and `learned:` read only their tensors and settings, and
    only files that you name.
    """
    from dataclasses import fields

    from clustered_bandit_gym.policies.learned.training import TrainSettings, shortened
    from clustered_bandit_gym.policies.learned.training import evaluate as run_evaluate
    from clustered_bandit_gym.policies.learned.training import train as run_train

    if evaluate_only is not None:
        typer.echo(run_evaluate(evaluate_only, trials or 2000))
        return
    given = pairs_of(set_)
    own = {name: given.pop(name) for name in [field.name for field in fields(TrainSettings)] if name in given}
    if twice := sorted(set(own) & {"env", "env_kwargs", "algo", "steps", "n_envs", "seed"}):
        raise ValueError(f"{', '.join(twice)} has an option or argument of its own")
    settings = TrainSettings(env=env, env_kwargs=given, algo=algo, steps=steps, n_envs=n_envs, seed=seed, **own)
    if os.environ.get("CLUSTERED_BANDIT_QUICK"):
        settings, trials = shortened(settings), few(trials, 50)
    run_train(settings, out, overwrite=overwrite, progress=not quiet)
    if trials:
        typer.echo(run_evaluate(out, trials))
    typer.echo(f"Wrote {out}: `clustered-bai compare {env} --policies learned:{out} uniform-glr`")


@command("report")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `compare --out` has filled.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    traceback: Traceback = False,
) -> None:
    """One self-contained HTML page of kept trials."""
    from clustered_bandit_gym.harness.output.report import write_report

    write_report(folder, out)
    typer.echo(f"Wrote {out}")


@command("demo")
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for trials, picture and report.")] = Path("out/demo"),
    jobs: Jobs = -1,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """The four schemes on the paper's small instance, in under a minute: as in the paper, then with a verdict."""
    from clustered_bandit_gym.experiments.demo import run_demo

    run_demo(out, jobs, not quiet and sys.stderr.isatty(), _console())


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        from clustered_bandit_gym import __version__

        typer.echo(f"clustered-bandit-gym {__version__}")
        raise typer.Exit()


def main() -> None:
    """Entry point."""
    warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)  # type: ignore[assignment]
    app()


# --- helpers ---------------------------------------------------------------------------------------------------------


def _console() -> Any:
    """The terminal, or 120 columns where there is none."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=120)


def _check_format(output: str) -> None:
    if output not in ("text", "markdown", "latex", "csv", "json"):
        raise ValueError(f"--format is text, markdown, latex, csv or json, not {output!r}")


def _show(board: Any, output: str, plot: Path | None, export: Path | None) -> None:
    if output == "text":
        board.print(_console())
    elif output == "json":
        typer.echo(board.summary.to_json(orient="records", indent=1))
    else:
        typer.echo({"markdown": board.to_markdown, "latex": board.to_latex, "csv": board.to_csv}[output]())
    if plot is not None:
        board.plot(plot)
        typer.echo(f"Wrote {plot}", err=True)
    if export is not None:
        board.export(export)
        typer.echo(f"Wrote {export}", err=True)


if __name__ == "__main__":
    main()
