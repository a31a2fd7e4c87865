"""Play the settings of the paper's figures and plot them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from clustered_bandit_gym._types import FilePath, Values
from clustered_bandit_gym.errors import UserError, needs_extra
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.run import sweep
from clustered_bandit_gym.reproduce.figures import DELTA, FIGURES, OURS, Figure, Played, fifth


def reproduce(
    figures: Sequence[str] = ("all",),
    trials: int = 50,
    out: FilePath = "out/reproduce",
    *,
    seed: int = 0,
    n_jobs: int = -1,
    data: str | None = None,
    progress: bool = True,
    quick: bool = False,
) -> dict[str, Played]:
    """Play and plot figures of the paper.

    `out` gets the rows (CSV) and the plot (PNG) of each figure. Trials are kept in
    ``out/store`` as they end; an interrupted run resumes.

    Args:
        figures: of "fig1a" ... "fig1f", "figA-a" ... "figA-c", or "all".
        trials: runs of each setting; data set 2 has a fifth of them on each of ten fixed instances.
        out: folder for the results and the store of trials.
        data: the user's MovieLens-1M or Yelp data; None: what the environment variable
            CLUSTERED_BANDIT_DATA says. Without data fig1f and figA-a are played on stand-ins.
        progress: show a bar, and say which figure is played.
        quick: play only the first two settings of each figure.

    Raises:
        KeyboardInterrupt: interrupted. Finished trials are kept; the same call resumes.
    """
    # Matplotlib is loaded only here, when something is to be plotted.
    with needs_extra("plots"):
        from clustered_bandit_gym.reproduce.plots import plot

    names = dict.fromkeys(FIGURES if "all" in figures else figures)
    if unknown := [name for name in names if name not in FIGURES]:
        raise UserError(f"unknown figure {unknown[0]}; known: all, {', '.join(FIGURES)}")
    if trials < 2:
        raise UserError(f"trials must be at least 2, since intervals need two, got {trials}")
    if data is not None and not Path(data).expanduser().exists():
        # A mistyped path raises an error; it does not fall back to stand-ins.
        raise UserError(
            f"{data} does not exist; pass an existing path, or omit --data to play on stand-ins"
        )
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    played = {}
    how: Values = {"seed": seed, "n_jobs": n_jobs, "progress": progress}
    for name in names:
        figure = FIGURES[name].on(data)
        if quick:
            figure = replace(figure, cells=figure.cells[:2])
        if progress:
            print(f"{name}  {figure.title}  {figure.source}")
        count = figure.trials(trials)
        schemes = play_figure(figure, figure.policies, count, folder, bound=False, **how)
        # For the plot only: its pulls vary little, so a fifth of the trials suffices. Lower bounds
        # are computed in this run alone: on fresh instances they take most of the time.
        ours = play_figure(figure, (OURS,), fifth(count), folder, bound=True, **how)
        board = Board(pd.concat([schemes, ours], ignore_index=True))
        board.export(folder / f"{name}.csv")
        played[name] = Played(figure, with_settings(board.trials))
        plot(figure, played[name].rows, folder)
    return played


def play_figure(
    figure: Figure, policies: Sequence[str], trials: int, folder: Path, **how: Any
) -> pd.DataFrame:
    """Trials of `policies` on the cells of a figure, kept in ``folder/store``."""
    board = sweep(
        policies,
        figure.env,
        cells=figure.cells,
        trials=trials,
        out=folder / "store",
        delta=DELTA,
        **how,
    )
    if board.missing:
        raise KeyboardInterrupt(
            f"{board.missing:,} trials of {figure.name} are left; run the same command to resume"
        )
    return board.trials


def with_settings(trials: pd.DataFrame) -> pd.DataFrame:
    """`trials` with the settings of the figures, and each trial's bound in all of its rows."""
    rows = trials.copy()
    for key in ("instance_seed", "alpha", "sizes"):
        rows[key] = [kwargs.get(key) for kwargs in rows["env_kwargs"]]
    rows["bound"] = rows.groupby([rows["env_kwargs"].map(str), "trial"])["bound"].transform("first")
    return rows
