"""The paper's experiments: reproduce, and a demo of four schemes in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clustered_bandit_gym.cli.app import bar, command, console, few
from clustered_bandit_gym.cli.options import DEFAULT_ENV, FOUR

#: The δ at which the demo asks for a verdict; the paper's 1e-10 cannot have one.
DELTA = 0.05


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

    run_reproduce(
        figures or ["all"],
        few(trials),
        out,
        seed=seed,
        n_jobs=jobs,
        data=data,
        progress=bar(quiet),
        console=console(),
    )


@command("demo")
def demo(*, out: Path = Path("out/demo"), jobs: int = -1, quiet: bool = False) -> None:
    """Play the four schemes on the paper's small instance: as in the paper, then with a verdict.

    Takes less than a minute.
    """
    from clustered_bandit_gym.harness.output.report import write_report
    from clustered_bandit_gym.harness.run import evaluate, sweep
    from clustered_bandit_gym.harness.scoring.verdict import verdict

    screen = console()
    how: dict[str, Any] = {"n_jobs": jobs, "out": out, "progress": bar(quiet)}
    screen.print(f"[bold]1. As in the paper[/bold]: {DEFAULT_ENV}, N = 30, δ = 1e-10, 50 trials\n")
    evaluate(FOUR, DEFAULT_ENV, n_agents=30, delta=1e-10, trials=few(50), **how).print(screen)
    trials = few(verdict(0, 0, DELTA).more or 0)
    screen.print(
        f"\n[bold]2. With a verdict[/bold]: δ = {DELTA}, where {trials} trials without an error "
        "are enough for a PASS; naive:engine=mixture is what agents alone can do today\n"
    )
    policies = [*FOUR, "naive:engine=mixture"]
    evaluate(policies, DEFAULT_ENV, n_agents=30, delta=DELTA, trials=trials, **how).print(screen)
    board = sweep(FOUR, DEFAULT_ENV, n_agents=(9, 30, 100, 300), delta=1e-10, trials=few(10), **how)
    board.plot(out / "pulls.png")
    screen.print(
        "\n[bold]3. A picture[/bold] of pulls against N and of the price in communication: "
        f"{out / 'pulls.png'}"
    )
    page = out / "report.html"
    write_report(out, page, overwrite=True)
    screen.print(f"[bold]4. A report[/bold] of all these trials, one page for a browser: {page}")
