"""Many trials of many policies: `evaluate` on one environment, `sweep` over several, `replay` of one row."""

from __future__ import annotations

import copy
import itertools
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.seeds import root_seed, trial_seeds
from clustered_bandit_gym.harness.cell import Cell
from clustered_bandit_gym.harness.fingerprint import env_key, policy_key, versions
from clustered_bandit_gym.harness.kept import KeptRun, key_or_reason
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.play import Row, play
from clustered_bandit_gym.harness.pool import check_backend, count_jobs, run
from clustered_bandit_gym.harness.replay_check import reproduced
from clustered_bandit_gym.harness.settings import decode, label_of, rebuild_policy, revive
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

    In trial t every policy plays the same instance with the same noise. Neither `n_jobs` nor `backend` changes a row,
    except for its `seconds`. Ctrl-C ends the run and returns the board of the finished trials.

    Args:
        policies: one policy or several: objects with `solve` or `act`, or names ("bai-cl:confidence=certified",
            "my_module:Mine").
        env_id: a registered environment.
        trials, seed: trials 0..trials−1 of root seed `seed`; "secret" draws 128 random bits, which the board shows.
        n_jobs: processes; −1 for all cores. A trial that ends its process (a segmentation fault, too little memory)
            gives a row with the outcome "crash", and the run goes on. With 1 all is played in this process, which such
            a trial would end, unless `max_seconds` is given: then in one other process.
        out: folder that keeps every finished trial. The same call again plays only what is missing or has failed, and
            may ask for more trials. A trial that failed counts as unfinished in the verdict even if a later attempt is
            right. A kept trial is reused only if nothing that made it has changed: package, user's modules, state of
            policy and generator. If that cannot be established, all trials are played again, and a warning and a note
            on the board say why.
        backend, address: "processes" (default) or "dask", and the address of a running cluster.
        max_seconds: limit for a trial, in processes of this machine. A trial beyond it is ended and unfinished.
        progress: show a progress bar.
        bound: compute each instance's lower bound on the pulls (a linear program).
        stepwise: play `Policy.solve` through `env.step`, pull by pull.
        strict: enforce that a policy learns nothing from the agents but what they send: local programs run as copies
            without access to the policy's variables. Policies that keep to the rules get the same rows.
        replays: trials per policy and environment to play once more, in a fresh process. A row that differs (the policy
            carries something from trial to trial) is marked in the column `reproduced` and prevents a PASS.
        **env_kwargs: keywords of the environment, e.g. ``n_agents=30, delta=1e-10``.
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
    return _run(policies, [Cell(env_id, env_kwargs)], settings)


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

    Every keyword of `grid` that is a list, tuple or range is varied, in all combinations; other values are the same
    everywhere: ``sweep(policies, "ClusteredBAI-PaperFlat-v0", n_agents=(20, 40, 200), delta=1e-10)``. `cells` lists
    settings one by one: ``cells=({"n_agents": 20, "eta": 0.1}, {"env_id": "...", "eta": 0.2})``; each is combined with
    `grid`. The other arguments are those of `evaluate`.
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
    """The traceback of the exception that ended the trial of a row. The trial is played again, as by `replay`."""
    found: list[str] = []
    _replay(
        row,
        policy,
        env_kwargs,
        on_error=lambda error: found.extend(traceback.format_exception(error)),
    )
    return "".join(found)


def replay(row: Mapping[str, Any], policy: Any = None, **env_kwargs: Any) -> Row:
    """Play the trial of a row again, alone: same instance and same noise, hence the same row except for `seconds`.

    `row` is a row of `board.trials`, of a store, or of an exported table. The policy is rebuilt from its class and
    settings. Pass `policy` where that is impossible: the class is gone, or its settings are not its arguments. Pass
    environment keywords that a row cannot hold, such as an instance of another session.
    """
    return _replay(row, policy, env_kwargs)


def _replay(
    row: Mapping[str, Any],
    policy: Any,
    env_kwargs: dict[str, Any],
    on_error: Callable[[BaseException], object] | None = None,
) -> Row:
    data = {key: decode(value) for key, value in dict(row).items()}
    if data.get("version") != versions():
        warnings.warn(
            f"the row was played by {data.get('version')}; this is {versions()}", stacklevel=3
        )
    if policy is None:
        policy = rebuild_policy(data["policy_class"], data["settings"])
    kwargs = {
        key: revive(key, value)
        for key, value in data["env_kwargs"].items()
        if key not in env_kwargs
    }
    cell = Cell(data["env"], kwargs | env_kwargs)
    return play(
        policy,
        cell.make(),
        int(data["seed"]),
        bool(data["stepwise"]),
        strict=bool(data.get("strict", False)),
        trial=int(data["trial"]),
        label=data["policy"],
        env_kwargs=cell.plain_kwargs,
        on_error=on_error,
    )


