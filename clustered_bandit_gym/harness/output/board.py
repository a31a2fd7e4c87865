"""The scoreboard: rows of trials, their summary, and ways to show and keep them."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from clustered_bandit_gym.harness.output import tables
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.harness.scoring.summary import cell_labels, frame, summarise
from clustered_bandit_gym.harness.scoring.verdict import MANY_TRIALS
from clustered_bandit_gym.harness.store import Store, export

#: Width of the printed board.
WIDTH = 120
#: Up to this many are named one by one in a note.
_FEW = 6


class Board:
    """Trials and their scores.

    Args:
        trials: rows as `play` gives them, or a data frame of such rows.
        baseline: the policy that `vs_naive` compares with.
        missing: trials that were asked for and not played (the run was interrupted).

    `trials` is a data frame with a row a trial; `correct` is missing where a trial is unfinished. `summary` has a row
    per environment and policy:

    * `trials`, `errors` (stopped and wrong), `unfinished` (out of budget, or raised: `crashed`);
    * `verdict` ("PASS", "FAIL", "INCONCLUSIVE") by the rule of `scoring.verdict`; `verdict_reason` gives it in one
      sentence; `more_for_pass`: further trials, all finished and right, that a PASS would need; `verdict_hopeless`:
      more trials cannot give a PASS. `error_low` bounds P(stopped and wrong) from below, `error_high` bounds P(wrong or
      unfinished) from above, each with confidence 95% at any number of trials;
    * `pulls_mean` with Student's t interval `pulls_low`, `pulls_high`; `pulls_median` with a distribution-free interval
      `pulls_median_low`, `pulls_median_high`. With unfinished trials these are lower bounds, printed with "≥".
      `largest_share`: the share of the largest trial in the sum; `heavy_tail`: that share is so large that the t
      interval cannot be trusted, and tables and pictures lead with the median;
    * `vs_naive` with `vs_naive_low`, `vs_naive_high`: geometric mean of the ratio of pulls to the baseline's in the
      same trial, t interval of the logs; `vs_bound`: geometric mean of pulls over the lower bound of the trial's
      instance;
    * `cost_mean`, `bits_up`, `bits_down`, `reals_up`, `reals_down`, `rounds`, `seconds`: means per trial;
    * `clustering_errors`, `arm_errors`: agents in all trials, where the policy reports its clusters;
    * `suspicious_communication`: trials whose right answers cannot have come through what was sent up.
    """

    def __init__(self, trials: Sequence[Row] | pd.DataFrame, baseline: str = "naive", missing: int = 0) -> None:
        self.trials: pd.DataFrame = trials if isinstance(trials, pd.DataFrame) else frame(list(trials))
        self.baseline = baseline
        self.missing = missing

    @classmethod
    def load(cls, folder: str | Path, everything: bool = False) -> Board:
        """The board of a store's folder; `everything` shows trials of code that has changed since, too."""
        with Store(folder, create=False) as store:
            return cls(store.rows(everything))

    @cached_property
    def summary(self) -> pd.DataFrame:
        return summarise(self.trials, self.baseline)

    @cached_property
    def varied(self) -> list[str]:
        """Settings in which the environments differ; [] for a single one."""
        return cell_labels(self.trials)[1] if len(self.trials) else []

    @cached_property
    def tables(self) -> list[tables.Table]:
        return tables.layout(self.summary, self.varied) if len(self.trials) else []

    @property
    def title(self) -> str:
        if not len(self.trials):
            return "no trials"
        first = self.trials.iloc[0]
        envs = list(dict.fromkeys(self.trials["env"]))
        given = {} if isinstance(first["env_kwargs"], str) else first["env_kwargs"]
        same = [f"{key}={tables.setting(value)}" for key, value in given.items() if key not in self.varied]
        # Defaults that nobody gave: a verdict means nothing without its δ.
        for key in ("n_agents", "delta"):
            if key in self.trials and key not in [*given, *self.varied] and self.trials[key].nunique() == 1:
                same.append(f"{key}={tables.setting(first[key])}")
        seeds = ", ".join(map(str, dict.fromkeys(self.trials["seed"])))
        return f"{', '.join(envs)}  {' '.join(same)}  seed {seeds}".replace("    ", "  ")

    @cached_property
    def notes(self) -> list[str]:
        """What a reader must know to read the figures right."""
        return _notes(self) if len(self.trials) else []

    # --- showing -----------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return (
            f"Board({len(self.trials)} trials of {self.trials['policy'].nunique() if len(self.trials) else 0} policies)"
        )

    def to_text(self, width: int = WIDTH) -> str:
        """The board as plain text of at most `width` columns."""
        from rich.console import Console

        file = io.StringIO()
        self.print(Console(file=file, width=width, color_system=None))
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines())

    def print(self, console: Any = None) -> None:
        """Print to a `rich.console.Console`; by default to the terminal."""
        from rich.console import Console
        from rich.text import Text

        console = console or Console()
        console.print(Text(self.title, style="bold"))
        for table in self.tables:
            console.print(tables.to_rich(table, console.width))
        for note in self.notes:
            console.print(Text(f"• {note}"))

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        body = "".join(tables.to_html(table) for table in self.tables)
        return f"<div><p><b>{html.escape(self.title)}</b></p>{body}<ul>{notes}</ul></div>"

    def to_markdown(self) -> str:
        """Both tables and the notes."""
        parts = [f"**{self.title}**"]
        for table in self.tables:
            parts += [f"*{table.title}*", tables.to_markdown(table)]
        return "\n\n".join([*parts, "\n".join(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    def to_latex(self) -> str:
        r"""Both tables as `tabular` environments for ``\usepackage{booktabs}``, with the notes as comments."""
        parts = [f"% {self.title}"]
        for table in self.tables:
            parts += [f"% {table.title}", tables.to_latex(table)]
        return "\n".join([*parts, *(f"% {note}" for note in self.notes)]) + "\n"

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """The summary as CSV: to `path`, or as text."""
        text = self.summary.to_csv(index=False)
        if path is None:
            return str(text)
        Path(path).write_text(str(text), encoding="utf-8")
        return None

    def export(self, path: str | Path) -> Path:
        """The trials as ``.csv`` or ``.parquet``."""
        rows: Any = self.trials.astype(object).where(self.trials.notna(), None).to_dict("records")
        return export(rows, path)

    def plot(self, path: str | Path | None = None) -> Any:
        """The board as a picture: pulls, and pulls against communication; returns the `Figure`."""
        from clustered_bandit_gym.harness.output.plots import plot_board

        return plot_board(self, path)


def _notes(board: Board) -> list[str]:
    notes: list[str] = []
    summary, trials = board.summary, board.trials
    records: list[Any] = list(summary.itertuples())
    if board.missing:
        notes.append(f"Interrupted: {board.missing:,} trials were not played.")
    if "no_key" in trials:
        unknown = trials[trials["no_key"].notna()].drop_duplicates("policy")
        notes += [f"{row.policy}: kept trials are not reused, because {row.no_key}." for row in unknown.itertuples()]
    notes.append(
        "error rate: from the lower 95% bound on P(stopped and wrong) to the upper one on P(wrong or unfinished), valid"
        " at any number of trials. PASS: the upper bound is ≤ δ. FAIL: the lower bound is > δ."
    )
    notes += _open_verdicts(summary)
    if _draws_instances(trials):
        notes.append(
            "Each trial draws its own instance: a verdict is an average over the generator, not a statement on every"
            " instance."
        )
    notes.append(
        "pulls: mean with Student's t interval. vs naive, vs bound: geometric means of ratios within a trial; the bound"
        " is the least expected number of pulls of any δ-PC policy on that instance."
    )
    notes.append(
        "cost: c_b for a bit and c_r for a real number (by default 1 and 32); up: from the agents, down: to them."
    )
    if summary["unfinished"].any():
        kinds = trials["outcome"].value_counts()
        parts = [
            f"{kinds[name]} {text}"
            for name, text in (("budget", "out of budget"), ("error", "raised"))
            if name in kinds
        ]
        notes.append(f"Unfinished trials ({', '.join(parts)}) are in the means with what they had used: “≥”.")
        failed = trials[trials["outcome"] == "error"].drop_duplicates("policy")
        notes += [f"{row.policy}, trial {row.trial}: {row.message}" for row in failed.itertuples()]
    heavy = summary[summary["heavy_tail"]]
    if len(heavy):
        names = ", ".join(dict.fromkeys(heavy["policy"]))
        notes.append(
            f"Heavy tail ({names}): one trial holds up to {100 * heavy['largest_share'].max():.0f}% of all pulls, so"
            " the interval of the mean is too short. Read the median: its interval is valid for any distribution."
        )
    quiet = summary[summary["suspicious_communication"] > 0]
    if len(quiet):
        names = ", ".join(dict.fromkeys(quiet["policy"]))
        notes.append(
            f"Too quiet ({names}): all answers right, yet the bits sent up cannot carry half of what is in them."
        )
    notes += [
        f"{row.policy}: {row.wrong_agents} wrong agents in all; {int(row.clustering_errors)} agents were clustered"
        f" wrongly, {int(row.arm_errors)} were clustered rightly and got a wrong arm."
        for row in records
        if row.wrong_agents > 0 and pd.notna(row.clustering_errors)
    ]
    return notes


def _open_verdicts(summary: pd.DataFrame) -> list[str]:
    """What would change each INCONCLUSIVE verdict."""
    notes = []
    still = summary[summary["verdict"] == "INCONCLUSIVE"]
    stuck = still[still["verdict_hopeless"]]
    if len(stuck):
        names = ", ".join(dict.fromkeys(stuck["policy"]))
        notes.append(
            f"Wrong or unfinished more often than δ ({names}): more trials cannot give a PASS. Let the policy finish"
            " (a larger budget, no exceptions)."
        )
    still = still[~still["verdict_hopeless"]]
    far = still[still["more_for_pass"] > MANY_TRIALS]
    for delta, here in far.groupby("delta", sort=False):
        notes.append(
            f"At δ = {delta:g} no simulation can give a PASS: it would take {number(here['more_for_pass'].min())}"
            " trials without an error. The verdict can expose a policy that errs far too often, not confirm δ. These"
            f" trials show an error rate below {number(here['error_high'].max(), digits=2)}; for a verdict, play at a"
            " larger δ or run the audit."
        )
    near = still.drop(far.index)
    if len(near):
        needs = [int(more) for more in near["more_for_pass"]]
        if len(near) <= _FEW:
            text = ", ".join(f"{policy} {need:,}" for policy, need in zip(near["policy"], needs, strict=True))
        else:
            text = f"{min(needs):,} to {max(needs):,}"
        notes.append(f"Further trials, all finished and right, that a PASS would need: {text}.")
    return notes


def _draws_instances(trials: pd.DataFrame) -> bool:
    """Whether any environment of the board draws a fresh instance each trial."""
    return any(
        not ({} if isinstance(own, str) else own).keys() & {"instance", "instance_seed"} for own in trials["env_kwargs"]
    )
