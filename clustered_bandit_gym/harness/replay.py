"""Trials once more: the one of a row, or some of a run in a fresh process."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.play import Row, Task, Work
from clustered_bandit_gym.harness.pool import play_in_processes
from clustered_bandit_gym.harness.settings import Cell, check_allowed, rebuild_policy, revive

#: Columns that differ between two plays of one trial, or that tell of the run and not of the play.
_OTHER = {"seconds", "attempts", "killed", "no_key", "reproduced"}


def replay(
    row: Mapping[str, Any],
    policy: Any = None,
    *,
    allow: Sequence[str] = (),
    on_error: Callable[[BaseException], object] | None = None,
    **env_kwargs: Any,
) -> Row:
    """Play the trial of a row again, alone: the same row except for `seconds`.

    `row` is a row of `board.trials` or of a store. The policy is rebuilt from its class and
    settings. Rows may come from others, so that only policies and generators of this package are
    rebuilt, and those of the modules that `allow` names. Pass `policy` where that is impossible:
    the class is gone, or its settings are not its arguments. Pass environment keywords that a row
    cannot hold, such as an instance. `on_error` is called with the exception that ended the play,
    if one did.
    """
    if row.get("version") != versions():
        text = f"the row was played by {row.get('version')}; this is {versions()}"
        warnings.warn(text, stacklevel=2)
    if ":" in row["env"]:
        check_allowed(row["env"], allow)
    if policy is None:
        policy = rebuild_policy(row["policy_class"], row["settings"], allow)
    for key in row["env_kwargs"].keys() - env_kwargs:
        env_kwargs[key] = revive(key, row["env_kwargs"][key], allow)
    cells = [Cell(row["env"], env_kwargs)]
    bounded = not np.isnan(np.array(row["bound"], dtype=float))
    work = Work(cells, [(row["policy"], policy)], row["seed"], bool(bounded), row["strict"])
    return work.play(Task(0, 0, row["trial"]), row["stepwise"], on_error)


def reproduced(work: Work, rows: Mapping[Task, Row], replays: int) -> dict[Task, bool]:
    """Play up to `replays` trials of each policy and environment again: whether each gave the same
    row. A policy that carries something from trial to trial plays them differently. Trials are
    taken evenly from those played, and each policy gets a process of its own, which plays them from
    the last to the first, so that nothing comes before a trial that came before it in the run."""
    same = {}
    # What ended its process would end this one, too, and with it the trials that follow.
    whole = sorted(task for task in rows if rows[task]["outcome"] not in ("crash", "timeout"))
    for player in range(len(work.players)):
        chosen: list[Task] = []
        for cell in range(len(work.cells)):
            tasks = [task for task in whole if (task.cell, task.player) == (cell, player)]
            places = np.linspace(len(tasks) - 1, 0, min(replays, len(tasks))).astype(int)
            chosen += [tasks[place] for place in places]
        for task, row in play_in_processes(work, chosen, 1):
            same[task] = _content(row) == _content(rows[task])
    return same


def _content(row: Row) -> str:
    """What both plays of a trial must agree on, as a file would hold it."""
    return json.dumps({key: row[key] for key in row.keys() - _OTHER}, sort_keys=True)
