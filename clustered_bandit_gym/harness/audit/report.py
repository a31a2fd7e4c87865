"""What an audit found: a table, and a verdict in words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pandas as pd

from clustered_bandit_gym.harness.output.escape import csv_text, plain
from clustered_bandit_gym.harness.output.tables import Document, Table
from clustered_bandit_gym.harness.scoring.numbers import interval, number
from clustered_bandit_gym.harness.scoring.verdict import Word


@dataclass(frozen=True)
class AuditReport(Document):
    """Result of `audit`. Prints as a table; shows as one in a notebook.

    Attributes:
        policy: its label.
        delta, alpha, seed: as asked for.
        cells: one row per cell: `cell, in_scope, n_agents, n_clusters, n_arms, delta, trials,
            errors, unfinished, low, high, verdict, reason, pulls_mean, why, message` (of the first
            unfinished trial).
        left_out: cells of the suite that do not suit the policy.
        breaches: rules of the game that the policy broke, in words. Any of them fails it.
        reused: trials that an earlier call had kept and that were not played again.
    """

    policy: str
    delta: float
    alpha: float
    seed: int
    cells: pd.DataFrame = field(repr=False)
    left_out: tuple[str, ...] = ()
    breaches: tuple[str, ...] = ()
    reused: int = field(default=0, repr=False, compare=False)

    @property
    def decisive(self) -> pd.DataFrame:
        """The cells whose promises hold."""
        return self.cells[self.cells["in_scope"]]

    @property
    def word(self) -> Word:
        """FAIL if a decisive cell fails or a rule is broken, PASS if all cells pass, else
        INCONCLUSIVE."""
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
        for row in self.cells.to_dict("records"):
            name = repr(row["cell"])
            if row["unfinished"]:
                lines.append(
                    f"Unfinished: {row['unfinished']} of {row['trials']} trials on {name} ended "
                    f"without an answer ({row['message']}). Such trials count against a PASS."
                )
            if row["errors"] and not row["in_scope"]:
                lines.append(
                    f"Misspecified, not scored: wrong in {row['errors']} of {row['trials']} trials "
                    f"on {name}, where no guarantee holds."
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
            worst = failed.iloc[(failed["low"] / failed["delta"]).argmax()]
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

    def parts(self) -> tuple[str, list[Table], list[str]]:
        """The cells that decide and, if there are any, those in which no guarantee holds."""
        tables = [_table("Scored", self.decisive)]
        apart = self.cells[~self.cells["in_scope"]]
        if len(apart):
            apart = apart.drop(columns="verdict")
            tables.append(_table("Misspecified problems: reported, not scored", apart))
        return f"Audit of {self.policy}, δ = {self.delta:g}", tables, self.text.split("\n")

    def to_csv(self) -> str:
        """The cells as CSV. No field is a formula of a spreadsheet."""
        return csv_text(self.cells)

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


def _table(title: str, cells: pd.DataFrame) -> Table:
    heads = ["cell", "N", "M", "K", "δ", "trials", "wrong", "unfin.", "error rate", "mean pulls"]
    rows = []
    for row in cells.to_dict("records"):
        counts = [row[name] for name in ("n_agents", "n_clusters", "n_arms")]
        seen = [row[name] for name in ("trials", "errors", "unfinished")]
        texts = [row["cell"], *map(str, counts), f"{row['delta']:g}", *map(number, seen)]
        mean = number(row["pulls_mean"], "≥" if row["unfinished"] else "")
        rows.append([*texts, interval(row["low"], row["high"], digits=2), mean])
        if "verdict" in row:
            rows[-1].append(row["verdict"])
    heads += ["verdict"] * ("verdict" in cells)
    return Table(title, pd.DataFrame(rows, columns=heads))
