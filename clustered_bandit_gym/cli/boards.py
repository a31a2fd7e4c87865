"""Playing policies and showing the results: list, bounds, compare, show, report, reproduce."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from traceback import print_exception
from typing import TYPE_CHECKING, Any, Literal

import typer

from clustered_bandit_gym.cli.app import (
    FAILED,
    FOUR,
    INTERRUPTED,
    Several,
    command,
    default_env,
    few,
    is_quick,
    say,
    seed_of,
    settings_of,
    show_document,
)
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.imports import load_object

if TYPE_CHECKING:
    from clustered_bandit_gym.harness.output.board import Board


@command("list")
def list_all() -> None:
    """Environments, policies and engines."""
    from clustered_bandit_gym.envs_registry import CATALOGUE
    from clustered_bandit_gym.policies import POLICIES
    from clustered_bandit_gym.policies.engines.registry import ENGINES

    envs = {
        name: entry.about + " (needs your copy of the data)" * entry.needs_data
        for name, entry in CATALOGUE.items()
    }
    policies = {}
    for name, target in POLICIES.items():
        cls = load_object(target, "policy")
        policies[name] = f"{cls.__name__}: {cls.guarantee}"
    for title, lines in (
        ("Environments", envs),
        ("Policies, and what their promise rests on", policies),
        ("Engines of naive, bai-cl and bai-cl++, e.g. naive:engine=mixture", ENGINES),
    ):
        typer.echo(title)
        for name, about in lines.items():
            typer.echo(f"  {name:30} {about}")
        typer.echo()
    typer.echo("Every environment has flat variants for learning libraries: -Discrete-v0, -Box-v0.")
    typer.echo(
        "Your own: module:Class, e.g. my_module:Mine:c=3 for Mine(c=3) in my_module.py here."
    )


@command("bounds")
def bounds(
    env: str | None = None,
    *,
    n_agents: int | None = None,
    delta: float | None = None,
    eta: float | None = None,
    set_: Several = None,
    seed: int = 0,
) -> None:
    """Lower bound on the pulls of any δ-PC policy on an instance of ENV (trial 0 of the seed)."""
    from clustered_bandit_gym.game.seeds import trial_seeds
    from clustered_bandit_gym.harness.bound import bound_of
    from clustered_bandit_gym.harness.scoring.numbers import number
    from clustered_bandit_gym.harness.settings import Cell

    settings = settings_of({"n_agents": n_agents, "delta": delta, "eta": eta}, set_)
    env = env or default_env(settings)
    unwrapped: Any = Cell(env, settings).make().unwrapped
    instance = unwrapped.draw_instance(trial_seeds(seed, 0).instance)
    problem = unwrapped.problem_of(instance)
    bound = bound_of(instance, problem)
    told = [f"{key} = {value}" for key, value in problem.to_dict().items() if value is not None]
    gap = number(instance.gaps.min())
    typer.echo(f"{env}: told {', '.join(told)}")
    typer.echo(f"the instance of trial 0 has η = {instance.eta:.4g}, smallest gap {gap}")
    least = "no bound is known" if bound is None else number(bound)
    typer.echo(f"expected pulls of any δ-PC policy, at least: {least}")


@command("compare")
def compare(
    envs: Several = None,
    *,
    policies: Several = None,
    n_agents: list[int] | None = None,
    delta: list[float] | None = None,
    eta: list[float] | None = None,
    max_pulls: int | None = None,
    set_: Several = None,
    trials: int = 100,
    seed: str = "0",
    jobs: int = 1,
    out: Path | None = None,
    backend: Literal["processes", "dask"] | None = None,
    address: str | None = None,
    max_seconds: float | None = None,
    format_: Literal["text", "csv", "json", "latex"] = "text",
    bound: bool = True,
    strict: bool = True,
    replays: int = 0,
    quiet: bool = False,
    traceback: bool = False,
) -> None:
    """Score policies on environments: correctness, pulls, communication.

    Several values of --n-agents, --delta or --eta are swept in all combinations. With --out
    finished trials are kept as they end: the same command again plays only what is missing, and
    --trials may be raised. `show` prints and plots what is kept. `--seed secret` draws 128 bits,
    which are printed at the end.

    Exit code 1 if every trial of a policy raised, 130 if the run was interrupted.

    Example: clustered-bai compare ClusteredBAI-PaperSmall-v0 --n-agents 10 30 100 --delta 1e-10
    --jobs 2 --out out
    """
    from clustered_bandit_gym.harness.run import sweep

    settings = settings_of(
        {"n_agents": n_agents, "delta": delta, "eta": eta, "max_pulls": max_pulls}, set_
    )
    board = sweep(
        policies or FOUR,
        envs or [default_env(settings)],
        trials=few(trials),
        seed=seed_of(seed),
        n_jobs=jobs,
        out=out,
        backend=backend,
        address=address,
        max_seconds=max_seconds,
        progress=not quiet,
        bound=bound,
        strict=strict,
        replays=replays,
        **settings,
    )
    show_document(board, format_)
    rows = board.trials
    if out is not None and not quiet:
        shown = shlex.quote(str(out))
        before = f"{board.reused:,} of {len(rows):,} played before"
        say(f"Trials are in {out} ({before}): `clustered-bai show {shown}`, `... report {shown}`.")
    if traceback:
        from clustered_bandit_gym.harness.play import resolve_policies
        from clustered_bandit_gym.harness.replay import replay

        players = dict(resolve_policies(policies or FOUR))
        failed: Any = rows[rows["outcome"] == "error"].drop_duplicates("policy")
        for row in failed.to_dict("records"):
            say(f"{row['policy']}, trial {row['trial']}:")
            replay(row, players[row["policy"]], on_error=print_exception)
    if board.missing:
        raise typer.Exit(INTERRUPTED)
    raised = rows["outcome"].isin(["error", "crash"]).groupby(rows["policy"], sort=False).all()
    if raised.any():
        names = ", ".join(raised.index[raised])
        say(
            f"{names} raised in every trial{'; --traceback shows where' * (not traceback)}",
            fg="red",
        )
        raise typer.Exit(FAILED)


@command("show")
def show(
    folder: Path,
    *,
    format_: Literal["text", "csv", "json", "latex"] | None = None,
    pivot: str | None = None,
    ci: bool = False,
    bold_best: bool = False,
    label: Several = None,
    plot: Path | None = None,
    x: str | None = None,
    panel: str | None = None,
    style: str | None = None,
    width: float | None = None,
    export: Path | None = None,
) -> None:
    """Scoreboard of kept trials.

    With --plot or --export that file alone is written; --format prints the board as well.
    """
    from clustered_bandit_gym.harness.output.board import Board

    if plot is None and (x or panel or style or width):
        raise UserError("--x, --panel, --style and --width are for a picture: add --plot FILE")
    if format_ != "latex" and (ci or bold_best or pivot):
        raise UserError("--pivot, --ci and --bold-best are for a table: add --format latex")
    if format_ != "latex" and label and plot is None:
        raise UserError("--label is for pictures and tables: add --plot FILE or --format latex")
    board = Board.load(folder)
    labels = _labels(board, label)
    how: Any = {}
    if format_ == "latex":
        how = {"pivot": pivot, "ci": ci, "bold_best": bold_best, "labels": labels}
    if format_ or not (plot or export):
        show_document(board, format_ or "text", **how)
    if plot is not None:
        board.plot(plot, x, panel=panel, style=style, width=width, labels=labels)
        say(f"Wrote {plot}")
    if export is not None:
        board.export(export)
        say(f"Wrote {export}")


@command("report")
def report(folder: Path, *, label: Several = None, out: Path = Path("report.html")) -> None:
    """One self-contained HTML page of kept trials."""
    from clustered_bandit_gym.harness.output.board import Board
    from clustered_bandit_gym.harness.output.report import write_report

    labels = _labels(Board.load(folder), label) if label else None
    write_report(folder, out, labels)
    typer.echo(f"Wrote {out}")


def _labels(board: Board, texts: Several) -> dict[str, str]:
    """The display names that --label gives to policies of a board, as POLICY=LABEL; both may hold
    equals signs."""
    names = sorted(board.trials["policy"].unique(), key=len, reverse=True)
    found = {}
    for text in texts or ():
        name = next((name for name in names if re.match(f"{re.escape(name)}=.", text)), None)
        if name is None:
            raise UserError(f"--label takes POLICY=LABEL, policies: {', '.join(names)}; got {text}")
        found[name] = text[len(name) + 1 :]
    return found


@command("reproduce")
def reproduce(
    figures: Several = None,
    *,
    trials: int = 50,
    out: Path = Path("out/reproduce"),
    data: str | None = None,
    seed: int = 0,
    jobs: int = -1,
    quiet: bool = False,
) -> None:
    """Play the settings of the paper's figures and plot them. An interrupted run resumes."""
    from clustered_bandit_gym.reproduce import reproduce as run_reproduce

    played = run_reproduce(
        figures or ["all"],
        few(trials),
        out,
        seed=seed,
        n_jobs=jobs,
        data=data,
        progress=not quiet,
        quick=is_quick(),
    )
    for name in played:
        say(f"Wrote {out / name}.png and {out / name}.csv")
