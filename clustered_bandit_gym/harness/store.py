"""Finished trials on disk: one SQLite file in write-ahead mode, one row per trial, written when the
trial ends.

A killed process loses at most the trials that were being played. The key of a row is everything
that made it: environment, policy, versions, root seed and trial; `identity` computes the first
three. SQLite checks the file when it is opened. `Resume` says which rows a run may reuse.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from clustered_bandit_gym._types import FilePath, Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.identity import Unhashable, env_key, policy_key, versions
from clustered_bandit_gym.harness.play import Row, Task, Work
from clustered_bandit_gym.harness.scoring.summary import FAILED

FILE = "trials.sqlite"
#: Format of the file.
_SCHEMA = 3

#: `synchronous = NORMAL` survives a killed process row by row; a power cut may cost the last rows.
_TABLES = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS trials (
    number INTEGER PRIMARY KEY, env TEXT NOT NULL, policy TEXT NOT NULL, versions TEXT NOT NULL,
    seed TEXT NOT NULL, trial INTEGER NOT NULL, outcome TEXT NOT NULL, row TEXT NOT NULL,
    UNIQUE (env, policy, versions, seed, trial));
CREATE TABLE IF NOT EXISTS current (
    env TEXT, label TEXT, seed TEXT, policy TEXT, versions TEXT, PRIMARY KEY (env, label, seed));
PRAGMA user_version = {_SCHEMA};
"""


class Place(NamedTuple):
    """What made a row, but for the number of its trial."""

    env: str
    policy: str
    versions: str
    seed: str


class Store(ExitStack):
    """The trials kept in a folder. Only the process that plays the run writes. With `create` a
    missing folder is created; without, it is only read, also from a read-only file system."""

    def __init__(self, folder: FilePath, create: bool = True) -> None:
        super().__init__()
        self.path = Path(folder) / FILE
        if not create and not self.path.exists():
            raise UserError(f"{folder} holds no trials (it has no {FILE})")
        try:
            self._db = self._open(create)
        except (sqlite3.Error, OSError) as error:
            raise UserError(f"{self.path} cannot be used as a store of trials: {error}") from error
        self.callback(self._db.close)

    def _open(self, create: bool) -> sqlite3.Connection:
        if create:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        # A database in WAL mode needs files beside it, unless nobody can write there. A reader that
        # may write takes them away when it closes.
        mode = "mode=rwc" if os.access(self.path.parent, os.W_OK) else "immutable=1"
        # Autocommit: every insert is a transaction.
        address = f"{self.path.resolve().as_uri()}?{mode}"
        db = sqlite3.connect(address, uri=True, timeout=60, isolation_level=None)
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found not in (0, 2, _SCHEMA):
            raise UserError(
                f"{self.path} has format {found}, and this version writes format {_SCHEMA}; use "
                "another folder"
            )
        (state,) = db.execute("PRAGMA integrity_check(1)").fetchone()
        if state != "ok":
            reason = state.replace("\n", " ")
            raise UserError(f"{self.path} is damaged ({reason}); restore it from a copy")
        if create:
            db.executescript(_TABLES)
        return db

    def _ask(self, statement: str, values: tuple[Any, ...] = ()) -> Iterator[Any]:
        """The rows of a result. A full disk or a damaged file is an error of one line."""
        try:
            # Not `yield from`: that would close the cursor of a result nobody reads to its end, after
            # the database.
            for row in self._db.execute(statement, values):  # noqa: UP028
                yield row
        except sqlite3.Error as error:
            raise UserError(
                f"{self.path}: {error}; finished trials are kept: make room, or restore the file "
                "from a copy"
            ) from error

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Row]]:
        """The results of a statement that asks for rows last."""
        for *others, text in self._ask(statement, values):
            try:
                yield tuple(others), json.loads(text)
            except (ValueError, RecursionError):
                raise UserError(f"{self.path} holds a row that cannot be read") from None

    def announce(self, label: str, place: Place) -> None:
        """Declare that `label` now means this policy; `rows` leaves out rows of older code."""
        statement = (
            "INSERT OR REPLACE INTO current (label, env, policy, versions, seed) "
            "VALUES (?, ?, ?, ?, ?)"
        )
        list(self._ask(statement, (label, *place)))

    def put(self, place: Place, trial: int, row: Row) -> None:
        """Keep a row. An existing row of the same trial stays, unless the trial failed or the row
        says now whether it was reproduced."""
        text = json.dumps(row)  # in ASCII: SQLite refuses lone surrogates
        statement = (
            "INSERT INTO trials (env, policy, versions, seed, trial, outcome, row) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET outcome = excluded.outcome, row = excluded.row "
            f"WHERE trials.outcome IN {FAILED} OR ?"
        )
        list(self._ask(statement, (*place, trial, row["outcome"], text, "reproduced" in row)))

    def get(self, place: Place) -> dict[int, Row]:
        """The rows of one policy on one environment, by trial."""
        query = "SELECT trial, row FROM trials WHERE (env, policy, versions, seed) = (?, ?, ?, ?)"
        return {trial: row for (trial,), row in self._rows(query, place)}

    def stream(self) -> Iterator[Row]:
        """Rows by environment, policy and trial, one at a time, with their policies' last labels.
        Rows of code that has changed since are left out."""
        # Of places that look the same on a board, since only their code differs, the last counts.
        last = {}
        one_each = (
            "SELECT current.rowid, label, current.seed, row FROM current JOIN trials ON number = "
            "(SELECT number FROM trials WHERE (env, policy, versions, seed) = "
            "(current.env, current.policy, current.versions, current.seed)) ORDER BY current.rowid"
        )
        for (place, label, seed), row in self._rows(one_each):
            shown = json.dumps([row.get("env"), row.get("env_kwargs")], sort_keys=True)
            last[label, seed, shown] = place
        found = self._rows(
            "SELECT label, row FROM trials JOIN current USING (env, policy, versions, seed) "
            f"WHERE current.rowid IN ({', '.join(map(str, last.values()))}) "
            "ORDER BY current.rowid, trial"
        )
        for (label,), row in found:
            yield row | {"policy": label}

    def columns(self) -> dict[str, list[Any]]:
        """All rows of `stream`, column by column; NaN where a row has no such value. Texts and
        settings that repeat are held once: 10^5 rows take about 200 MB."""
        columns: dict[str, list[Any]] = {}
        shared: Values = {}
        for count, row in enumerate(self.stream()):
            for name in row:
                if name not in columns:
                    columns[name] = [nan] * count
            for name, values in columns.items():
                value = row.get(name, nan)
                repeats = isinstance(value, str | dict)
                values.append(shared.setdefault(repr(value), value) if repeats else value)
        return columns

    def __len__(self) -> int:
        ((count,),) = self._ask("SELECT COUNT(*) FROM trials")
        return int(count)


