"""Finished trials on disk: one SQLite file in write-ahead mode, one row per trial, written when the trial ends.

A killed process loses at most the trials that were being played. The key of a row is everything that made it:
environment, policy, versions, root seed and trial; `fingerprint` computes the first three.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import NamedTuple

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.play import Row

FILE = "trials.sqlite"
#: Format of the file. Keys of format 1 did not hold everything that makes a row, so its rows cannot be trusted.
_SCHEMA = 2
#: Outcomes of trials that are played again when their run is repeated.
FAILED = ("error", "crash", "timeout")


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
        folder: the folder of ``trials.sqlite``; created if missing, unless `create` is False.
    """

    def __init__(self, folder: str | Path, create: bool = True) -> None:
        self.folder = Path(folder)
        path = self.folder / FILE
        if not create and not path.exists():
            raise UserError(
                f"{self.folder} holds no trials (it has no {FILE}); `compare --out {self.folder}` creates one"
            )
        if create:
            if self.folder.exists() and not self.folder.is_dir():
                raise UserError(f"{self.folder} is a file; --out needs a folder")
            self.folder.mkdir(parents=True, exist_ok=True)
        try:
            # Autocommit: every insert is a transaction.
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            # In WAL mode NORMAL survives a killed process row by row; a power cut may cost the last rows, not the file.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._migrate()
        except sqlite3.DatabaseError as error:
            raise UserError(f"{path} cannot be used as a store of trials: {error}") from error

    def _migrate(self) -> None:
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found > _SCHEMA:
            raise UserError(f"{self.folder / FILE} was written by a newer version of this package; update the package")
        if 0 < found < _SCHEMA:
            raise UserError(
                f"{self.folder / FILE} was written by an older version of this package, whose trials may belong to "
                "other code than they claim; use another folder, or delete the file and play again"
            )
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
        """Declare that `label` now means this policy at these versions; `rows` leaves out rows of older code."""
        self._db.execute(
            "INSERT OR REPLACE INTO current (env, label, seed, policy, versions) VALUES (?, ?, ?, ?, ?)",
            (env, label, seed, policy, versions),
        )

    def put(self, key: Key, row: Row) -> None:
        """Keep a row. An existing row of the same key stays unchanged, unless its trial failed with an error."""
        self._db.execute(
            "INSERT INTO trials (env, policy, versions, seed, trial, outcome, row) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET outcome = excluded.outcome, row = excluded.row "
            "WHERE trials.outcome IN (?, ?, ?)",
            (*key, row["outcome"], json.dumps(row, ensure_ascii=False, allow_nan=True), *FAILED),
        )

    def get(self, env: str, policy: str, versions: str, seed: str) -> dict[int, Row]:
        """The rows of one policy on one environment, by trial."""
        found = self._db.execute(
            "SELECT trial, row FROM trials WHERE env = ? AND policy = ? AND versions = ? AND seed = ?",
            (env, policy, versions, seed),
        )
        return {trial: json.loads(text) for trial, text in found}

    def rows(self, everything: bool = False) -> list[Row]:
        """All rows by environment, policy and trial, each with the label that its policy had in the last run.

        Rows of code that has changed since are left out. With `everything` they are included under their old label,
        marked as older code.
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
