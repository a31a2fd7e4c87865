"""Trials as a table for other programs: CSV or Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.escape import csv_cell

SUFFIXES = (".csv", ".parquet")


def check_suffix(path: str | Path) -> None:
    """Refuse a file name that trials cannot be exported to. Call it before trials are played."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise UserError(
            f"the export needs a name that ends in .csv or .parquet, got {Path(path).name!r}"
        )


def export(trials: pd.DataFrame, path: str | Path) -> Path:
    """Write one row per trial to `path`.

    Nested values become JSON text; no CSV cell is a formula of a spreadsheet.
    """
    check_suffix(path)
    path = Path(path)
    table = trials.astype(object).where(trials.notna(), None).map(_flat)
    if path.suffix.lower() == ".csv":
        table.map(csv_cell).to_csv(path, index=False)
        return path
    try:
        table.infer_objects().to_parquet(path, index=False)
    except ImportError as error:
        raise UserError(
            "Parquet needs pyarrow: pip install 'clustered-bandit-gym[parquet]'"
        ) from error
    return path


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