def resolve_policies(policies: Any) -> list[tuple[str, Any]]:
    """Policies as (label, object), labels unique; names are looked up."""
    from clustered_bandit_gym.policies import make

    if isinstance(policies, str) or hasattr(policies, "solve") or hasattr(policies, "act"):
        policies = [policies]
    if not isinstance(policies, Iterable):
        raise UserError(f"policies are objects with solve or act, or names; got {policies!r}")
    players: list[tuple[str, Any]] = []
    keys: set[str] = set()
    for policy in policies:
        player = make(policy) if isinstance(policy, str) else policy
        if isinstance(player, type) or not (hasattr(player, "solve") or hasattr(player, "act")):
            hint = (
                f"; pass an object of it: {player.__name__}()" if isinstance(player, type) else ""
            )
            raise UserError(
                f"a policy is an object with solve(federation) or act(obs, info), got {policy!r}{hint}"
            )
        try:
            copy.deepcopy(player)
        except Exception as error:
            raise UserError(
                f"every trial plays a copy of the policy, but {policy!r} cannot be copied: {error}"
            ) from error
        key, label = key_or_reason(policy_key, player)[0], label_of(player)
        if key in keys or any(player is other for _, other in players):
            raise UserError(f"the policy {label} is listed twice; list it once")
        if key is not None:
            keys.add(key)
        taken = {name for name, _ in players}
        if label in taken:
            label = next(
                f"{label} #{i}" for i in itertools.count(2) if f"{label} #{i}" not in taken
            )
        players.append((label, player))
    if not players:
        raise UserError("there is no policy to play; pass at least one")
    return players


def _run(policies: Any, cells: list[Cell], settings: RunSettings) -> Board:
    players = resolve_policies(policies)
    env_keys = [key_or_reason(env_key, cell.env_id, cell.kwargs) for cell in cells]
    known = [key for key, _ in env_keys if key is not None]
    if len(set(known)) < len(known):
        raise UserError("the same environment with the same settings is listed twice; list it once")
    work = Work(
        cells, players, int(settings.seed), settings.bound, settings.stepwise, settings.strict
    )
    seeds = trial_seeds(settings.seed, 0)
    for position in range(len(cells)):
        # Invalid settings show here, before anything is played.
        unwrapped: Any = work.env(position).unwrapped
        unwrapped.new_federation(seeds.instance, seeds.play)
    # Neighbours share the instance and its bound: trial by trial, all policies on it.
    trials = range(int(settings.trials))
    tasks = [Task(c, p, t) for c in range(len(cells)) for t in trials for p in range(len(players))]
    earlier: dict[Task, Row] = {}
    if settings.out is None:
        rows, interrupted = _play_all(work, tasks, {}, settings, None)
    else:
        mode = (" stepwise" if settings.stepwise else "") + (" strict" if settings.strict else "")
        with KeptRun(settings.out, players, env_keys, settings.seed, mode) as kept:
            earlier = {
                task: row for task, row in kept.rows().items() if task.trial < settings.trials
            }
            rows, interrupted = _play_all(work, tasks, earlier, settings, kept)
    order = sorted(rows, key=lambda task: (task.cell, task.player, task.trial))
    if settings.replays and not interrupted:
        for task, same in reproduced(work, rows, int(settings.replays)).items():
            rows[task] = rows[task] | {"reproduced": same}
    missing = len(tasks) - len(rows) if interrupted else 0
    return Board([rows[task] for task in order], missing=missing, reused=len(earlier))


def _play_all(
    work: Work,
    tasks: list[Task],
    rows: dict[Task, Row],
    settings: RunSettings,
    kept: KeptRun | None,
) -> tuple[dict[Task, Row], bool]:
    """Plays the tasks that `rows` lacks. Returns all rows, and whether Ctrl-C ended the run early."""
    from clustered_bandit_gym.harness.output.progress import progress_bar

    rows = dict(rows)
    missing = [task for task in tasks if task not in rows]
    results = run(
        work, missing, settings.n_jobs, settings.backend, settings.address, settings.max_seconds
    )
    bar = progress_bar(
        total=len(tasks),
        initial=len(rows),
        unit="trial",
        disable=not settings.progress,
        dynamic_ncols=True,
    )
    try:
        with bar:
            for task, row in results:
                rows[task] = row if kept is None else kept.put(task, row)
                bar.update()
    except KeyboardInterrupt:
        warnings.warn(
            f"interrupted: {len(rows):,} trials are done, {len(tasks) - len(rows):,} are not",
            stacklevel=4,
        )
        return rows, True
    except ClusterLost as error:
        if settings.out is None:
            help_ = f"the {len(rows):,} trials that had ended are lost with it; --out keeps them"
        else:
            help_ = (
                f"{len(rows):,} of {len(tasks):,} trials are kept in {settings.out}; the same command plays the rest, "
                "with another --address or without --backend"
            )
        raise UserError(f"{error}; {help_}") from error
    finally:
        results.close()
    return rows, False


def make_env(env_id: str, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    """`gym.make`, with errors that say what to do."""
    return Cell(env_id, kwargs).make()