class Resume(ExitStack):
    """The part of the store in the folder `out` (None keeps nothing) that belongs to a run of
    `work`, whose environments must be registered. Where the policy or the environment has no key,
    rows are kept under a key that no other run has, so that nothing is reused now or later; such
    rows carry the reason as `no_key`."""

    def __init__(self, out: FilePath | None, work: Work) -> None:
        super().__init__()
        self.work = work
        #: By positions of environment and policy: where rows are kept, and what they say of that.
        self.places: dict[tuple[int, ...], tuple[Place, Row]] = {}
        self.attempts: dict[Task, int] = {}
        if out is None:
            return
        self.store = self.enter_context(Store(out))
        mode = " strict" * work.strict + " without bound" * (not work.bound)
        policies = [_key_or_reason(policy_key, policy) for _, policy in work.players]
        for c, cell in enumerate(work.cells):
            env, no_env = _key_or_reason(env_key, cell.env_id, cell.kwargs)
            # The next run of the same call replaces this one on the board: no random name here.
            env = env or f"no key, environment {c}"
            for p, (policy, no_policy) in enumerate(policies):
                label = work.players[p][0]
                said = {}
                if reason := no_policy or no_env:
                    text = f"{label}: kept trials are not reused, because {reason}"
                    warnings.warn(text, stacklevel=3)
                    said = {"no_key": reason}
                    policy = f"no key {uuid.uuid4().hex}"
                place = Place(env, policy + mode, versions(), str(work.seed))
                self.places[c, p] = place, said
                self.store.announce(label, place)

    def rows(self) -> dict[Task, Row]:
        """Rows of earlier runs, except failed ones, whose attempts are remembered."""
        rows = {}
        for (c, p), (place, _) in self.places.items():
            for trial, row in self.store.get(place).items():
                task = Task(c, p, trial)
                if row["outcome"] in FAILED:
                    self.attempts[task] = row["attempts"]
                else:
                    rows[task] = row | {"policy": self.work.players[p][0]}
        return rows

    def put(self, task: Task, row: Row) -> Row:
        """Keep a row; returns it as it is kept."""
        if not self.places:
            return row
        if row["version"] != versions():
            raise UserError(
                f"a worker process plays {row['version']}, this process is {versions()}: restart "
                "this process, or install the same version everywhere"
            )
        _, said = self.places[task[:2]]
        row = row | said | {"attempts": self.attempts.get(task, 0) + row["attempts"]}
        self.keep(task, row)
        return row

    def keep(self, task: Task, row: Row) -> None:
        """Keep a row as it is."""
        self.store.put(self.places[task[:2]][0], task.trial, row)


def _key_or_reason(write: Callable[..., str], *arguments: Any) -> tuple[str, str]:
    """A key, or "" and the reason why there is none."""
    try:
        return write(*arguments), ""
    except Unhashable as error:
        return "", str(error)
