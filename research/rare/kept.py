"""Results of `rare` kept beside the trials of a store: one line of JSON each, in `rare.jsonl`."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any

from research.rare.result import Rare

FILE = "rare.jsonl"


def keep(result: Rare, folder: str | Path) -> Path:
    """Append `result`, with today's date, to the file in `folder`, which is made if it is missing."""
    path = Path(folder) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        made = {"made": datetime.datetime.now(datetime.UTC).date().isoformat()}
        file.write(json.dumps(as_row(result) | made, ensure_ascii=False) + "\n")
    return path


def kept(folder: str | Path) -> list[dict[str, Any]]:
    """The rows in `folder`, oldest first; [] if there are none. A line cut short by an interruption
    is left out.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def as_row(result: Rare) -> dict[str, Any]:
    """Plain values; infinite ones as None."""
    row = {
        "policy": result.policy,
        "env": result.env,
        "env_kwargs": result.env_kwargs,
        "n_agents": result.n_agents,
        "delta": result.delta,
        "seed": result.seed,
        "alpha": result.alpha,
        "error": result.error,
        "stderr": result.stderr,
        "low": result.low,
        "high": result.high,
        "ess": result.ess,
        "spread": result.spread,
        "trials": result.trials,
        "search_plays": result.search_plays,
        "unfinished": result.unfinished,
        "seconds": result.seconds,
        "version": result.version,
        "searches": [list(estimate) for estimate in result.searches],
        "families": result.families,
        "ways": [list(way) for way in result.ways if way.plays > 0],
    }
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }
