"""Rows of earlier runs: which of them a run may reuse, and the keys of its new ones."""

from __future__ import annotations

import itertools
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.identity import Unhashable, env_key, policy_key, versions
from clustered_bandit_gym.harness.play import Row, Task, Work
from clustered_bandit_gym.harness.scoring.summary import FAILED
from clustered_bandit_gym.harness.store import Key, Store


class Resume:
    """The part of a store that belongs to one run. A context manager.

    Where the policy or the environment has no key, rows are kept under a key that no other run has,
    so that nothing is reused now or later; such rows carry the reason as `no_key`.

    Args:
        out: folder of the store; it is created if missing.
        work: what the run plays.

    Attributes:
        added: the number of rows that this run has put into the store.
    """

    def __init__(self, out: str | Path, work: Work) -> None:
        self.places: dict[tuple[int, int], tuple[str, str, str, str]] = {}
        self.reasons: dict[tuple[int, int], str] = {}
        self.attempts: dict[Task, int] = {}
        self.added = 0
        self.labels = [label for label, _ in work.players]
        mode = " strict" if work.strict else ""
        envs = [_key_or_reason(env_key, cell.env_id, cell.kwargs) for cell in work.cells]
        policies = [_key_or_reason(policy_key, policy) for _, policy in work.players]
        for c, p in itertools.product(range(len(envs)), range(len(policies))):
            (env, no_env), (policy, no_policy) = envs[c], policies[p]
            if no_policy or no_env:
                self.reasons[c, p] = no_policy or no_env
                policy = f"no key {uuid.uuid4().hex}"
            # The next run of the same call replaces this one on the board: no random name here.
            env = env or f"no key, environment {c}"
            self.places[c, p] = (env, policy + mode, versions(), str(int(work.seed)))
        if len(set(self.places.values())) < len(self.places):
            raise UserError("the same policy or environment is listed twice; list it once")
        for p, reason in {p: reason for (_, p), reason in self.reasons.items()}.items():
            text = f"{self.labels[p]}: kept trials are not reused, because {reason}"
            warnings.warn(text, stacklevel=5)
        self.store = Store(out)
        for (_, p), place in self.places.items():
            self.store.announce(self.labels[p], *place)

    def rows(self) -> dict[Task, Row]:
        """Rows of earlier runs, except failed ones, whose attempts are remembered."""
        rows = {}
        for (c, p), place in self.places.items():
            for trial, row in self.store.get(*place).items():
                task = Task(c, p, trial)
                if row["outcome"] in FAILED:
                    self.attempts[task] = row["attempts"]
                else:
                    rows[task] = row | {"policy": self.labels[p]}
        return rows

    def put(self, task: Task, row: Row) -> Row:
        """Keep a row; returns it as it is kept."""
        if reason := self.reasons.get((task.cell, task.player)):
            row = row | {"no_key": reason}
        row = row | {"attempts": self.attempts.get(task, 0) + row["attempts"]}
        if row["version"] != versions():
            raise UserError(
                f"a worker process plays {row['version']}, this process is {versions()}: restart "
                "this process, or install the same version everywhere"
            )
        self.store.put(Key(*self.places[task.cell, task.player], task.trial), row)
        self.added += 1
        return row

    def __enter__(self) -> Resume:
        return self

    def __exit__(self, *error: object) -> None:
        self.store.close()


def _key_or_reason(write: Callable[..., str], *arguments: Any) -> tuple[str, str]:
    """A key, or "" and the reason why there is none."""
    try:
        return write(*arguments), ""
    except Unhashable as error:
        return "", str(error)
