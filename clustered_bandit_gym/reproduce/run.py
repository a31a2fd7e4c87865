"""The paper's experiments by one command: play every figure's settings, plot them, and judge the paper's claims.

`out` gets, for each figure, the rows (CSV) and the plot (PNG, SVG), and `claims.md`. Trials are kept in ``out/store``
as they end; an interrupted run resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from clustered_bandit_gym.errors import UserError
from research.paper.claim import Claim
from research.paper.page import claims_of, render_markdown, render_terminal
from clustered_bandit_gym.reproduce.plots import plot
from clustered_bandit_gym.reproduce.figures import DELTA, FIGURES, OURS, Figure, Played
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.run import sweep


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What came out: the figures played, the claims judged, and where `claims.md` is."""

    played: dict[str, Played]
    claims: list[Claim]
    path: Path


def reproduce(
    figures: Sequence[str] = ("all",),
    trials: int = 50,
    out: str | Path = "out/reproduce",
    *,
    seed: int = 0,
    n_jobs: int = -1,
    data: str | None = None,
    progress: bool = True,
    console: Any = None,
) -> Reproduction:
    """Play, plot and judge.

    Args:
        figures: of "fig1a" ... "fig1f", "figA-a" ... "figA-c", or "all".
        trials: runs of each setting; data set 2 has a fifth of them on each of ten fixed instances.
        out: folder for the results and the store of trials.
        data: the user's MovieLens-1M or Yelp data; None: what the environment variable CLUSTERED_BANDIT_DATA says.
            Without data fig1f and figA-a are played on stand-ins.
        console: a `rich` console for the summary; None prints to the terminal, False prints nothing.

    Raises:
        KeyboardInterrupt: interrupted. Finished trials are kept; the same call resumes.
    """
    names = list(FIGURES) if "all" in figures else list(dict.fromkeys(figures))
    unknown = [name for name in names if name not in FIGURES]
    if unknown or not names:
        raise UserError(
            f"unknown figure {', '.join(unknown) or '(none given)'}; known: all, {', '.join(FIGURES)}"
        )
    if trials < 2:
        raise UserError(f"trials must be at least 2, since intervals need two, got {trials}")
    if data is not None and not Path(data).expanduser().exists():
        # A mistyped path raises an error; it does not fall back to stand-ins.
        raise UserError(
            f"{data} does not exist; pass an existing path, or omit --data to play on stand-ins"
        )
    if console is None:
        from rich.console import Console

        console = Console()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    played: dict[str, Played] = {}
    for number, name in enumerate(names, start=1):
        figure = FIGURES[name](data)
        if console:
            source = f"  [dim]{figure.source}[/dim]" if figure.source else ""
            console.print(f"[bold]{name}[/bold] ({number} of {len(names)})  {figure.title}{source}")
        played[name] = _play(figure, trials, seed, n_jobs, folder, progress)
    claims = claims_of(played)
    path = folder / "claims.md"
    command = f"clustered-bai reproduce {'all' if len(names) == len(FIGURES) else ' '.join(names)} --trials {trials}"
    path.write_text(render_markdown(played, claims, command, seed), encoding="utf-8")
    if console:
        render_terminal(claims, console)
        console.print(f"figures, rows and claims.md are in {folder}")
    return Reproduction(played, claims, path)


def _play(
    figure: Figure, trials: int, seed: int, n_jobs: int, folder: Path, progress: bool
) -> Played:
    count = figure.trials(trials)
    runs = [
        (figure.policies, [*figure.cells, *figure.readings], count),
        # For the plot only: its pulls vary little, so a fifth of the trials suffices. No claim depends on it. Lower
        # bounds are computed in this run alone: where every trial draws its own instance they take most of the time.
        ((OURS,), [*figure.cells], max(2, -(-count // 5))),
    ]
    boards = []
    for policies, cells, number in runs:
        board = sweep(
            policies,
            figure.env,
            cells=cells,
            trials=number,
            seed=seed,
            n_jobs=n_jobs,
            out=folder / "store",
            progress=progress,
            bound=policies == (OURS,),
            delta=DELTA,
        )
        if board.missing:
            raise KeyboardInterrupt(
                f"{board.missing:,} trials of {figure.name} are left; run the same command to resume"
            )
        boards.append(board)
    board = Board(pd.concat([board.trials for board in boards], ignore_index=True))
    board.export(folder / f"{figure.name}.csv")
    rows = board.trials.copy()
    for key in ("instance_seed", "alpha", "sizes", "told"):
        rows[key] = [kwargs.get(key) for kwargs in rows["env_kwargs"]]
    rows["bound"] = rows.groupby([rows["env_kwargs"].map(str), "trial"])["bound"].transform("first")
    other = rows["told"].notna()
    result = Played(figure, rows[~other].copy(), rows[other].copy())
    plot(result.figure, result.rows, folder)
    return result
