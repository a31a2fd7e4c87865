"""Many trials of many policies: `evaluate` one environment, `sweep` several, `replay` a row."""

from __future__ import annotations

import copy
import itertools
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.seeds import root_seed, trial_seeds
from clustered_bandit_gym.harness.cell import Cell
from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.play import Row, TrialSpec, play_trial
from clustered_bandit_gym.harness.pool import check_backend, count_jobs, run
from clustered_bandit_gym.harness.progress import Progress
from clustered_bandit_gym.harness.replay_check import reproduced
from clustered_bandit_gym.harness.resume import Resume
from clustered_bandit_gym.harness.settings import (
    CannotRebuild,
    decode,
    label_of,
    rebuild_policy,
    revive,
)
from clustered_bandit_gym.harness.trial import ClusterLost, Task, Work


@dataclass(frozen=True)
class RunSettings:
    """How a run is played; `evaluate` explains each field. Invalid values raise immediately."""

    trials: int = 100
    seed: int = 0
    n_jobs: int = 1
    out: str | Path | None = None
    backend: str | None = None
    address: str | None = None
    max_seconds: float | None = None
    progress: bool = True
    bound: bool = True
    stepwise: bool = False
    strict: bool = True
    replays: int = 0

    def __post_init__(self) -> None:
        if int(self.trials) != self.trials or self.trials < 1:
            raise UserError(f"trials must be a whole number >= 1, got {self.trials}")
        if int(self.replays) != self.replays or self.replays < 0:
            raise UserError(f"replays must be a whole number >= 0, got {self.replays}")
        count_jobs(self.n_jobs)
        check_backend(self.backend, self.address, self.max_seconds)
        trial_seeds(self.seed, 0)


