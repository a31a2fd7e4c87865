"""The file of a study: SQLite, one transaction per change, plain numbers and JSON inside."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Array, FilePath, Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.study.order import Order, Told

#: Columns `asked`, `done` and `told` are compressed little-endian numbers of eight bytes. The
#: application id ("cbgs") lets other programs recognise a study.
SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS study (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, phase TEXT NOT NULL,
    shape TEXT NOT NULL, asked BLOB NOT NULL, done BLOB NOT NULL, told BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS tells (order_id INTEGER NOT NULL, digest TEXT NOT NULL, key TEXT UNIQUE,
    pulls INTEGER NOT NULL, told_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
PRAGMA application_id = 0x63626773
"""


class StudyFile:
    """Reads and writes the file of a study; without a path it lives in memory.

    A new file gets the facts `begin`; `facts` are those in the file.
    """

    def __init__(self, path: FilePath | None, begin: Values | None = None) -> None:
        self.name = name = str(path or ":memory:")
        if path and not Path(path).parent.is_dir():
            raise UserError(f"{name}: there is no folder {Path(path).parent}")
        try:
            # Autocommit: transactions begin where this class says so. A second process waits.
            self._db = sqlite3.connect(name, timeout=60.0, isolation_level=None)
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            self.is_new = begin is not None and not tables
            if begin and self.is_new:
                rows = [(fact, json.dumps(value)) for fact, value in begin.items()]
                with self._db:
                    self._db.executescript(SCHEMA)
                    # Another process may have begun it.
                    self._db.executemany("INSERT OR IGNORE INTO study VALUES (?, ?)", rows)
            found = self._db.execute("SELECT * FROM study")
            self.facts = {fact: json.loads(value) for fact, value in found}
        except sqlite3.DatabaseError as error:
            raise UserError(f"{name} is not a study: {error}") from None

    def close(self) -> None:
        self._db.close()

    def orders(self, after: int = 0) -> list[Order]:
        """The orders with numbers above `after`. All but the last one are closed."""
        rows = self._db.execute(
            "SELECT *, (SELECT count(*) FROM tells WHERE order_id = id) FROM orders "
            "WHERE id > ? ORDER BY id",
            (after,),
        )
        found = []
        for number, kind, phase, shape, asked, done, told, tells in rows:
            cells = _unpack(asked, "i8").reshape(3, -1)
            table = _unpack(told, "f8").reshape(cells.shape[1], -1)
            asked_for = (number, kind, phase, tuple(json.loads(shape)), cells)
            found.append(Order(*asked_for, _unpack(done, "i8"), table, tells))
        return found

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction. A file that cannot be written is an error, also if nothing is."""
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.Error as error:
            raise UserError(
                f"{self.name} cannot be written: {error}; nothing was recorded"
            ) from error

    def add(self, order: Order) -> None:
        """Store a new order, unless another process has done so."""
        arrays = map(_pack, (order.asked, order.done, order.told))
        with self.writing():
            self._db.execute(
                "INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)",
                (order.id, order.kind, order.phase, json.dumps(order.shape), *arrays),
            )

    def keep(self, fact: str, value: Any, replace: bool = False) -> Any:
        """Keep a fact, unless there is one already; returns the one in the file."""
        with self.writing():
            word = "REPLACE" if replace else "IGNORE"
            row = (fact, json.dumps(value))
            self._db.execute(f"INSERT OR {word} INTO study VALUES (?, ?)", row)
            (text,) = self._db.execute("SELECT value FROM study WHERE name = ?", (fact,)).fetchone()
        return json.loads(text)

    def record(self, number: int, told: Told, revision: int, key: str | None) -> bool:
        """Add a tell to order `number` in one transaction; False if it was taken before."""
        with self.writing():
            order = self.orders(number - 1)[0]
            whole = np.array_equal(told.pulls, order.asked[2, told.rows])
            # The revision sets equal tells of parts at different times apart, unless a key does.
            part = -1 if whole or key is not None else revision
            content = [b"%d %d" % (number, part), *map(bytes, told)]
            digest = hashlib.sha256(b"".join(content)).hexdigest()
            before = self._db.execute(
                "SELECT digest FROM tells WHERE key = ?1 "
                "OR (?1 IS NULL AND order_id = ?2 AND digest = ?3)",
                (key, number, digest),
            ).fetchone()
            if before == (digest,) and (whole or key is not None):
                return False
            if before is not None:
                raise UserError(
                    f"these rewards of order {number}, or others with the same key, were told "
                    "before; if they are new, give each tell a key of its own (key=..., --key); "
                    "nothing was recorded"
                )
            order.done[told.rows] += told.pulls
            order.told[told.rows] += told.table
            over = order.done - order.asked[2]
            if over.max() > 0:
                raise UserError(
                    f"row {over.argmax()} of order {number} gets {over.max()} more than it asked "
                    "for, unless another process has told some; nothing was recorded"
                )
            self._db.execute(
                "INSERT INTO tells (order_id, digest, key, pulls) VALUES (?, ?, ?, ?)",
                (number, digest, key, int(told.pulls.sum())),
            )
            self._db.execute(
                "UPDATE orders SET done = ?, told = ? WHERE id = ?",
                (_pack(order.done), _pack(order.told), number),
            )
        return True


def _pack(array: Array) -> bytes:
    return zlib.compress(array.astype(array.dtype.newbyteorder("<")).tobytes(), 1)


def _unpack(blob: bytes, kind: str) -> Array:
    return np.frombuffer(zlib.decompress(blob), f"<{kind}").astype(kind)
