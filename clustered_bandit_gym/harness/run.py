"""Many trials of many policies: `evaluate` one environment, `sweep` several.

`run` plays trials in this process, over processes of this machine, or over a Dask cluster.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from inspect import signature
from typing import Any

from clustered_bandit_gym._types import FilePath, Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import check_choice, whole
from clustered_bandit_gym.game.seeds import root_seed
from clustered_bandit_gym.harness.dask_backend import play_on_dask
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.play import Row, Task, Work, resolve_policies
from clustered_bandit_gym.harness.pool import play_in_processes
from clustered_bandit_gym.harness.replay import reproduced
from clustered_bandit_gym.harness.settings import Cell
from clustered_bandit_gym.harness.store import Resume


def evaluate(
    policies: Any,
    env_id: str | Sequence[Cell] = "ClusteredBAI-v0",
    *,
    trials: int = 100,
    seed: int | str = 0,
    n_jobs: int = 1,
    out: FilePath | None = None,
    backend: str | None = None,
    address: str | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
    bound: bool = True,
    strict: bool = True,
    replays: int = 0,
    **env_kwargs: Any,
) -> Board:
    """Play `trials` trials of each policy on one environment and score them.

    In trial t every policy plays the same instance with the same noise. Neither `n_jobs` nor
    `backend` changes a row, except for its `seconds`. Ctrl-C ends the run and returns the board of
    the finished trials.

    Args:
        policies: one policy or several: objects with `solve` or `act`, or names
            ("bai-cl:confidence=certified", "my_module:Mine").
        env_id: a registered environment; `sweep` lists several with their keywords.
        trials, seed: trials 0..trials−1 of root seed `seed`; "secret" draws 128 random bits, which
            the board shows.
        n_jobs: processes; −1 for all cores. A trial that ends its process (a segmentation fault,
            too little memory) gives a row with the outcome "crash", and the run goes on. With 1 all
            is played in this process, which such a trial would end, unless `max_seconds` is given:
            then in one other process.
        out: folder that keeps every finished trial. The same call again plays only what is missing
            or has failed, and may ask for more trials. A trial that failed counts as unfinished in
            the verdict even if a later attempt is right. A kept trial is reused only if nothing
            that made it has changed: package, user's modules, state of policy and generator. If
            that cannot be established, all trials are played again, and a warning and a note on the
            board say why.
        backend, address: "processes" (default) or "dask" with the address of a scheduler.
        max_seconds: limit for a trial, in processes of this machine; a longer one is unfinished.
        progress: show a progress bar.
        bound: compute each instance's lower bound on the pulls (a linear program).
        strict: enforce that a policy learns nothing from the agents but what they send: local
            programs run as copies without access to the policy's variables. Policies that keep to
            the rules get the same rows.
        replays: trials per policy and environment to play once more, in a fresh process. A row that
            differs (the policy carries something from trial to trial) is marked in the column
            `reproduced` and prevents a PASS.
        **env_kwargs: keywords of the environment, e.g. ``n_agents=30, delta=1e-10``.
    """
    trials = whole(trials, "trials")
    replays = whole(replays, "replays", 0)
    check_backend(max_seconds, backend, address)
    count_jobs(n_jobs)
    players = resolve_policies(policies)
    cells = [Cell(env_id, env_kwargs)] if isinstance(env_id, str) else list(env_id)
    work = Work(cells, players, root_seed(seed), bound, strict)
    # Neighbours share the instance and its bound: trial by trial, all policies on it.
    every = itertools.product(range(len(cells)), range(trials), range(len(players)))
    tasks = [Task(cell, player, trial) for cell, trial, player in every]
    with nullcontext() if out is None else Resume(out, work) as resume:
        kept = {} if resume is None else resume.rows()
        rows = {task: row for task, row in kept.items() if task.trial < trials}
        reused = len(rows)
        missing = [task for task in tasks if task not in rows]
        results = run(work, missing, n_jobs, backend, address, max_seconds)
        bar = progress_of(len(tasks), reused, progress)
        with suppress(KeyboardInterrupt), closing(results), bar as shown:
            for task, row in results:
                rows[task] = row if resume is None else resume.put(task, row)
                shown.update()
        unplayed = len(tasks) - len(rows)
        if replays and not unplayed:
            for task, same in reproduced(work, rows, replays).items():
                rows[task] |= {"reproduced": same and rows[task].get("reproduced", True)}
                if resume is not None:
                    resume.keep(task, rows[task])
    if unplayed:
        text = f"interrupted: {len(rows):,} trials are done, {unplayed:,} are not"
        warnings.warn(text, stacklevel=2)
    return Board([rows[task] for task in sorted(rows)], missing=unplayed, reused=reused)


def sweep(
    policies: Any,
    env_id: str | Sequence[str] = "ClusteredBAI-v0",
    *,
    cells: Sequence[Mapping[str, Any]] = ({},),
    **settings: Any,
) -> Board:
    """`evaluate` over several environments, on one board and in one store.

    Of `settings` those of `evaluate` (`trials`, `seed`, `out`, ...) are passed on. Every other
    keyword that is a list, tuple or range is varied, in all combinations; other values are the same
    everywhere:
    ``sweep(policies, "ClusteredBAI-PaperFlat-v0", n_agents=(20, 40, 200), delta=1e-10)``.
    `cells` lists settings one by one:
    ``cells=({"n_agents": 20, "eta": 0.1}, {"env_id": "...", "eta": 0.2})``; each is combined with
    the others.
    """
    options = {
        name: settings.pop(name) for name in signature(evaluate).parameters.keys() & settings
    }
    return evaluate(policies, _cells(env_id, cells, settings), **options)


def _cells(
    env_id: str | Sequence[str], cells: Sequence[Mapping[str, Any]], grid: Values
) -> list[Cell]:
    """The settings that a sweep plays; none twice."""
    found = []
    for own in cells:
        axes = {"env_id": env_id, **grid, **{key: [value] for key, value in own.items()}}
        values = (one if isinstance(one, list | tuple | range) else [one] for one in axes.values())
        for chosen in itertools.product(*values):
            kwargs = dict(zip(axes, chosen, strict=True))
            found.append(Cell(kwargs.pop("env_id"), kwargs))
    if not found:
        raise UserError("nothing to sweep over: a list of settings is empty")
    # As rows show them: boards group rows by that.
    if len({repr((cell.env_id, cell.plain_kwargs)) for cell in found}) < len(found):
        raise UserError(
            "the same environment with the same settings is listed twice; every list is swept: "
            "[[3, 1]] is one value"
        )
    return found


def run(
    work: Work,
    tasks: Sequence[Task],
    n_jobs: int = 1,
    backend: str | None = None,
    address: str | None = None,
    max_seconds: float | None = None,
) -> Generator[tuple[Task, Row]]:
    """Play the tasks; yields (task, row) as trials end, in any order. Arguments as in `evaluate`."""
    n_jobs = count_jobs(n_jobs)
    if address is not None:
        return play_on_dask(work, tasks, address)
    if n_jobs > 1 or backend or max_seconds:
        return play_in_processes(work, tasks, n_jobs, max_seconds)
    return ((task, work.play(task)) for task in tasks)


def check_backend(
    max_seconds: float | None, backend: str | None = None, address: str | None = None
) -> None:
    """Raises `UserError` unless the backend is known and takes what else is given."""
    if max_seconds is not None and (backend == "dask" or not max_seconds > 0):
        raise UserError(
            "max_seconds must be positive, and needs processes of this machine instead of Dask; "
            f"got {max_seconds}"
        )
    check_choice("backend", backend, (None, "processes", "dask"))
    if (address is not None) != (backend == "dask"):
        raise UserError("backend='dask' needs the address of a scheduler, which needs the backend")


def count_jobs(n_jobs: int) -> int:
    """`n_jobs` as a number of processes."""
    if n_jobs == 0 or int(n_jobs) != n_jobs:
        raise UserError(f"n_jobs must be a whole number >= 1, or -1 for all cores; got {n_jobs}")
    if n_jobs > 0:
        return int(n_jobs)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) + 1 + int(n_jobs))


def progress_bar(**settings: Any) -> Any:
    """A `tqdm` bar; in a notebook without ipywidgets it falls back to text, quietly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    return tqdm(**settings)


