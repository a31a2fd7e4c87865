"""What a submission's rows say of each cell: solved or not, and at what price. docs/suite.md has
the rule.

Everything here is a pure function of rows and of the suite's data, so that the checker recomputes
scores from the rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.plausibility import implausible, too_few_bits
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.harness.scoring.verdict import verdict
from clustered_bandit_gym.suite.cells import SuiteCell, played_cells
from clustered_bandit_gym.suite.files import rows_by_cell

#: Family-wise level of the gate over all cells of a run.
ALPHA = 0.05


def score(rows: Sequence[Row], quick: bool, guarantee: str) -> dict[str, Any]:
    """The score of one policy on suite v2: `cells`, one entry per cell that was played.

    `guarantee`: what the policy says of itself; names the assumptions that it relies on.
    """
    cells = played_cells("v2", quick)
    by_cell = rows_by_cell(list(rows))
    alpha = ALPHA / sum(cell.gated for cell in cells)
    # Over all cells together: some have too few trials for a test of their own.
    quiet = too_few_bits([row["suspicious_communication"] for row in rows])
    played = [cell for cell in cells if cell.name in by_cell]
    entries = [_entry(cell, by_cell[cell.name], alpha, quiet, guarantee) for cell in played]
    return {"cells": entries}


def ratios(cell: SuiteCell, rows: Sequence[Row]) -> Floats:
    """(n,) pulls of each trial over the lower bound of its instance."""
    pulls = np.array([row["pulls"] for row in rows], dtype=np.float64)
    found: Floats = pulls / cell.bounds_of([row["trial"] for row in rows])
    return found


def _entry(
    cell: SuiteCell, rows: list[Row], alpha: float, quiet: str, guarantee: str
) -> dict[str, Any]:
    errors = sum(row["outcome"] == "wrong" for row in rows)
    unfinished = [text for row in rows if (text := _without_answer(row))]
    judged = verdict(errors, len(rows), cell.delta, alpha, unfinished=len(unfinished))
    entry: dict[str, Any] = {
        "cell": cell.name,
        "track": cell.track,
        "tags": cell.tags,
        "trials": len(rows),
        "errors": errors,
        "unfinished": len(unfinished),
        "verdict": judged.word,
        "error_low": judged.low,
        "error_high": judged.high,
        "applicable": True,
        "pulls": _mean(rows, "pulls"),
        "vs_bound": float(ratios(cell, rows).mean()),
        "busiest": _mean(rows, "pulls_max_agent"),
        "bits_per_agent": _mean(rows, "cost") / cell.instances[0].n_agents,
        "rounds": _mean(rows, "rounds"),
    }
    wrong = _why_not(cell, entry, unfinished)
    entry["reason"] = wrong or _implausible(cell, rows, guarantee) or quiet
    if cell.track == "relaxed" and "Assumption" in guarantee:
        entry["applicable"] = False
        entry["reason"] = "its guarantee rests on an assumption that does not hold here"
    elif unfinished and all(text.startswith("NotApplicable: ") for text in unfinished):
        entry["applicable"] = False
        entry["reason"] = unfinished[0].removeprefix("NotApplicable: ")
    entry["solved"] = not entry["reason"]
    # Nine digits, so that the checker finds the same numbers on other machines.
    for key, value in entry.items():
        if isinstance(value, float):
            entry[key] = float(f"{value:.9g}")
    return entry


def _mean(rows: list[Row], name: str) -> float:
    return float(np.mean([row[name] or 0 for row in rows]))


def _without_answer(row: Row) -> str:
    """Why the trial counts as one without an answer; "" if it does not.

    A policy must answer at its first attempt: with several, it could give up whenever it would be
    wrong.
    """
    if row["outcome"] in UNFINISHED:
        return str(row["message"] or row["outcome"])
    if row["outcome"] == "solved" and row["attempts"] > 1:
        return f"trial {row['trial']} was solved only at attempt {row['attempts']}"
    return ""


def _why_not(cell: SuiteCell, entry: dict[str, Any], unfinished: list[str]) -> str:
    """Why the answers do not count as a solution; "" if they do."""
    trials = entry["trials"]
    if unfinished:
        return f"{len(unfinished)} of {trials} trials without an answer: {unfinished[0]}"
    wrong = f"wrong in {entry['errors']} of {trials} trials"
    if entry["verdict"] == "FAIL":
        return f"{wrong}: the error rate is above δ"
    if cell.gated and entry["verdict"] != "PASS":
        return (
            f"{wrong}: they do not show that the error rate is at most δ = {cell.delta:g} "
            f"(at most {entry['error_high']:.3g})"
        )
    return ""


def _implausible(cell: SuiteCell, rows: list[Row], guarantee: str) -> str:
    """Why the trials are implausible for a δ-PC policy; "" if they are not. ε > 0 has no bound."""
    bounds = cell.bounds_of([row["trial"] for row in rows])
    if cell.kwargs.get("epsilon"):
        bounds = np.full(len(rows), np.nan)
    trials = pd.DataFrame(rows).assign(bound=bounds)
    return implausible(trials, cell.delta, SimpleNamespace(guarantee=guarantee))
