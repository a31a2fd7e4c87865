"""The scoreboard: rows of trials, their summary, and ways to show and keep them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from clustered_bandit_gym.errors import UserError, needs_extra
from clustered_bandit_gym.harness.output import escape, layout, tables
from clustered_bandit_gym.harness.output.notes import notes_of
from clustered_bandit_gym.harness.output.tables import Document, Table
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.summary import cells_of, frame, summarise
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

    * `trials`, `errors` (stopped and wrong), `unfinished` (out of budget, or raised: `crashed`);
      `retried`: right answers of trials that raised at their first attempt, which the verdict takes
      for unfinished;
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
      naive's in the same trial, t interval of the logs; `vs_bound`: geometric mean of pulls over
      the lower bound of the trial's instance;
    * `cost_mean`, `bits_up`, `bits_down`, `reals_up`, `reals_down`, `rounds`, `seconds`: means per
      trial;
    * `clustering_errors`, `arm_errors`: agents in all trials, where the policy reports its
      clusters;
    * `suspicious_communication`: trials whose right answers cannot have come through what was sent
      up.
    """

    def __init__(
        self,
        trials: Sequence[Row] | pd.DataFrame,
        missing: int = 0,
        reused: int = 0,
    ) -> None:
        rows = trials if isinstance(trials, pd.DataFrame) else list(trials)
        self.trials: pd.DataFrame = frame(rows)
        self.missing = missing
        self.reused = reused

    @classmethod
    def load(cls, folder: str | Path) -> Board:
        """The board of a store's folder, without trials of code that has changed since."""
        with Store(folder, create=False) as store:
            return cls(pd.DataFrame(store.columns()))

    @cached_property
    def summary(self) -> pd.DataFrame:
        return summarise(self.trials)

    @cached_property
    def varied(self) -> list[str]:
        """Settings in which the environments differ; [] for a single one."""
        return cells_of(self.trials)[1] if len(self.trials) else []

    @cached_property
    def tables(self) -> list[Table]:
        return layout.board_tables(self.summary, self.varied) if len(self.trials) else []

    @property
    def title(self) -> str:
        if not len(self.trials):
            return "no trials"
        first = self.trials.iloc[0]
        shown = dict(first["env_kwargs"])
        # Defaults that were not given: a verdict needs its δ.
        for key in ("n_agents", "delta"):
            if key in self.trials and self.trials[key].nunique() == 1:
                shown.setdefault(key, first[key])
        parts = [", ".join(dict.fromkeys(self.trials["env"]))]
        same = [f"{k}={tables.setting(v)}" for k, v in shown.items() if k not in self.varied]
        if same:
            parts.append(" ".join(same))
        parts.append("seed " + ", ".join(map(str, dict.fromkeys(self.trials["seed"]))))
        counts = self.summary["trials"]
        each = " to ".join(f"{count:,}" for count in dict.fromkeys([counts.min(), counts.max()]))
        parts.append(f"{each} trials of each policy")
        return escape.plain("  ".join(parts))

    @cached_property
    def notes(self) -> list[str]:
        """What a reader must know to read the figures right."""
        return notes_of(self.summary, self.trials, self.missing) if len(self.trials) else []

    # --- showing -------------------------------------------------------------------------------

    def parts(self, columns: Sequence[str] | None = None) -> tuple[str, list[Table], list[str]]:
        if columns is None or not len(self.trials):
            return self.title, self.tables, self.notes
        return self.title, [layout.chosen(self.summary, self.varied, columns)], self.notes

    def __repr__(self) -> str:
        policies = self.trials["policy"].nunique() if len(self.trials) else 0
        return f"Board({len(self.trials)} trials of {policies} policies)"

    def to_latex(
        self,
        columns: Sequence[str] | None = None,
        *,
        pivot: str | None = None,
        ci: bool = False,
        bold_best: bool = False,
    ) -> str:
        r"""Tables as `table` environments for ``\usepackage{booktabs}``, with display names.

        Args:
            columns: columns of the summary in one table instead of the two tables.
            pivot: a varied setting: one table of pulls, a row per policy, a column per value.
            ci: with `pivot`, half the width of the interval after each mean.
            bold_best: with `pivot`, the fewest pulls of each column in bold.

        The notes follow as comments.
        """
        title, shown, notes = self.parts(columns)
        if pivot is not None:
            shown = [layout.pivoted(self.summary, self.varied, pivot, ci, bold_best)]
        return tables.latex_page(title, shown, notes)

    def to_csv(self, columns: Sequence[str] | None = None) -> str:
        """The summary, or `columns` of it, as CSV. No cell is a formula of a spreadsheet."""
        table = self._chosen(columns).astype(object).map(escape.csv_cell)
        return str(table.to_csv(index=False))

    def to_json(self, columns: Sequence[str] | None = None) -> str:
        """The summary, or `columns` of it, as JSON: a list of objects."""
        return str(self._chosen(columns).to_json(orient="records", indent=1))

    def export(self, path: str | Path) -> Path:
        """The trials as ``.csv`` or ``.parquet``, nested values as JSON text.

        No CSV cell is a formula of a spreadsheet.
        """
        path = Path(path)
        if path.suffix.lower() not in (".csv", ".parquet"):
            raise UserError(f"an export's name ends in .csv or .parquet, got {path.name!r}")
        table = self.trials.astype(object).where(self.trials.notna(), None).map(_flat)
        if path.suffix.lower() == ".csv":
            table.map(escape.csv_cell).to_csv(path, index=False)
            return path
        try:
            table.infer_objects().to_parquet(path, index=False)
        except ImportError as error:
            need = "Parquet needs pyarrow: pip install 'clustered-bandit-gym[parquet]'"
            raise UserError(need) from error
        return path

    def plot(
        self,
        path: str | Path | None = None,
        x: str | None = None,
        *,
        panel: str | None = None,
        style: str | None = None,
        width: float | None = None,
    ) -> Figure:
        """The board as a picture, pulls against the setting `x` where settings vary.

        Args:
            path: file to write: .png, .pdf, .svg.
            panel: "pulls", "communication", "busiest" or "tradeoff" (pulls against communication)
                draws that panel alone.
            style: "paper" draws one panel in small type without a title.
            width: inches: 3.25 for a column of ICML, 5.5 for a page of NeurIPS.
        """
        with needs_extra("plots"):
            from clustered_bandit_gym.harness.output.plots import plot_board, save

        if style not in (None, "paper"):
            raise UserError(f"style must be 'paper' or None, got {style!r}")
        board = (self.trials, self.summary, self.varied, self.title)
        figure = plot_board(*board, x, panel=panel, paper=style == "paper", width=width)
        if path is not None:
            save(figure, path)
        return figure

    def _chosen(self, columns: Sequence[str] | None) -> pd.DataFrame:
        if columns is None:
            return self.summary
        layout.check_columns(self.summary, columns)
        return self.summary[[*(name for name in self.varied if name not in columns), *columns]]


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
