"""Trials once more, in a fresh process: a policy that carries something from trial to trial plays
them differently.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import cloudpickle

from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.pool import pack
from clustered_bandit_gym.harness.trial import Task, Work

#: Columns that differ between two plays of the same trial, or say something about the run and not
#: about the play.
_OTHER = {"seconds", "attempts", "killed", "no_key", "reproduced"}


def reproduced(work: Work, rows: Mapping[Task, Row], replays: int) -> dict[Task, bool]:
    """Play up to `replays` trials of each policy and environment again: whether each gave the same
    row.

    Trials are taken evenly from those played, and each policy gets a process of its own, which
    plays them from the last to the first, so that nothing comes before a trial that came before it
    in the run.
    """
    chosen: dict[int, list[Task]] = {}
    for player in range(len(work.players)):
        for cell in range(len(work.cells)):
            # What ended its process would end this one, too, and with it the trials that follow.
            whole = [task for task in rows if rows[task]["outcome"] not in ("crash", "timeout")]
            tasks = sorted(task for task in whole if (task.cell, task.player) == (cell, player))
            count = min(replays, len(tasks))
            picked = (
                {tasks[i * (len(tasks) - 1) // max(1, count - 1)] for i in range(count)}
                if count > 1
                else tasks[-1:]
            )
            chosen.setdefault(player, []).extend(sorted(picked, reverse=True))
    same: dict[Task, bool] = {}
    for tasks in chosen.values():
        for task, row in zip(tasks, played_fresh(work, tasks), strict=True):
            same[task] = row is not None and _content(row) == _content(rows[task])
    return same


def _content(row: Row) -> str:
    return json.dumps(
        {key: value for key, value in row.items() if key not in _OTHER}, sort_keys=True
    )


def played_fresh(work: Work, tasks: list[Task]) -> list[Row | None]:
    """The rows of `tasks`, played in one new process; None for all that it did not get to, if it
    dies.
    """
    paths = [path or os.getcwd() for path in sys.path]
    code = (
        f"import sys; sys.path[:] = {paths!r}; from {__name__} import _child; _child(sys.argv[1])"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        given = cloudpickle.dumps(([tuple(task) for task in tasks], pack(work)))
        subprocess.run(
            [sys.executable, "-c", code, str(file)],
            input=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        rows: list[Row | None] = (
            [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        )
    return rows + [None] * (len(tasks) - len(rows))


def _child(path: str) -> None:
    """In the new process: what to play comes from the parent through a pipe, rows go to a file of
    the parent's.
    """
    tasks, packed = cloudpickle.loads(sys.stdin.buffer.read())
    work: Work = cloudpickle.loads(packed)
    with Path(path).open("w") as file:
        for task in tasks:
            print(json.dumps(work.do(Task(*task))), file=file, flush=True)