#: Between lines where there is no terminal, and without an ended trial before the hint.
PROGRESS_SECONDS = 60.0


@contextmanager
def progress_of(total: int, done: int, shown: bool) -> Iterator[Any]:
    """A bar that counts ended trials of `total`, of which `done` were played before; a line a
    minute where there is no terminal or notebook; nothing unless `shown`. A thread watches the
    clock, because a trial that never ends would be silent otherwise."""
    lines = not sys.stderr.isatty() and "ipykernel" not in sys.modules
    hidden = {"file": io.StringIO(), "mininterval": PROGRESS_SECONDS} if lines else {}
    over = threading.Event()

    def watch() -> None:
        hint = "; --max-seconds (max_seconds=) ends trials that take too long"
        before = done
        while not over.wait(PROGRESS_SECONDS):
            stuck = bar.n == before
            before = bar.n
            if stuck or lines:
                passed = bar.format_dict["elapsed"]
                text = f"{bar.n:,} of {bar.total:,} trials after {passed:,.0f} s"
                bar.write(text + hint * stuck, file=sys.stderr)
            if stuck:
                hint = ""  # once

    with progress_bar(total=total, initial=done, unit="trial", disable=not shown, **hidden) as bar:
        if shown:
            threading.Thread(target=watch, daemon=True).start()
        try:
            yield bar
        finally:
            over.set()
