"""The part of a store that belongs to one run: rows to reuse, and the keys of new ones."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.fingerprint import Unwritable, policy_key, versions
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.store import FAILED, Key, Store
from clustered_bandit_gym.harness.trial import Task


class KeptRun:
    """Trials of one run in a store. A context manager.

    Where the policy or the environment has no key, rows are kept under a key that no other run has, so that nothing is
    reused now or later; such rows carry the reason as `no_key`.

    Args:
        out: folder of the store; it is created if missing.
        players: policies as (label, object).
        env_keys: of each environment its key, or None and the reason why it has none.
        seed: root seed.
        mode: how trials are played, if not in the usual way: " stepwise", " strict" or both.

    Public: `added`, the number of rows that this run has put into the store.
    """

    def __init__(
        self,
        out: str | Path,
        players: list[tuple[str, Any]],
        env_keys: list[tuple[str | None, str]],
        seed: int,
        mode: str = "",
    ) -> None:
        self.places: dict[tuple[int, int], tuple[str, str, str, str]] = {}
        self.reasons: dict[tuple[int, int], str] = {}
        self.attempts: dict[Task, int] = {}
        self.added = 0
        self.labels = [label for label, _ in players]
        policy_keys = [key_or_reason(policy_key, player) for _, player in players]
        for c, (env, no_env) in enumerate(env_keys):
            for p, (policy, no_policy) in enumerate(policy_keys):
                if env is None or policy is None:
                    self.reasons[c, p] = no_policy or no_env
                    policy = f"no key {uuid.uuid4().hex}"
                # The next run of the same call replaces this one on the board, hence not a random name here.
                place = (
                    env or f"no key, environment {c}",
                    policy + mode,
                    versions(),
                    str(int(seed)),
                )
                self.places[c, p] = place
        for p, reason in {p: reason for (_, p), reason in self.reasons.items()}.items():
            warnings.warn(
                f"{self.labels[p]}: kept trials are not reused, because {reason}", stacklevel=5
            )
        self.store = Store(out)
        for (_, p), place in self.places.items():
            self.store.announce(self.labels[p], *place)

    def rows(self) -> dict[Task, Row]:
        """Rows of earlier runs, except failed ones, whose attempts are remembered."""
        kept = {
            Task(c, p, trial): row | {"policy": self.labels[p]}
            for (c, p), place in self.places.items()
            for trial, row in self.store.get(*place).items()
        }
        self.attempts = {
            task: row["attempts"] for task, row in kept.items() if row["outcome"] in FAILED
        }
        return {task: row for task, row in kept.items() if task not in self.attempts}

    def put(self, task: Task, row: Row) -> Row:
        """Keep a row; returns it as it is kept."""
        if reason := self.reasons.get((task.cell, task.player)):
            row = row | {"no_key": reason}
        row = row | {"attempts": self.attempts.get(task, 0) + row["attempts"]}
        if row["version"] != versions():
            raise UserError(
                f"a worker process plays {row['version']}, this process is {versions()}: the package was edited or "
                "differs on the cluster; restart this process, or install the same version everywhere"
            )
        self.store.put(Key(*self.places[task.cell, task.player], task.trial), row)
        self.added += 1
        return row

    def __enter__(self) -> KeptRun:
        return self

    def __exit__(self, *error: object) -> None:
        self.store.close()


def key_or_reason(write: Callable[..., str], *arguments: Any) -> tuple[str | None, str]:
    """A key, or None and the reason why there is none."""
    try:
        return write(*arguments), ""
    except Unwritable as error:
        return None, str(error)
