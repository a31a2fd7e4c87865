"""The scoreboard: rows of trials, their summary, and ways to show and keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from clustered_bandit_gym._types import FilePath, Values
from clustered_bandit_gym.errors import UserError, needs_extra
from clustered_bandit_gym.game.checks import check_choice
from clustered_bandit_gym.harness.output.escape import csv_text, latex, plain
from clustered_bandit_gym.harness.output.latex import equation, pulls_table
from clustered_bandit_gym.harness.output.layout import board_tables
from clustered_bandit_gym.harness.output.notes import notes_of
from clustered_bandit_gym.harness.output.tables import Content, Document, setting
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.summary import frame, summarise, varied_settings
from clustered_bandit_gym.harness.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Board(Document):
    """Trials and their scores.

    Args:
        trials: rows as `play` gives them, or a data frame of such rows.
        missing: trials that were asked for and not played (the run was interrupted).
        reused: trials that an earlier run had kept and that were not played again.

    `trials` is a data frame with one row per trial; `correct` is missing in unfinished ones.
    `summary` has one row per environment and policy:

    * `trials`, `errors` (stopped and wrong), `unfinished` (out of budget or of time, raised, or
      ended their process); `retried`: right answers of trials that raised at their first attempt,
      which the verdict takes for unfinished;
    * `verdict` ("PASS", "FAIL", "INCONCLUSIVE") by the rule of `scoring.verdict`; `verdict_reason`
      gives it in one sentence. `error_low` bounds P(stopped and wrong) from below, `error_high`
      bounds P(wrong or unfinished) from above, each with confidence 95% at any number of trials;
    * `doubt`: what contradicts a PASS, "" for nothing: fewer pulls than the lower bound allows, or
      trials that a fresh process plays differently;
    * `pulls_mean` with Student's t interval `pulls_low`, `pulls_high`; `pulls_median` with a
      distribution-free interval `pulls_median_low`, `pulls_median_high`. With unfinished trials
      these are lower bounds, printed with "≥". `largest_share`: the share of the largest trial in
      the sum; `heavy_tail`: that share is so large that the t interval cannot be trusted, and
      tables and pictures lead with the median;
    * `vs_naive` with `vs_naive_low`, `vs_naive_high`: geometric mean of the ratio of pulls to
      naive's in the same trial, t interval of the logs, missing if naive has unfinished trials;
      `vs_bound`: geometric mean of pulls over the lower bound of the trial's instance;
      `bound_median`: the median of these lower bounds;
    * `pulls_max_agent`, `cost_mean`, `bits_up`, `bits_down`, `reals_up`, `reals_down`, `rounds`, `seconds`: means per
      trial; `busiest_median`: the median of `pulls_max_agent`;
    * `suspicious_communication`: trials whose right answers cannot have come through what was sent
      up.
    """

    def __init__(
        self, trials: Sequence[Row] | pd.DataFrame, missing: int = 0, reused: int = 0
    ) -> None:
        self.trials = frame(trials)
        self.missing = missing
        self.reused = reused

    @classmethod
    def load(cls, folder: FilePath) -> Board:
        """The board of a store's folder, without trials of code that has changed since."""
        with Store(folder, create=False) as store:
            board = cls(pd.DataFrame(store.columns()))
        if board.trials.empty:
            raise UserError(f"{folder} holds no finished trials")
        return board

    @cached_property
    def summary(self) -> pd.DataFrame:
        return summarise(self.trials)

    @cached_property
    def varied(self) -> list[str]:
        """Settings in which the environments differ; [] for a single one."""
        return varied_settings(self.trials)

    @property
    def title(self) -> str:
        env, settings, *rest = self._facts()
        same = " ".join(f"{name}={setting(value)}" for name, value in settings.items())
        return plain("  ".join(filter(None, [env, same, *rest])))

    def _facts(self) -> tuple[str, Values, str, str]:
        """What a title says: environments, settings that are the same in all of them, seeds, and
        numbers of trials."""
        trials = self.trials
        settings = dict(trials["env_kwargs"].iloc[0])
        # Defaults that were not given: a verdict needs its δ.
        for key in ("n_agents", "delta"):
            if trials[key].nunique() == 1:
                settings.setdefault(key, trials[key].iloc[0])
        counts = self.summary["trials"]
        each = " to ".join(f"{count:,}" for count in dict.fromkeys([counts.min(), counts.max()]))
        return (
            ", ".join(trials["env"].unique()),
            {name: value for name, value in settings.items() if name not in self.varied},
            f"seed {', '.join(map(str, trials['seed'].unique()))}",
            f"{each} trials of each policy",
        )

    @cached_property
    def notes(self) -> list[str]:
        """What a reader must know to read the figures right."""
        return notes_of(self.summary, self.varied, self.trials, self.missing)

    def parts(self) -> Content:
        if self.trials.empty:
            return "no trials", [], []
        return self.title, board_tables(self.summary, self.varied), self.notes

    def __repr__(self) -> str:
        return f"Board({len(self.trials)} trials)"

    # --- files ---------------------------------------------------------------------------------

    def to_latex(
        self,
        pivot: str | None = None,
        *,
        ci: bool = False,
        bold_best: bool = False,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        r"""A table of pulls, a row per policy, for ``\usepackage{booktabs,graphicx}``.

        It is set smaller where it is wider than its column.

        Args:
            pivot: the varied setting with a column per value; None for all that vary.
            ci: half the width of the interval after each mean.
            bold_best: the fewest pulls of each column in bold.
            labels: as for `plot`.

        The notes follow as comments.
        """
        if self.trials.empty:
            return "% no trials\n"
        if pivot is not None and self.varied != [pivot]:
            varied = ", ".join(self.varied) or "none"
            raise UserError(f"pivot must be the one setting that varies; here {varied} varies")
        env, settings, *rest = self._facts()
        facts = [latex(env), *starmap(equation, settings.items()), *rest]
        how: Values = {"ci": ci, "bold_best": bold_best, "labels": labels}
        table = pulls_table(self.summary, self.varied, facts, **how)
        return "\n".join([table, *(f"% {note}" for note in self.notes), ""])

    def to_csv(self) -> str:
        """The summary as CSV. No cell is a formula of a spreadsheet."""
        return csv_text(self.summary)

    def to_json(self) -> str:
        """The summary as JSON: a list of objects."""
        return str(self.summary.to_json(orient="records", indent=1))

    def export(self, path: FilePath) -> Path:
        """Write the trials as CSV, nested values as JSON text, no cell as a formula."""
        path = Path(path)
        path.write_text(csv_text(self.trials), encoding="utf-8")
        return path

    def plot(
        self,
        path: FilePath | None = None,
        x: str | None = None,
        *,
        panel: str | None = None,
        style: str | None = None,
        width: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Figure:
        """The board as a picture, pulls against the setting `x` where settings vary.

        Args:
            path: file to write: .png, .pdf, .svg.
            panel: "pulls", "communication", "busiest" or "tradeoff" (pulls against communication)
                draws that panel alone.
            style: "paper" draws one panel in small type without a title.
            width: inches: 3.25 for a column of ICML, 5.5 for a page of NeurIPS.
            labels: display names of policies, such as {"mine": "Ours"}, by their names on the
                board.
        """
        with needs_extra("plots"):
            from clustered_bandit_gym.harness.output.plots import plot_board, save

        check_choice("style", style, (None, "paper"))
        if self.trials.empty:
            raise UserError("there is nothing to plot: no trials")
        board = self.summary, self.varied, self.title
        look: Values = {"panel": panel, "paper": style == "paper", "width": width}
        figure = plot_board(*board, x, **look, labels=labels)
        if path is not None:
            save(figure, path)
        return figure
