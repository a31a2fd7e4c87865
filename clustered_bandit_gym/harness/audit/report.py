"""What an audit found: a table, and a verdict in words."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from clustered_bandit_gym.harness.output.escape import csv_cell, markdown, plain
from clustered_bandit_gym.harness.output.tables import (
    Table,
    to_html,
    to_latex,
    to_markdown,
    to_rich,
)
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.numbers import interval, number
from clustered_bandit_gym.harness.scoring.verdict import Word

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType


@dataclass(frozen=True)
class AuditReport:
    """Result of `audit`. Prints as a table; shows as one in a notebook.

    Attributes:
        policy: its label.
        delta, alpha, seed: as asked for.
        cells: one row per cell: `cell, in_scope, n_agents, n_clusters, n_arms, delta, trials,
            errors, unfinished, low, high, verdict, reason, pulls_mean, why, message` (of the first
            unfinished trial).
        left_out: cells of the suite that do not suit the policy.
        breaches: rules of the game that the policy broke, in words. Any of them fails it.
        raised: the row of the first trial that the policy ended with an exception; None if there is
            none.
        reused: trials that an earlier call had kept and that were not played again.
    """

    policy: str
    delta: float
    alpha: float
    seed: int
    cells: pd.DataFrame = field(repr=False)
    left_out: tuple[str, ...] = ()
    breaches: tuple[str, ...] = ()
    raised: Row | None = field(default=None, repr=False)
    reused: int = field(default=0, repr=False, compare=False)

    @property
    def decisive(self) -> pd.DataFrame:
        """The cells whose promises hold."""
        return self.cells[self.cells["in_scope"]]

    @property
    def word(self) -> Word:
        """FAIL if a decisive cell fails or a rule is broken, PASS if all cells pass, else
        INCONCLUSIVE.
        """
        words = set(self.decisive["verdict"])
        failed = "FAIL" in words or self.breaches
        return "FAIL" if failed else "PASS" if words == {"PASS"} else "INCONCLUSIVE"

    @property
    def passed(self) -> bool:
        """Every decisive cell passed. `word` tells a failure from an open question."""
        return self.word == "PASS"

    @property
    def text(self) -> str:
        """The verdict in words."""
        lines = []
        if not self.breaches or "FAIL" in set(self.decisive["verdict"]):
            lines.append(self._finding())
        for breach in self.breaches:
            lines.append(f"FAIL: {self.policy} breaks the rules of the game: {breach}.")
        records = self.cells.to_dict("records")
        for row in records:
            if row["unfinished"]:
                line = (
                    f"Unfinished: {row['unfinished']} of {row['trials']} trials on {row['cell']!r} "
                    f"ended without an answer ({row['message']})."
                )
                if row["in_scope"]:
                    line += " They are not errors, but they count against a PASS."
                lines.append(line)
        broken = [
            f"{row['cell']!r} {row['errors']}/{row['trials']}"
            for row in records
            if row["errors"] and not row["in_scope"]
        ]
        if broken:
            lines.append(
                f"Misspecified problems, where no guarantee holds: wrong on {', '.join(broken)}. "
                "Reported, not scored."
            )
        if self.left_out:
            lines.append(
                "Not played, since this policy pulls one by one and they take millions of pulls: "
                f"{', '.join(self.left_out)}."
            )
        lines.append(
            "All cells are judged together: a δ-PC policy gets a FAIL with probability at most "
            f"{self.alpha:g}, for any number of trials. A PASS is evidence on these games, not a "
            "proof."
        )
        return "\n".join(map(plain, lines))

    def _finding(self) -> str:
        cells = self.decisive
        what = f"{self.word}: {self.policy}"
        if self.word == "FAIL":
            failed = cells[cells["verdict"] == "FAIL"]
            order = (failed["delta"] / failed["low"]).argsort(kind="stable")
            failed = failed.iloc[order]
            worst = failed.iloc[0]
            return (
                f"{what} is not δ-correct. On {worst['cell']!r} ({worst['why']}) it stopped with a "
                f"wrong answer in {worst['errors']} of {worst['trials']} trials; allowed is a rate "
                f"of {worst['delta']:g}, and the true rate is at least {worst['low']:.3g}. "
                f"Failed cells: {len(failed)} of {len(cells)} ({', '.join(failed['cell'])})."
            )
        if self.word == "PASS":
            return (
                f"{what} at δ = {self.delta:g}: on each of {len(cells)} games the error rate is at "
                f"most what was asked for ({cells['errors'].sum():,} errors in "
                f"{cells['trials'].sum():,} trials)."
            )
        still = cells[cells["verdict"] == "INCONCLUSIVE"]
        first = still.iloc[0]
        return (
            f"{what} at δ = {self.delta:g}: no game fails, and on {len(still)} of {len(cells)} "
            f"neither side is shown ({', '.join(still['cell'])}). On {first['cell']!r}: "
            f"{first['reason']}."
        )

    @property
    def tables(self) -> list[Table]:
        """The cells that decide and, if there are any, those in which no guarantee holds."""
        found = [_table(f"Audit of {self.policy}, δ = {self.delta:g}", self.decisive)]
        apart = self.cells[~self.cells["in_scope"]]
        if len(apart):
            apart = apart.drop(columns="verdict")
            found.append(_table("Misspecified problems: reported, not scored", apart))
        return found

    def __str__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=120, force_terminal=False, highlight=False).print(self)
        return out.getvalue().rstrip()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        from rich.text import Text

        for table in self.tables:
            if options.max_width < 150:  # no room for what each cell tests
                table = _without_why(table)
            yield to_rich(table, options.max_width)
        yield Text(self.text)

    def to_markdown(self) -> str:
        """The tables, and the verdict in words."""
        parts = []
        for table in self.tables:
            parts += [f"*{markdown(table.title)}*", to_markdown(table)]
        return "\n\n".join([*parts, *map(markdown, self.text.split("\n"))]) + "\n"

    def to_latex(self) -> str:
        r"""The tables as `table` environments for ``\usepackage{booktabs}``, the verdict as comments."""
        parts = [r"% \usepackage{booktabs}", *(to_latex(_without_why(one)) for one in self.tables)]
        return "\n".join([*parts, *(f"% {line}" for line in self.text.split("\n"))]) + "\n"

    def to_csv(self) -> str:
        """The cells as CSV. No field is a formula of a spreadsheet."""
        return str(self.cells.astype(object).map(csv_cell).to_csv(index=False))

    def to_json(self) -> str:
        """The report as JSON: policy, verdict, what was asked for, one object per cell."""
        content = {
            "policy": self.policy,
            "verdict": self.word,
            "delta": self.delta,
            "alpha": self.alpha,
            "seed": self.seed,
            "breaches": list(self.breaches),
            "left_out": list(self.left_out),
            "cells": json.loads(self.cells.to_json(orient="records")),
        }
        return json.dumps(content, indent=1, ensure_ascii=False)

    def _repr_html_(self) -> str:
        lines = (f"<p>{html.escape(line)}</p>" for line in self.text.split("\n"))
        return "".join([*map(to_html, self.tables), *lines])


def _without_why(table: Table) -> Table:
    return table._replace(heads=table.heads[:-1], rows=[row[:-1] for row in table.rows])


def _table(title: str, cells: pd.DataFrame) -> Table:
    shown = pd.DataFrame({"cell": cells["cell"]})
    for head, name in (("N", "n_agents"), ("M", "n_clusters"), ("K", "n_arms")):
        shown[head] = cells[name].astype(str)
    shown["δ"] = cells["delta"].map("{:g}".format)
    for head, name in (("trials", "trials"), ("wrong", "errors"), ("unfin.", "unfinished")):
        shown[head] = cells[name].map(number)
    ends = zip(cells["low"], cells["high"], strict=True)
    shown["error rate"] = [interval(low, high, digits=2) for low, high in ends]
    if "verdict" in cells:
        shown["verdict"] = cells["verdict"]
    marks = cells["unfinished"].gt(0).map({True: "≥", False: ""})
    shown["mean pulls"] = marks + cells["pulls_mean"].map(number)
    shown["what it tests"] = cells["why"]
    return Table(title, shown.columns.tolist(), shown.to_numpy().tolist())
