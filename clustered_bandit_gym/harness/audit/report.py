"""What an audit found: a table, and a verdict in words."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from clustered_bandit_gym.harness.scoring.verdict import Word

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_STYLES = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}
_WORDS = ("cell", "verdict", "what it is after")
_HEADERS = (
    "cell",
    "N",
    "M",
    "K",
    "δ",
    "trials",
    "errors",
    "unfinished",
    "error rate",
    "verdict",
    "mean pulls",
    "what it is after",
)


@dataclass(frozen=True)
class AuditReport:
    """Result of `audit`. Prints as a table; shows as one in a notebook.

    Attributes:
        policy: its label.
        delta, alpha, seed: as asked for.
        cells: a row a cell: `cell, in_scope, n_agents, n_clusters, n_arms, delta, trials, errors, unfinished, low,
            high, verdict, pulls_mean, why, message` (of the first unfinished trial).
        left_out: cells of the suite that do not suit the policy.
        breaches: rules of the game that the policy broke, in words. Any of them fails it.
    """

    policy: str
    delta: float
    alpha: float
    seed: int
    cells: pd.DataFrame = field(repr=False)
    left_out: tuple[str, ...] = ()
    breaches: tuple[str, ...] = ()

    @property
    def decisive(self) -> pd.DataFrame:
        """The cells whose promises hold."""
        return self.cells[self.cells["in_scope"]]

    @property
    def word(self) -> Word:
        """FAIL if a decisive cell fails or a rule is broken, PASS if all cells pass, else INCONCLUSIVE."""
        words = set(self.decisive["verdict"])
        return "FAIL" if "FAIL" in words or self.breaches else "PASS" if words == {"PASS"} else "INCONCLUSIVE"

    @property
    def passed(self) -> bool:
        """Every decisive cell passed. `word` tells a failure from an open question."""
        return self.word == "PASS"

    @property
    def text(self) -> str:
        """The verdict in words."""
        lines = [] if self.breaches and "FAIL" not in set(self.decisive["verdict"]) else [self._finding()]
        lines += [f"FAIL: {self.policy} breaks the rules of the game: {breach}." for breach in self.breaches]
        missing = self.cells[self.cells["unfinished"] > 0]
        for _, row in missing.iterrows():
            lines.append(
                f"Unfinished: {row['unfinished']} of {row['trials']} trials on {row['cell']!r} ended without an answer "
                f"({row['message']})." + (" They are no errors, but stand against a PASS." if row["in_scope"] else "")
            )
        broken = self.cells[~self.cells["in_scope"] & (self.cells["errors"] > 0)]
        if len(broken):
            counts = ", ".join(f"{row['cell']!r} {row['errors']}/{row['trials']}" for _, row in broken.iterrows())
            lines.append(f"With wrong promises, where no guarantee holds: wrong on {counts}. This decides nothing.")
        if self.left_out:
            lines.append(
                "Not played, since this policy pulls one by one and they take millions of pulls: "
                f"{', '.join(self.left_out)}."
            )
        lines.append(
            f"All cells are judged at once: a policy that keeps its promise is failed with probability at most "
            f"{self.alpha:g}, however many trials are added. A PASS is evidence on these games, not a proof."
        )
        return "\n".join(lines)

    def _finding(self) -> str:
        cells, word = self.decisive, self.word
        if word == "FAIL":
            failed = cells[cells["verdict"] == "FAIL"]
            failed = failed.iloc[(failed["delta"] / failed["low"]).argsort(kind="stable")]
            worst = failed.iloc[0]
            return (
                f"FAIL: {self.policy} is not δ-correct. On {worst['cell']!r} ({worst['why']}) it stopped with a "
                f"wrong answer in {worst['errors']} of {worst['trials']} trials; allowed is a rate of "
                f"{worst['delta']:g}, and the true rate is at least {worst['low']:.3g}. "
                f"Failed cells: {len(failed)} of {len(cells)} ({', '.join(failed['cell'])})."
            )
        if word == "PASS":
            return (
                f"PASS: {self.policy} at δ = {self.delta:g}: on each of {len(cells)} games the error rate is at most "
                f"what was asked for ({cells['errors'].sum():,} errors in {cells['trials'].sum():,} trials)."
            )
        still = cells[cells["verdict"] == "INCONCLUSIVE"]
        return (
            f"INCONCLUSIVE: {self.policy} at δ = {self.delta:g}: no game fails, and on {len(still)} of {len(cells)} "
            f"neither side is shown ({', '.join(still['cell'])}). Where trials do finish, more of them may decide."
        )

    def _sections(self) -> list[tuple[str, pd.DataFrame]]:
        sections = [(f"Audit of {self.policy}, δ = {self.delta:g}", self.decisive)]
        apart = self.cells[~self.cells["in_scope"]]
        if len(apart):
            sections.append(("Wrong promises: no guarantee holds, these decide nothing", apart))
        return sections

    def __str__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=120, force_terminal=False, highlight=False).print(self)
        return out.getvalue().rstrip()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.table import Table
        from rich.text import Text

        headers = _HEADERS if options.max_width >= 150 else _HEADERS[:-1]
        for number, (title, cells) in enumerate(self._sections()):
            table = Table(title=title, title_justify="left")
            for header in headers:
                table.add_column(header, justify="left" if header in _WORDS else "right")
            for _, row in cells.iterrows():
                style = _STYLES[row["verdict"]] if number == 0 else "dim"
                texts = [Text(text, style=style if header == "verdict" else "") for header, text in _texts(row).items()]
                table.add_row(*texts[: len(headers)])
            yield table
        yield Text(self.text, style=_STYLES[self.word])

    def _repr_html_(self) -> str:
        parts = []
        for title, cells in self._sections():
            head = "".join(f"<th>{html.escape(header)}</th>" for header in _HEADERS)
            rows = (
                "".join(f"<td>{html.escape(text)}</td>" for text in _texts(row).values()) for _, row in cells.iterrows()
            )
            body = "".join(f"<tr>{row}</tr>" for row in rows)
            parts.append(
                f"<h4>{html.escape(title)}</h4><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            )
        parts += [f"<p>{html.escape(line)}</p>" for line in self.text.split("\n")]
        return "".join(parts)


def _texts(row: pd.Series[Any]) -> dict[str, str]:
    """A cell's row of the table, by header."""
    at_least = "≥ " if row["unfinished"] else ""
    texts = (
        row["cell"],
        f"{row['n_agents']}",
        f"{row['n_clusters']}",
        f"{row['n_arms']}",
        f"{row['delta']:g}",
        f"{row['trials']:,}",
        f"{row['errors']:,}",
        f"{row['unfinished']:,}",
        f"{row['low']:.3f} to {row['high']:.3f}",
        row["verdict"],
        f"{at_least}{row['pulls_mean']:.3g}",
        row["why"],
    )
    return dict(zip(_HEADERS, texts, strict=True))
