"""A small suite for tests: a few cells of v2 with few trials, in place of the quick run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clustered_bandit_gym.suite import checker, leaderboard, score, submission
from clustered_bandit_gym.suite.cells import DIGESTS, SuiteCell, cells_of
from clustered_bandit_gym.suite.files import Submission, write_submission

#: A PASS without an error takes 41 trials for one cell at level 0.05, 58 for four.
TRIALS = 60
CELLS = ("one-ladder", "nothing-tiny", "easy-10", "shared-best", "small-30-sure")


def small_cells(suite: str, quick: bool) -> list[SuiteCell]:
    if suite == "v1":
        return [cell for cell in cells_of("v1").values() if cell.count(quick)]
    count = 5 if quick else 6
    cells = [cells_of("v2")[name] for name in CELLS]
    return [replace(c, quick=TRIALS if c.gated else count, trials=TRIALS + 1) for c in cells]


@contextmanager
def small_suite() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (checker, leaderboard, score, submission):
            patch.setattr(module, "played_cells", small_cells)
        yield


def made_up_rows(
    pulls: dict[str, float] | None = None, wrong: dict[str, int] | None = None
) -> list[dict[str, Any]]:
    """Rows of a quick run: trial t of a cell makes `pulls` or 3·`pulls` times the bound, in turn."""
    rows = []
    for cell in small_cells("v2", quick=True):
        bounds = cell.bounds_of(list(range(cell.quick)))
        for trial in range(cell.quick):
            failed = trial < (wrong or {}).get(cell.name, 0)
            ratio = (pulls or {}).get(cell.name, 1.0) * (1 + 2 * (trial % 2))
            rows.append(
                {
                    "cell": cell.name,
                    "trial": trial,
                    "outcome": "wrong" if failed else "solved",
                    "wrong_agents": int(failed),
                    "pulls": round(ratio * bounds[trial]),
                    "pulls_max_agent": 7,
                    "cost": 100.0,
                    "bits_up": 100,
                    "bits_down": 0,
                    "reals_up": 0,
                    "reals_down": 0,
                    "rounds": 4,
                    "seconds": 0.1,
                    "attempts": 1,
                    "suspicious_communication": False,
                    "message": "",
                }
            )
    return rows


def made_up(
    folder: Path,
    policy: str,
    pulls: dict[str, float] | None = None,
    wrong: dict[str, int] | None = None,
    **said: Any,
) -> Path:
    """Write a quick submission of `made_up_rows`; nothing is played."""
    metadata = {
        "format": 1,
        "suite": "v2",
        "digest": DIGESTS["v2"],
        "quick": True,
        "name": policy,
        "policy": policy,
        "authors": "A. Toy",
        "link": "https://example.org/proof",
        "guarantee": "proved",
        "guarantee_text": "delta-PC",
        "date": "2026-01-01",
        "package": "0",
        "versions": "",
        "platform": {},
        "sources": {},
        **said,
    }
    rows = made_up_rows(pulls, wrong)
    scores = score.score(rows, True, metadata["guarantee_text"])
    write_submission(Submission(folder, metadata, rows, scores))
    return folder
