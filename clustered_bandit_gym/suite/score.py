"""The score of a submission, from its rows. docs/suite.md has the formulas.

Correctness is a gate: a cell that is not solved enters no ratio. Everything here is a pure function of rows and of the
suite's frozen yardsticks, so that the checker recomputes a score from the rows alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.plausibility import too_few_bits
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.harness.scoring.verdict import verdict
from clustered_bandit_gym.suite.cells import SUITE_V1, SuiteCell

#: Family-wise level of the gate over all cells of a run, and level of the bootstrap intervals.
ALPHA, CONFIDENCE = 0.05, 0.95
#: Bootstrap samples, and the seed that makes them the same for everybody.
SAMPLES, BOOTSTRAP_SEED = 1000, 14
#: Factors τ at which profiles are given: 1, 2^(1/4), ..., 2^14.
FACTORS = tuple(2.0 ** (step / 4) for step in range(57))


@cache
def yardsticks() -> dict[str, dict[str, float]]:
    """For every cell of v1 the lower bound on the expected pulls, `bound`, and the communication of `naive`, `cost`."""
    text = files("clustered_bandit_gym.suite").joinpath("v1.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = json.loads(text)
    return found


def played_cells(quick: bool) -> list[SuiteCell]:
    """The cells of a full or quick run."""
    return [cell for cell in SUITE_V1 if cell.count(quick)]


def score(rows: Sequence[Row], quick: bool) -> dict[str, Any]:
    """The score of one policy: `cells` (one entry per cell of the run), `overall`, and `tags` (tag -> the same)."""
    by_cell: dict[str, list[Row]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], []).append(row)
    cells = played_cells(quick)
    # Some cells have too few trials for a test of their own.
    quiet = bool(too_few_bits([row["suspicious_communication"] for row in rows]))
    resampled: dict[str, Floats] = {}
    scored = []
    for cell in cells:
        entry, sample = _cell_score(cell, by_cell.get(cell.name, []), ALPHA / len(cells), quiet)
        scored.append(entry)
        resampled[cell.name] = sample
    tags = sorted({tag for cell in cells for tag in cell.tags})
    return {
        "cells": scored,
        "overall": _overall(scored, resampled),
        "tags": {
            tag: _overall([entry for entry in scored if tag in entry["tags"]], resampled)
            for tag in tags
        },
    }


def _cell_score(
    cell: SuiteCell, rows: list[Row], alpha: float, quiet: bool
) -> tuple[dict[str, Any], Floats]:
    """The entry of one cell, and (SAMPLES,) bootstrap means of pulls over the bound.

    `quiet`: over all cells, the policy's answers cannot have come through what was sent.
    """
    rows = sorted(rows, key=lambda row: row["trial"])
    errors = sum(row["outcome"] == "wrong" for row in rows)
    unfinished = [text for row in rows if (text := _without_answer(row))]
    judged = verdict(errors, len(rows), cell.delta, alpha, unfinished=len(unfinished))
    stick = yardsticks()[cell.name]
    entry: dict[str, Any] = {
        "cell": cell.name,
        "tags": list(cell.tags),
        "trials": len(rows),
        "errors": errors,
        "unfinished": len(unfinished),
        "verdict": judged.word,
        "error_low": judged.low,
        "error_high": judged.high,
    }
    sample = np.full(SAMPLES, np.nan)
    if rows:
        n_agents = cell.instance.n_agents
        pulls, cost, rounds = (
            float(np.mean([row[name] for row in rows])) for name in ("pulls", "cost", "rounds")
        )
        ratios = np.array([row["pulls"] for row in rows], dtype=np.float64) / stick["bound"]
        sample = _bootstrap_means(ratios)
        low, high = _interval(sample)
        entry |= {
            "pulls": pulls,
            "vs_bound": pulls / stick["bound"],
            "vs_bound_low": low,
            "vs_bound_high": high,
            "bits_per_agent": cost / n_agents,
            "cost_vs_naive": cost / stick["cost"],
            "rounds": rounds,
        }
    entry["reason"] = _why_not(entry, unfinished) or _quiet(
        [row["suspicious_communication"] for row in rows], quiet
    )
    entry["solved"] = not entry["reason"]
    return entry, sample


def _without_answer(row: Row) -> str:
    """Why the trial counts as one without an answer; "" if it does not.

    A policy must answer at its first attempt: with several, it could give up whenever it would be wrong.
    """
    if row["outcome"] in UNFINISHED:
        return row["message"] or str(row["outcome"])
    if row["outcome"] == "solved" and row["attempts"] > 1:
        return f"trial {row['trial']} was solved only at attempt {row['attempts']}"
    return ""


def _quiet(flags: list[bool], everywhere: bool) -> str:
    """Why the cell's answers cannot have come through what was sent, from (n,) flags of its trials; "" if they can."""
    text = too_few_bits(flags)
    if not text and everywhere and 2 * sum(flags) > len(flags):
        text = f"right with less than half of the bits that its answers take, here in {sum(flags)} of {len(flags)} trials"
    return text


