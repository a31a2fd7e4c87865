"""The verb `demo`: four schemes, two scoreboards, a picture and a report, in a minute."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from clustered_bandit_gym.cli.app import command, console
from clustered_bandit_gym.cli.options import DEFAULT_ENV, FOUR, Jobs, Quiet, Traceback

#: The δ at which the demo asks for a verdict; the paper's 1e-10 cannot have one.
DELTA = 0.05


@command("demo")
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for trials, picture and report.")
    ] = Path("out/demo"),
    jobs: Jobs = -1,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Play the four schemes on the paper's small instance: as in the paper, then with a verdict.

    Takes less than a minute.
    """
    run_demo(out, jobs, not quiet and sys.stderr.isatty(), console())


def run_demo(out: Path, jobs: int, progress: bool, console: Any) -> None:
    """Play, print, and leave trials, a picture and a report in `out`."""
    from clustered_bandit_gym.harness.output.report import write_report
    from clustered_bandit_gym.harness.run import evaluate, sweep
    from clustered_bandit_gym.harness.scoring.verdict import verdict

    console.print(f"[bold]1. As in the paper[/bold]: {DEFAULT_ENV}, N = 30, δ = 1e-10, 50 trials\n")
    board = evaluate(
        FOUR,
        DEFAULT_ENV,
        n_agents=30,
        delta=1e-10,
        trials=50,
        n_jobs=jobs,
        out=out,
        progress=progress,
    )
    board.print(console)
    trials = verdict(0, 0, DELTA).more or 0
    console.print(
        f"\n[bold]2. With a verdict[/bold]: δ = {DELTA}, where {trials} trials without an error "
        "are enough for a PASS; naive:engine=mixture is what agents alone can do today\n"
    )
    board = evaluate(
        [*FOUR, "naive:engine=mixture"],
        DEFAULT_ENV,
        n_agents=30,
        delta=DELTA,
        trials=trials,
        n_jobs=jobs,
        out=out,
        progress=progress,
    )
    board.print(console)
    picture = out / "pulls.png"
    sizes = (9, 30, 100, 300)
    board = sweep(
        FOUR,
        DEFAULT_ENV,
        n_agents=sizes,
        delta=1e-10,
        trials=10,
        n_jobs=jobs,
        out=out,
        progress=progress,
    )
    board.plot(picture)
    console.print(
        "\n[bold]3. A picture[/bold] of pulls against N and of the price in communication: "
        f"{picture}"
    )
    page = out / "report.html"
    write_report(out, page, overwrite=True)
    console.print(f"[bold]4. A report[/bold] of all these trials, one page for a browser: {page}")
