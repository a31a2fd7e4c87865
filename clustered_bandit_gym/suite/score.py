"""What a submission's rows say of each cell: solved or not, and at what price. docs/suite.md has
the rule.

Everything here is a pure function of rows and of the suite's data, so that the checker recomputes
scores from the rows alone.
"""

from __future__ import annotations

import pandas as pd

from clustered_bandit_gym._types import Floats, Values
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.plausibility import implausible, too_few_bits
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.harness.scoring.verdict import verdict
from clustered_bandit_gym.suite.cells import SuiteCell, played_cells
from clustered_bandit_gym.suite.files import rows_by_cell

#: Family-wise level of the gate over all cells of a run.
ALPHA = 0.05


def score(rows: list[Row], quick: bool, guarantee: str) -> Values:
    """The score of one policy on suite v2: `cells`, one entry per cell that was played.

    `guarantee`: what the policy says of itself; names the assumptions that it relies on.
    """
    cells = played_cells("v2", quick)
    by_cell = rows_by_cell(rows)
    alpha = ALPHA / sum(cell.gated for cell in cells)
    # Over all cells together: some have too few trials for a test of their own.
    quiet = too_few_bits([row["suspicious_communication"] for row in rows])
    played = [cell for cell in cells if cell.name in by_cell]
    return {"cells": [_entry(c, by_cell[c.name], alpha, quiet, guarantee) for c in played]}


def ratios(cell: SuiteCell, rows: pd.DataFrame) -> Floats:
    """(n,) pulls of each trial over the lower bound of its instance."""
    return rows["pulls"].to_numpy() / cell.bounds_of(rows["trial"])


def _entry(cell: SuiteCell, rows: pd.DataFrame, alpha: float, quiet: str, guarantee: str) -> Values:
    errors = int((rows["outcome"] == "wrong").sum())
    unfinished = _unfinished(rows)
    judged = verdict(errors, len(rows), cell.delta, alpha, unfinished=len(unfinished))
    wrong = f"wrong in {errors} of {len(rows)} trials"
    applicable = True
    if cell.track == "relaxed" and "Assumption" in guarantee:
        applicable = False
        reason = "its guarantee rests on an assumption that does not hold here"
    elif unfinished and all(text.startswith("NotApplicable: ") for text in unfinished):
        applicable = False
        reason = unfinished[0].removeprefix("NotApplicable: ")
    elif unfinished:
        reason = f"{len(unfinished)} of {len(rows)} trials without an answer: {unfinished[0]}"
    elif judged.word == "FAIL":
        reason = f"{wrong}: the error rate is above δ"
    elif cell.gated and judged.word != "PASS":
        reason = (
            f"{wrong}: they do not show that the error rate is at most δ = {cell.delta:g} "
            f"(at most {judged.high:.3g})"
        )
    else:
        # With ε > 0 no bound is known.
        bounds = float("nan") if cell.kwargs.get("epsilon") else cell.bounds_of(rows["trial"])
        reason = implausible(rows.assign(bound=bounds), cell.delta, guarantee) or quiet
    means = rows[["pulls", "pulls_max_agent", "cost", "rounds"]].astype(float).fillna(0).mean()
    entry = {
        "cell": cell.name,
        "track": cell.track,
        "tags": cell.tags,
        "trials": len(rows),
        "errors": errors,
        "unfinished": len(unfinished),
        "verdict": judged.word,
        "error_low": judged.low,
        "error_high": judged.high,
        "applicable": applicable,
        "pulls": means["pulls"],
        "vs_bound": ratios(cell, rows).mean(),
        "busiest": means["pulls_max_agent"],
        "bits_per_agent": means["cost"] / cell.instances[0].n_agents,
        "rounds": means["rounds"],
        "reason": reason,
        "solved": not reason,
    }
    # Nine digits, so that the checker finds the same numbers on other machines.
    return {
        name: float(f"{value:.9g}") if isinstance(value, float) else value
        for name, value in entry.items()
    }


def _unfinished(rows: pd.DataFrame) -> list[str]:
    """Why trials count as such without an answer, one text for each of them.

    A policy must answer at its first attempt: with several, it could give up whenever it would be
    wrong.
    """
    found = []
    for row in rows.to_dict("records"):
        if row["outcome"] in UNFINISHED:
            found.append(row["message"] or row["outcome"])
        elif row["outcome"] == "solved" and row["attempts"] > 1:
            found.append(f"trial {row['trial']} was solved only at attempt {row['attempts']}")
    return found