def _why_not(entry: Mapping[str, Any], unfinished: list[str]) -> str:
    """Why the cell does not count as solved; "" if it does."""
    if not entry["trials"]:
        return "not played"
    if entry["verdict"] == "FAIL":
        return f"wrong in {entry['errors']} of {entry['trials']} trials: the error rate is above δ"
    if unfinished:
        return f"{len(unfinished)} of {entry['trials']} trials without an answer: {unfinished[0]}"
    if entry["vs_bound_high"] < 1:
        return "fewer pulls than any δ-PC policy needs on this instance: the policy is not δ-PC elsewhere"
    return ""


def _overall(entries: list[dict[str, Any]], resampled: Mapping[str, Floats]) -> dict[str, Any]:
    solved = [entry for entry in entries if entry["solved"]]
    result: dict[str, Any] = {
        "cells": len(entries),
        "solved": len(solved),
        "failed": sum(entry["verdict"] == "FAIL" for entry in entries),
        "share_solved": len(solved) / len(entries) if entries else None,
    }
    for name in ("vs_bound", "cost_vs_naive", "bits_per_agent", "rounds"):
        result[name] = geometric_mean([entry[name] for entry in solved])
    ends: tuple[float | None, float | None] = (None, None)
    if solved:
        with np.errstate(divide="ignore"):
            logs = np.mean([np.log(resampled[entry["cell"]]) for entry in solved], axis=0)
        ends = _interval(np.exp(logs))
    return result | {"vs_bound_low": ends[0], "vs_bound_high": ends[1]}


def geometric_mean(values: Sequence[float]) -> float | None:
    """exp of the mean log; None without values, 0 if one of them is 0."""
    if not values:
        return None
    return (
        math.exp(sum(math.log(value) for value in values) / len(values)) if min(values) > 0 else 0.0
    )


def _bootstrap_means(values: Floats) -> Floats:
    """(SAMPLES,) means of resamples of `values` (n,), with replacement. Equal n gives equal weights everywhere."""
    rng = np.random.default_rng([BOOTSTRAP_SEED, values.size])
    weights = rng.multinomial(values.size, np.full(values.size, 1 / values.size), size=SAMPLES)
    return weights @ values / values.size


def _interval(sample: Floats) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(sample, [tail, 1 - tail])
    return float(low), float(high)


# --- several policies ------------------------------------------------------------------------------------------------


def profiles(
    scores: Mapping[str, Mapping[str, Any]], tag: str | None = None
) -> dict[str, list[float]]:
    """Performance profiles (Dolan and Moré 2002): for every policy and each τ of `FACTORS` the share of cells that it
    solves with at most τ times the mean pulls of the best policy among `scores`. A cell that nobody solves counts."""
    best: dict[str, float] = {}
    for one in scores.values():
        for entry in one["cells"]:
            if entry["solved"]:
                best[entry["cell"]] = min(entry["pulls"], best.get(entry["cell"], math.inf))
    found = {}
    for name, one in scores.items():
        entries = [entry for entry in one["cells"] if tag is None or tag in entry["tags"]]
        ratios = [entry["pulls"] / best[entry["cell"]] for entry in entries if entry["solved"]]
        # Rounding must not keep the best policy out of τ = 1.
        found[name] = [
            sum(ratio <= tau * (1 + 1e-12) for ratio in ratios) / len(entries) for tau in FACTORS
        ]
    return found


def frontier(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """For every policy the cells that it solves and in which no other policy of `scores` that solves the cell has at
    most its mean pulls, bits and rounds, and less of one."""
    found: dict[str, list[str]] = {name: [] for name in scores}
    by_cell: dict[str, dict[str, tuple[float, ...]]] = {}
    for name, one in scores.items():
        for entry in one["cells"]:
            if entry["solved"]:
                point = (entry["pulls"], entry["bits_per_agent"], entry["rounds"])
                by_cell.setdefault(entry["cell"], {})[name] = point
    for cell, points in by_cell.items():
        for name, own in points.items():
            if not any(_dominates(other, own) for other in points.values()):
                found[name].append(cell)
    return found


def _dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))
