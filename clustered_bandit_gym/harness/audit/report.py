"""What an audit found: a table, and a verdict in words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pandas as pd

from clustered_bandit_gym.harness.output.escape import plain
from clustered_bandit_gym.harness.output.tables import Content, Document, Table
from clustered_bandit_gym.harness.scoring.numbers import interval, number
from clustered_bandit_gym.harness.scoring.verdict import Word

_UNFINISHED = (
    "Unfinished: {unfinished} of {trials} trials on {cell!r} ended without an answer ({message}). "
    "Such trials count against a PASS."
)
_MISSPECIFIED = "Misspecified, not scored: wrong in {errors} of {trials} trials on {cell!r}."
_SAID = {
    "FAIL": "is not δ-correct: it fails",
    "INCONCLUSIVE": "fails no game, and neither side is shown on",
}
#: Counts that are shown, with their heads.
_COUNTS = {
    "n_agents": "N",
    "n_clusters": "M",
    "n_arms": "K",
    "trials": "trials",
    "errors": "wrong",
    "unfinished": "unfin.",
}


@dataclass(frozen=True)
class AuditReport(Document):
    """Result of `audit`. Prints as a table; shows as one in a notebook.

    Attributes:
        policy: its label.
        delta, alpha, seed: as asked for.
        cells: one row per cell: `cell, n_agents, n_clusters, n_arms, delta, trials,
            errors, unfinished, low, high, verdict, reason, pulls_mean, why, message` (of the first
            unfinished trial).
        misspecified: the same of games in which what is told is false; they decide nothing.
        left_out: cells of the suite that do not suit the policy.
        breaches: rules of the game that the policy broke, in words. Any of them fails it.
        reused: trials that an earlier call had kept and that were not played again.
    """

    policy: str
    delta: float
    alpha: float
    seed: int
    cells: pd.DataFrame = field(repr=False)
    misspecified: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    left_out: tuple[str, ...] = ()
    breaches: tuple[str, ...] = ()
    reused: int = field(default=0, repr=False, compare=False)

    @property
    def word(self) -> Word:
        """FAIL if a cell fails or a rule is broken, PASS if all pass, else INCONCLUSIVE."""
        words = set(self.cells["verdict"])
        failed = "FAIL" in words or self.breaches
        return "FAIL" if failed else "PASS" if words == {"PASS"} else "INCONCLUSIVE"

    @property
    def text(self) -> str:
        """The verdict in words."""
        lines = []
        if not self.breaches or "FAIL" in set(self.cells["verdict"]):
            lines.append(self._finding())
        lines += [
            f"FAIL: {self.policy} breaks the rules of the game: {one}." for one in self.breaches
        ]
        unfinished = self.cells[self.cells["unfinished"] > 0]
        lines += map(_UNFINISHED.format_map, unfinished.to_dict("records"))
        apart = self.misspecified.to_dict("records")
        lines += [_MISSPECIFIED.format_map(row) for row in apart if row["errors"]]
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
        cells = self.cells
        what = f"{self.word}: {self.policy}"
        if self.word == "PASS":
            return (
                f"{what} at δ = {self.delta:g}: on each of {len(cells)} games the error rate is at "
                f"most what was asked for ({cells['errors'].sum():,} errors in "
                f"{cells['trials'].sum():,} trials)."
            )
        shown = cells[cells["verdict"] == self.word]
        worst = shown.iloc[(shown["low"] / shown["delta"]).argmax()]
        return (
            f"{what} {_SAID[self.word]} {len(shown)} of {len(cells)} games "
            f"({', '.join(shown['cell'])}). On {worst['cell']!r} ({worst['why']}): "
            f"{worst['reason']}."
        )

    def parts(self) -> Content:
        """The cells, those that decide nothing, and the verdict in words."""
        tables = [_table("Games", self.cells)]
        if len(self.misspecified):
            apart = _table("Misspecified problems: reported, not scored", self.misspecified)
            tables.append(apart._replace(cells=apart.cells.drop(columns="verdict")))
        return f"Audit of {self.policy}, δ = {self.delta:g}", tables, self.text.split("\n")

    def to_json(self) -> str:
        """The report as JSON: policy, verdict, what was asked for, one object per cell."""
        content = vars(self) | {"verdict": self.word}
        del content["reused"]  # what was found does not depend on it
        return json.dumps(
            content,
            indent=1,
            ensure_ascii=False,
            default=lambda table: json.loads(table.to_json(orient="records")),
        )


def _table(title: str, cells: pd.DataFrame) -> Table:
    rows = [
        {
            "cell": row["cell"],
            "δ": f"{row['delta']:g}",
            **{head: number(row[name]) for name, head in _COUNTS.items()},
            "error rate": interval(row["low"], row["high"], digits=2),
            "mean pulls": number(row["pulls_mean"], "≥" if row["unfinished"] else ""),
            "verdict": row["verdict"],
        }
        for row in cells.to_dict("records")
    ]
    return Table(title, pd.DataFrame(rows))
