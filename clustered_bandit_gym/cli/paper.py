"""The paper's experiments: reproduce, and a demo of four schemes in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from clustered_bandit_gym.cli.app import DEFAULT_ENV, FOUR, bar, command, few, say, show_document


@command("reproduce")
def reproduce(
    figures: list[str] | None = None,
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
        progress=bar(quiet),
    )
    for name in played:
        say(f"Wrote {out / name}.png and {out / name}.csv")


@command("demo")
def demo(*, out: Path = Path("out/demo"), jobs: int = -1, quiet: bool = False) -> None:
    """Play the four schemes on the paper's small instance: as in the paper, then with a verdict.

    Takes less than a minute.
    """
    from clustered_bandit_gym.harness.output.report import write_report
    from clustered_bandit_gym.harness.run import evaluate, sweep

    how: dict[str, Any] = {"n_jobs": jobs, "out": out, "progress": bar(quiet)}
    typer.echo(f"1. As in the paper: {DEFAULT_ENV}, N = 30, δ = 1e-10, 50 trials\n")
    paper = evaluate(FOUR, DEFAULT_ENV, n_agents=30, delta=1e-10, trials=few(50), **how)
    show_document(paper, "text")
    typer.echo(
        "\n2. With a verdict: δ = 0.05, where 83 trials without an error are enough for a PASS; "
        "naive:engine=mixture is what agents alone can do today\n"
    )
    policies = [*FOUR, "naive:engine=mixture"]
    judged = evaluate(policies, DEFAULT_ENV, n_agents=30, delta=0.05, trials=few(83), **how)
    show_document(judged, "text")
    board = sweep(FOUR, DEFAULT_ENV, n_agents=(9, 30, 100, 300), delta=1e-10, trials=few(10), **how)
    board.plot(out / "pulls.png")
    typer.echo(f"\n3. A picture of pulls against N and of the price: {out / 'pulls.png'}")
    page = write_report(out, out / "report.html")
    typer.echo(f"4. A report of all these trials, one page for a browser: {page}")