def evaluate(
    policies: Any,
    env_id: str = "ClusteredBAI-v0",
    *,
    trials: int = 100,
    seed: int | str = 0,
    n_jobs: int = 1,
    out: str | Path | None = None,
    backend: str | None = None,
    address: str | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
    bound: bool = True,
    stepwise: bool = False,
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
        env_id: a registered environment.
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
        backend, address: "processes" (default) or "dask", and the address of a running cluster.
        max_seconds: limit for a trial, in processes of this machine. A trial beyond it is ended and
            unfinished.
        progress: show a progress bar.
        bound: compute each instance's lower bound on the pulls (a linear program).
        stepwise: play `Policy.solve` through `env.step`, pull by pull.
        strict: enforce that a policy learns nothing from the agents but what they send: local
            programs run as copies without access to the policy's variables. Policies that keep to
            the rules get the same rows.
        replays: trials per policy and environment to play once more, in a fresh process. A row that
            differs (the policy carries something from trial to trial) is marked in the column
            `reproduced` and prevents a PASS.
        **env_kwargs: keywords of the environment, e.g. ``n_agents=30, delta=1e-10``.
    """
    return sweep(
        policies,
        cells=[{**env_kwargs, "env_id": env_id}],
        trials=trials,
        seed=seed,
        n_jobs=n_jobs,
        out=out,
        backend=backend,
        address=address,
        max_seconds=max_seconds,
        progress=progress,
        bound=bound,
        stepwise=stepwise,
        strict=strict,
        replays=replays,
    )


def sweep(
    policies: Any,
    env_id: str | Sequence[str] = "ClusteredBAI-v0",
    *,
    cells: Sequence[Mapping[str, Any]] | None = None,
    trials: int = 100,
    seed: int | str = 0,
    n_jobs: int = 1,
    out: str | Path | None = None,
    backend: str | None = None,
    address: str | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
    bound: bool = True,
    stepwise: bool = False,
    strict: bool = True,
    replays: int = 0,
    **grid: Any,
) -> Board:
    """`evaluate` over several environments, on one board and in one store.

    Every keyword of `grid` that is a list, tuple or range is varied, in all combinations; other
    values are the same
    everywhere: ``sweep(policies, "ClusteredBAI-PaperFlat-v0", n_agents=(20, 40, 200),
        delta=1e-10)``. `cells` lists
    settings one by one: ``cells=({"n_agents": 20, "eta": 0.1}, {"env_id": "...", "eta": 0.2})``;
    each is combined with `grid`. The other arguments are those of `evaluate`.
    """
    settings = RunSettings(
        trials,
        root_seed(seed),
        n_jobs,
        out,
        backend,
        address,
        max_seconds,
        progress,
        bound,
        stepwise,
        strict,
        replays,
    )
    ids = [env_id] if isinstance(env_id, str) else list(env_id)
    varied = {
        key: list(value) for key, value in grid.items() if isinstance(value, list | tuple | range)
    }
    fixed = {key: value for key, value in grid.items() if key not in varied}
    empty = [key for key, values in varied.items() if not values]
    if empty or not ids:
        raise UserError(f"nothing to sweep over: {', '.join(empty) or 'env_id'} is empty")
    found: list[Cell] = []
    for extra in cells if cells is not None else [{}]:
        own = dict(extra)
        here = [own.pop("env_id")] if "env_id" in own else ids
        for one_id, *values in itertools.product(here, *varied.values()):
            found.append(Cell(one_id, fixed | dict(zip(varied, values, strict=True)) | own))
    return _run(policies, found, settings)


def traceback_of(row: Mapping[str, Any], policy: Any = None, **env_kwargs: Any) -> str:
    """The traceback of the exception that ended the trial of a row, which is played again."""
    found: list[str] = []

    def note(error: BaseException) -> None:
        found.extend(traceback.format_exception(error))

    try:
        _replay(row, policy, env_kwargs, (), on_error=note)
    except CannotRebuild as error:
        return str(error)
    return "".join(found)


def replay(
    row: Mapping[str, Any], policy: Any = None, *, allow: Sequence[str] = (), **env_kwargs: Any
) -> Row:
    """Play the trial of a row again, alone: the same row except for `seconds`.

    `row` is a row of `board.trials`, of a store, or of an exported table. The policy is rebuilt
    from its class and settings. Rows may come from others, so that only policies and generators of
    this package are rebuilt, and those of the modules that `allow` names. Pass `policy` where that
    is
    impossible: the class is gone, or its settings are not its arguments. Pass environment keywords
    that a row cannot hold, such as an instance of another session.
    """
    return _replay(row, policy, env_kwargs, allow)


def _replay(
    row: Mapping[str, Any],
    policy: Any,
    env_kwargs: dict[str, Any],
    allow: Sequence[str],
    on_error: Callable[[BaseException], object] | None = None,
) -> Row:
    data = {key: decode(value) for key, value in dict(row).items()}
    if data.get("version") != versions():
        warnings.warn(
            f"the row was played by {data.get('version')}; this is {versions()}", stacklevel=3
        )
    home, _, _ = str(data["env"]).rpartition(":")
    if home and home not in allow:
        raise CannotRebuild(
            f"the row's environment {data['env']} runs code of {home}: "
            f'allow=["{home}"] or --allow {home} if you trust it',
            "env",
        )
    if policy is None:
        policy = rebuild_policy(data["policy_class"], data["settings"], allow)
    kwargs = {
        key: revive(key, value, allow)
        for key, value in data["env_kwargs"].items()
        if key not in env_kwargs
    }
    cell = Cell(data["env"], kwargs | env_kwargs)
    spec = TrialSpec(
        cell,
        policy,
        data["policy"],
        int(data["seed"]),
        int(data["trial"]),
        stepwise=bool(data["stepwise"]),
        strict=bool(data.get("strict", False)),
    )
    return play_trial(spec, cell.make(), on_error=on_error)


def resolve_policies(policies: Any) -> list[tuple[str, Any]]:
    """Policies as (label, object), labels unique; names are looked up."""
    from clustered_bandit_gym.policies import make

    if isinstance(policies, str) or hasattr(policies, "solve") or hasattr(policies, "act"):
        policies = [policies]
    if not isinstance(policies, Iterable):
        raise UserError(f"policies are objects with solve or act, or names; got {policies!r}")
    players: list[tuple[str, Any]] = []
    given: list[Any] = []
    for policy in policies:
        player = make(policy) if isinstance(policy, str) else policy
        if isinstance(player, type) or not (hasattr(player, "solve") or hasattr(player, "act")):
            hint = (
                f"; pass an object of it: {policy.__name__}()" if isinstance(policy, type) else ""
            )
            raise UserError(
                "a policy is an object with solve(federation) or act(obs, info), "
                f"got {policy!r}{hint}"
            )
        try:
            copy.deepcopy(player)
        except Exception as error:
            raise UserError(
                f"every trial plays a copy of the policy, but {policy!r} cannot be copied: {error}"
            ) from error
        label = label_of(player)
        if any(policy is other or (isinstance(policy, str) and policy == other) for other in given):
            raise UserError(f"the policy {label} is listed twice; list it once")
        given.append(policy)
        taken = {name for name, _ in players}
        numbered = (f"{label} #{i}" for i in itertools.count(2))
        label = next(name for name in itertools.chain([label], numbered) if name not in taken)
        players.append((label, player))
    if not players:
        raise UserError("there is no policy to play; pass at least one")
    return players


def _run(policies: Any, cells: list[Cell], settings: RunSettings) -> Board:
    """Play all trials that the store lacks, and put the rows on a board."""
    players = resolve_policies(policies)
    for one, other in itertools.combinations(cells, 2):
        if one.same(other):
            raise UserError(
                "the same environment with the same settings is listed twice; list it once"
            )
    work = Work(
        cells, players, int(settings.seed), settings.bound, settings.stepwise, settings.strict
    )
    for position in range(len(cells)):
        work.check(position)  # invalid settings raise before anything is played
    # Neighbours share the instance and its bound: trial by trial, all policies on it.
    trials = range(int(settings.trials))
    tasks = [Task(c, p, t) for c in range(len(cells)) for t in trials for p in range(len(players))]
    rows: dict[Task, Row] = {}
    interrupted = False
    with nullcontext() if settings.out is None else Resume(settings.out, work) as resume:
        if resume is not None:
            rows = {t: row for t, row in resume.rows().items() if t.trial < settings.trials}
        reused = len(rows)
        missing = [task for task in tasks if task not in rows]
        results = run(
            work, missing, settings.n_jobs, settings.backend, settings.address, settings.max_seconds
        )
        try:
            with Progress(len(tasks), reused, settings.progress) as progress:
                for task, row in results:
                    rows[task] = row if resume is None else resume.put(task, row)
                    progress.update()
        except KeyboardInterrupt:
            interrupted = True
            left = len(tasks) - len(rows)
            warnings.warn(
                f"interrupted: {len(rows):,} trials are done, {left:,} are not", stacklevel=3
            )
        except ClusterLost as error:
            raise UserError(f"{error}; {_what_is_kept(rows, tasks, settings)}") from error
        finally:
            if isinstance(results, Generator):
                results.close()
    if settings.replays and not interrupted:
        for task, same in reproduced(work, rows, int(settings.replays)).items():
            rows[task] = rows[task] | {"reproduced": same}
    order = sorted(rows, key=lambda task: (task.cell, task.player, task.trial))
    unplayed = len(tasks) - len(rows) if interrupted else 0
    return Board([rows[task] for task in order], missing=unplayed, reused=reused)


def _what_is_kept(rows: dict[Task, Row], tasks: list[Task], settings: RunSettings) -> str:
    if settings.out is None:
        return f"the {len(rows):,} trials that had ended are lost with it; --out keeps them"
    return (
        f"{len(rows):,} of {len(tasks):,} trials are kept in {settings.out}; the same command "
        "plays "
        "the rest, with another --address or without --backend"
    )


def make_env(env_id: str, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    """`gym.make`, with errors that say what to do."""
    return Cell(env_id, kwargs).make()
