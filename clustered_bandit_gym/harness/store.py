"""Finished trials on disk: one SQLite file in write-ahead mode, one row per trial, written when the trial ends.

A killed process loses at most the trials that were being played. The key of a row is everything that made it:
environment, policy, versions, root seed and trial; `fingerprint` computes the first three. Beside each row lies a hash
of key and row: a row that something else than this module has changed is refused, and `verification` names it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.play import Row

FILE = "trials.sqlite"
#: Format of the file. Keys of format 1 did not hold everything that makes a row, so its rows cannot be trusted.
#: Rows of format 2 have no hash; they are kept.
_SCHEMA = 3
#: Outcomes of trials that are played again when their run is repeated.
FAILED = ("error", "crash", "timeout")


class Key(NamedTuple):
    """What made a row."""

    env: str
    policy: str
    versions: str
    seed: str
    trial: int


def row_hash(key: Key, row: Row) -> str:
    """SHA-256 of key and row, as JSON with sorted names."""
    return hashlib.sha256(json.dumps([*key, row], sort_keys=True).encode()).hexdigest()


class Kept(NamedTuple):
    """A row as it lies in the file: its key, its JSON text, and its hash, None for rows of older files."""

    key: Key
    text: str
    hash: str | None


class Store:
    """The trials kept in a folder. A context manager; only the process that plays the run writes.

    Args:
        folder: the folder of ``trials.sqlite``.
        create: True to write to it; it is created if missing. False only reads, also from a read-only file system.
    """

    def __init__(self, folder: str | Path, create: bool = True) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        try:
            if create:
                if self.folder.exists() and not self.folder.is_dir():
                    raise UserError(f"{self.folder} is a file; --out needs a folder")
                self.folder.mkdir(parents=True, exist_ok=True)
                self._db = self._open_to_write()
            else:
                if not self.path.exists():
                    raise UserError(
                        f"{self.folder} holds no trials (it has no {FILE}); `compare --out {self.folder}` creates one"
                    )
                self._db = self._open_to_read()
        except (sqlite3.Error, OSError) as error:
            raise UserError(f"{self.path} cannot be used as a store of trials: {error}") from error

    def _open_to_write(self) -> sqlite3.Connection:
        # Autocommit: every insert is a transaction.
        db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        # In WAL mode NORMAL survives a killed process row by row; a power cut may cost the last rows, not the file.
        db.execute("PRAGMA synchronous=NORMAL")
        found = self._check_format(db)
        db.execute(
            "CREATE TABLE IF NOT EXISTS trials (number INTEGER PRIMARY KEY, env TEXT NOT NULL, policy TEXT NOT NULL, "
            "versions TEXT NOT NULL, seed TEXT NOT NULL, trial INTEGER NOT NULL, outcome TEXT NOT NULL, "
            "row TEXT NOT NULL, hash TEXT, UNIQUE (env, policy, versions, seed, trial))"
        )
        if found == 2:
            db.execute("ALTER TABLE trials ADD COLUMN hash TEXT")
        db.execute(
            "CREATE TABLE IF NOT EXISTS current (env TEXT, label TEXT, seed TEXT, policy TEXT, versions TEXT, "
            "PRIMARY KEY (env, label, seed))"
        )
        db.execute(f"PRAGMA user_version = {_SCHEMA}")
        return db

    def _open_to_read(self) -> sqlite3.Connection:
        address = self.path.resolve().as_uri()
        try:
            db = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=60, isolation_level=None)
            self._check_format(db)
        except sqlite3.OperationalError:
            # A database in WAL mode needs a file beside it, which a read-only file system refuses. Without a log of
            # late writes the file itself is complete.
            log = self.path.with_name(FILE + "-wal")
            if log.exists() and log.stat().st_size:
                raise UserError(
                    f"{self.path} has late rows in {log.name}, which cannot be read here; copy the folder to a place "
                    "where you may write"
                ) from None
            db = sqlite3.connect(f"{address}?immutable=1", uri=True, isolation_level=None)
            self._check_format(db)
        return db

    def _check_format(self, db: sqlite3.Connection) -> int:
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
        if found > _SCHEMA:
            raise UserError(
                f"{self.path} was written by a newer version of this package; update the package"
            )
        if found == 1:
            raise UserError(
                f"{self.path} was written by an older version of this package, whose trials may belong to "
                "other code than they claim; use another folder, or delete the file and play again"
            )
        return found

    def _ask(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """The result of a statement. A full disk or a damaged file is an error of one line."""
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            if "full" in str(error) or "I/O" in str(error):
                help_ = "make room, then run the same command: finished trials are kept"
            else:
                help_ = "restore it from a copy, or use another folder"
            raise UserError(f"{self.path}: {error}; {help_}") from error

    def _parse(self, key: Key, text: str, kept_hash: str | None) -> Row:
        """The row of a key; refused unless it matches its hash, which rows of older files do not have."""
        try:
            row: Row = json.loads(text)
            row["outcome"], row["policy"]
            if kept_hash not in (None, row_hash(key, row)):
                raise ValueError("another hash")
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(
                f"{self.path} holds a damaged row; `clustered-bai verify {self.folder}` says which"
            ) from None
        return row

    @cached_property
    def _hash(self) -> str:
        """The column of the hashes; a file of format 2 that is only read has none."""
        hashed = any(name == "hash" for _, name, *_ in self._ask("PRAGMA table_info(trials)"))
        return "hash" if hashed else "NULL"

    def announce(self, label: str, env: str, policy: str, versions: str, seed: str) -> None:
        """Declare that `label` now means this policy at these versions; `rows` leaves out rows of older code."""
        self._ask(
            "INSERT OR REPLACE INTO current (env, label, seed, policy, versions) VALUES (?, ?, ?, ?, ?)",
            (env, label, seed, policy, versions),
        )

    def put(self, key: Key, row: Row) -> None:
        """Keep a row. An existing row of the same key stays unchanged, unless its trial failed with an error."""
        text = json.dumps(row, allow_nan=True)  # in ASCII: SQLite refuses lone surrogates
        self._ask(
            "INSERT INTO trials (env, policy, versions, seed, trial, outcome, row, hash) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET outcome = excluded.outcome, row = excluded.row, hash = excluded.hash "
            "WHERE trials.outcome IN (?, ?, ?)",
            (*key, row["outcome"], text, row_hash(key, row), *FAILED),
        )

    def get(self, env: str, policy: str, versions: str, seed: str) -> dict[int, Row]:
        """The rows of one policy on one environment, by trial."""
        found = self._ask(
            f"SELECT trial, row, {self._hash} FROM trials WHERE env = ? AND policy = ? AND versions = ? AND seed = ?",
            (env, policy, versions, seed),
        )
        place = (env, policy, versions, seed)
        return {
            trial: self._parse(Key(*place, trial), text, kept_hash)
            for trial, text, kept_hash in found
        }

    def rows(self, everything: bool = False) -> list[Row]:
        """All rows by environment, policy and trial, each with the label that its policy had in the last run.

        Rows of code that has changed since are left out. With `everything` they are included under their old label,
        marked as older code.
        """
        found = self._ask(
            f"SELECT env, policy, versions, seed, trial, trials.row, {self._hash}, current.label "
            "FROM trials LEFT JOIN current USING (env, policy, versions, seed) ORDER BY current.rowid, trial, number"
        )
        rows = []
        for *key, text, kept_hash, label in found:
            row = self._parse(Key(*key), text, kept_hash)
            if label is None and not everything:
                continue
            rows.append(row | {"policy": label or f"{row['policy']} (older code)"})
        return rows

    def outdated(self) -> int:
        """How many rows were played by code that has changed since."""
        total = self._ask(
            "SELECT COUNT(*) FROM trials LEFT JOIN current USING (env, policy, versions, seed) WHERE label IS NULL"
        )
        return int(total[0][0])

    def kept(self) -> Iterator[Kept]:
        """Every row with its key and its hash, also those of older code."""
        for *key, text, found in self._ask(
            f"SELECT env, policy, versions, seed, trial, row, {self._hash} FROM trials ORDER BY number"
        ):
            yield Kept(Key(*key), text, found)

    def __len__(self) -> int:
        return int(self._ask("SELECT COUNT(*) FROM trials")[0][0])

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
