"""Finished trials on disk: one SQLite file in write-ahead mode, one row a trial, written as the trial ends.

A killed process loses at most the trials that were still being played. The key of a row is everything that made it:
environment, policy (with a hash of its source), versions, root seed and trial.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from clustered_bandit_gym.harness.play import Row

FILE = "trials.sqlite"
_SCHEMA = 1


class Key(NamedTuple):
    """What made a row."""

    env: str
    policy: str
    versions: str
    seed: str
    trial: int


class Store:
    """The trials kept in a folder. A context manager; only the process that plays the run writes.

    Args:
        folder: where ``trials.sqlite`` lives; made if missing, unless `create` is False.
    """

    def __init__(self, folder: str | Path, create: bool = True) -> None:
        self.folder = Path(folder)
        path = self.folder / FILE
        if not create and not path.exists():
            raise ValueError(
                f"{self.folder} holds no trials (no {FILE} in it); `compare --out {self.folder}` makes one"
            )
        if create:
            if self.folder.exists() and not self.folder.is_dir():
                raise ValueError(f"{self.folder} is a file; --out needs a folder")
            self.folder.mkdir(parents=True, exist_ok=True)
        try:
            # autocommit: every insert is its own transaction.
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            # In WAL mode NORMAL survives a killed process row by row; a power cut may cost the last rows, not the file.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._migrate()
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} cannot be used as a store of trials: {error}") from error

    def _migrate(self) -> None:
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found > _SCHEMA:
            raise ValueError(f"{self.folder / FILE} was written by a newer version of this package")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS trials (number INTEGER PRIMARY KEY, env TEXT NOT NULL, policy TEXT NOT NULL, "
            "versions TEXT NOT NULL, seed TEXT NOT NULL, trial INTEGER NOT NULL, outcome TEXT NOT NULL, "
            "row TEXT NOT NULL, UNIQUE (env, policy, versions, seed, trial))"
        )
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS current (env TEXT, label TEXT, seed TEXT, policy TEXT, versions TEXT, "
            "PRIMARY KEY (env, label, seed))"
        )
        self._db.execute(f"PRAGMA user_version = {_SCHEMA}")

    def announce(self, label: str, env: str, policy: str, versions: str, seed: str) -> None:
        """From now on `label` means this policy, at these versions: `rows` leaves out what older code has played."""
        self._db.execute(
            "INSERT OR REPLACE INTO current (env, label, seed, policy, versions) VALUES (?, ?, ?, ?, ?)",
            (env, label, seed, policy, versions),
        )

    def put(self, key: Key, row: Row) -> None:
        """Keep a row. A trial that is there already stays as it is, unless it had failed with an error."""
        self._db.execute(
            "INSERT INTO trials (env, policy, versions, seed, trial, outcome, row) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET outcome = excluded.outcome, row = excluded.row WHERE trials.outcome = 'error'",
            (*key, row["outcome"], json.dumps(row, ensure_ascii=False, allow_nan=True)),
        )

    def get(self, env: str, policy: str, versions: str, seed: str) -> dict[int, Row]:
        """The rows of one policy on one environment, by trial."""
        found = self._db.execute(
            "SELECT trial, row FROM trials WHERE env = ? AND policy = ? AND versions = ? AND seed = ?",
            (env, policy, versions, seed),
        )
        return {trial: json.loads(text) for trial, text in found}

    def rows(self, everything: bool = False) -> list[Row]:
        """All rows, in the order of environments, policies and trials, each under its policy's name at the last run.

        Rows of code that has changed since are left out, unless `everything` asks for them: they then go by the name
        they had, with a mark.
        """
        found = self._db.execute(
            "SELECT trials.row, current.label FROM trials LEFT JOIN current USING (env, policy, versions, seed) "
            "ORDER BY current.rowid, trial, number"
        )
        rows = []
        for text, label in found:
            row = json.loads(text)
            if label is None and not everything:
                continue
            rows.append(row | {"policy": label or f"{row['policy']} (older code)"})
        return rows

    def outdated(self) -> int:
        """How many rows were played by code that has changed since."""
        total = self._db.execute(
            "SELECT COUNT(*) FROM trials LEFT JOIN current USING (env, policy, versions, seed) WHERE label IS NULL"
        )
        return int(total.fetchone()[0])

    def __len__(self) -> int:
        return int(self._db.execute("SELECT COUNT(*) FROM trials").fetchone()[0])

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def export(rows: Iterable[Row], path: str | Path) -> Path:
    """Write rows to a table: ``.csv`` or ``.parquet``. Nested values become JSON text."""
    import pandas as pd

    path = Path(path)
    table = pd.DataFrame([{key: _cell(value) for key, value in row.items()} for row in rows])
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        try:
            table.to_parquet(path, index=False)
        except ImportError as error:
            raise ValueError("Parquet needs pyarrow: pip install 'clustered-bandit-gym[parquet]'") from error
    else:
        raise ValueError(f"export to a .csv or .parquet file, not to {path.name!r}")
    return path


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
