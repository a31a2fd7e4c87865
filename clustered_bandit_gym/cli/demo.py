"""The tour of a minute: four schemes, two scoreboards, a picture and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clustered_bandit_gym.harness.output.report import write_report
from clustered_bandit_gym.harness.run import evaluate, sweep
from clustered_bandit_gym.harness.scoring.verdict import verdict

ENV = "ClusteredBAI-PaperSmall-v0"
FOUR = ("naive", "cl-bai", "bai-cl", "bai-cl++")
#: The δ at which the demo asks for a verdict; the paper's 1e-10 cannot have one.
DELTA = 0.05


def trials_for_pass(delta: float) -> int:
    """The fewest trials, all without an error, that give a PASS."""
    more = verdict(0, 0, delta).more
    assert more is not None
    return more


def run_demo(out: Path, jobs: int, progress: bool, console: Any) -> None:
    """Plays, prints, and leaves trials, a picture and a report in `out`."""
    console.print(f"[bold]1. As in the paper[/bold]: {ENV}, N = 30, δ = 1e-10, 50 trials\n")
    board = evaluate(
        FOUR, ENV, n_agents=30, delta=1e-10, trials=50, n_jobs=jobs, out=out, progress=progress
    )
    board.print(console)
    trials = trials_for_pass(DELTA)
    console.print(
        f"\n[bold]2. With a verdict[/bold]: δ = {DELTA}, where {trials} trials without an error are enough for a PASS\n"
    )
    board = evaluate(
        FOUR, ENV, n_agents=30, delta=DELTA, trials=trials, n_jobs=jobs, out=out, progress=progress
    )
    board.print(console)
    picture = out / "pulls.png"
    sizes = (9, 30, 100, 300)
    board = sweep(
        FOUR, ENV, n_agents=sizes, delta=1e-10, trials=10, n_jobs=jobs, out=out, progress=progress
    )
    board.plot(picture)
    console.print(
        f"\n[bold]3. A picture[/bold] of pulls against N and of the price in communication: {picture}"
    )
    page = out / "report.html"
    write_report(out, page, overwrite=True)
    console.print(f"[bold]4. A report[/bold] of all these trials, one page for a browser: {page}")
