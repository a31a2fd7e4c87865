"""Many trials of many policies: `evaluate` on one environment, `sweep` over several, `replay` of one row."""

from __future__ import annotations

import copy
import importlib
import itertools
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.harness.fingerprint import (
    env_spec,
    find_instance,
    label_of,
    policy_spec,
    rebuild_policy,
    versions,
)
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.parallel import Task, Work, count_jobs, run
from clustered_bandit_gym.harness.play import Row, play
from clustered_bandit_gym.harness.store import Key, Store

Cell = tuple[str, dict[str, Any]]


def evaluate(
    policies: Any,
    env_id: str = "ClusteredBAI-v0",
    *,
    trials: int = 100,
    seed: int = 0,
    n_jobs: int = 1,
    out: str | Path | None = None,
    backend: str | None = None,
    address: str | None = None,
    progress: bool = True,
    bound: bool = True,
    stepwise: bool = False,
    **env_kwargs: Any,
) -> Board:
    """Play `trials` trials of each policy on one environment and score them.

    Trial t meets the same instance and noise under every policy. Neither `n_jobs` nor `backend` changes a row (but its
    `seconds`). Ctrl-C ends the run with the board of what is done.

    Args:
        policies: one policy or several: objects with `solve` or `act`, or names ("bai-cl:confidence=certified",
            "my_module:Mine").
        env_id: a registered environment.
        trials, seed: trials 0..trials−1 of root seed `seed`.
        n_jobs: processes; −1 for all cores.
        out: folder that keeps every finished trial. The same call again skips what is there, plays failed trials anew,
            and may ask for more trials.
        backend, address: "loky" (default), "dask" or "ray", and where their cluster is.
        bound: compute each instance's lower bound on the pulls (a linear program).
        stepwise: play `Policy.solve` through `env.step`, pull by pull.
        **env_kwargs: go to the environment, e.g. ``n_agents=30, delta=1e-10``.
    """
    return _run(
        policies, [(env_id, env_kwargs)], trials, seed, n_jobs, out, backend, address, progress, bound, stepwise
    )


def sweep(
    policies: Any,
    env_id: str | Sequence[str] = "ClusteredBAI-v0",
    *,
    cells: Sequence[Mapping[str, Any]] | None = None,
    trials: int = 100,
    seed: int = 0,
    n_jobs: int = 1,
    out: str | Path | None = None,
    backend: str | None = None,
    address: str | None = None,
    progress: bool = True,
    bound: bool = True,
    stepwise: bool = False,
    **grid: Any,
) -> Board:
    """`evaluate` over several environments, on one board and in one store.

    Every keyword of `grid` that is a list, tuple or range is varied, in all combinations; other values are the same
    everywhere: ``sweep(policies, "ClusteredBAI-PaperFlat-v0", n_agents=(20, 40, 200), delta=1e-10)``. Instead, or
    besides, `cells` lists settings one by one: ``cells=({"n_agents": 20, "eta": 0.1}, {"env_id": "...", "eta": 0.2})``.
    """
    ids = [env_id] if isinstance(env_id, str) else list(env_id)
    varied = {key: list(value) for key, value in grid.items() if isinstance(value, list | tuple | range)}
    fixed = {key: value for key, value in grid.items() if key not in varied}
    empty = [key for key, values in varied.items() if not values]
    if empty or not ids:
        raise ValueError(f"nothing to sweep over: {', '.join(empty) or 'env_id'} is empty")
    found: list[Cell] = []
    for extra in cells if cells is not None else [{}]:
        own = dict(extra)
        here = [own.pop("env_id")] if "env_id" in own else ids
        for one_id, *values in itertools.product(here, *varied.values()):
            found.append((one_id, fixed | dict(zip(varied, values, strict=True)) | own))
    return _run(policies, found, trials, seed, n_jobs, out, backend, address, progress, bound, stepwise)


def replay(row: Mapping[str, Any], policy: Any = None, **env_kwargs: Any) -> Row:
    """Play the trial of a row again, alone: same instance, same noise, hence the same row (but its `seconds`).

    `row` is a row of `board.trials`, of a store, or of an exported table. The policy is made again from its class
    and settings; hand it over where that cannot work (a class that is gone, settings that are no arguments). Likewise
    for environment keywords that a row cannot hold, such as an instance of another session.
    """
    data = {key: _decode(value) for key, value in dict(row).items()}
    if data.get("version") != versions():
        warnings.warn(f"the row was played by {data.get('version')}; this is {versions()}", stacklevel=2)
    if policy is None:
        policy = rebuild_policy(data["policy_class"], data["settings"])
    kwargs = {
        key: env_kwargs[key] if key in env_kwargs else _revive(key, value) for key, value in data["env_kwargs"].items()
    }
    env = make_env(data["env"], kwargs | env_kwargs)
    return play(
        policy,
        env,
        int(data["seed"]),
        bool(data["stepwise"]),
        trial=int(data["trial"]),
        label=data["policy"],
        env_kwargs=kwargs,
    )


def resolve_policies(policies: Any) -> list[tuple[str, Any]]:
    """Policies as (label, object), labels unique; names are looked up."""
    from clustered_bandit_gym.policies import make

    if isinstance(policies, str) or hasattr(policies, "solve") or hasattr(policies, "act"):
        policies = [policies]
    if not isinstance(policies, Iterable):
        raise ValueError(f"policies are objects with solve or act, or names; got {policies!r}")
    players: list[tuple[str, Any]] = []
    specs: set[str] = set()
    for policy in policies:
        player = make(policy) if isinstance(policy, str) else policy
        if isinstance(player, type) or not (hasattr(player, "solve") or hasattr(player, "act")):
            hint = f"; make an object of it: {player.__name__}()" if isinstance(player, type) else ""
            raise ValueError(f"a policy is an object with solve(federation) or act(obs, info), got {policy!r}{hint}")
        try:
            copy.deepcopy(player)
        except Exception as error:
            raise ValueError(
                f"every trial plays a copy of the policy, and {policy!r} cannot be copied: {error}"
            ) from error
        spec, label = policy_spec(player), label_of(player)
        if spec in specs:
            raise ValueError(f"the policy {label} is there twice")
        specs.add(spec)
        taken = {name for name, _ in players}
        if label in taken:
            label = next(f"{label} #{i}" for i in itertools.count(2) if f"{label} #{i}" not in taken)
        players.append((label, player))
    if not players:
        raise ValueError("no policy to play")
    return players


def _run(
    policies: Any,
    cells: list[Cell],
    trials: int,
    seed: int,
    n_jobs: int,
    out: str | Path | None,
    backend: str | None,
    address: str | None,
    progress: bool,
    bound: bool,
    stepwise: bool,
) -> Board:
    if int(trials) != trials or trials < 1:
        raise ValueError(f"trials must be a whole number >= 1, got {trials}")
    count_jobs(n_jobs)
    players = resolve_policies(policies)
    env_keys = [env_spec(env_id, kwargs) for env_id, kwargs in cells]
    if len(set(env_keys)) < len(env_keys):
        raise ValueError("the same environment with the same settings is there twice")
    seeds = trial_seeds(seed, 0)
    for env_id, kwargs in cells:
        # Whatever is wrong with the settings shows here, before anything is played.
        unwrapped: Any = make_env(env_id, kwargs).unwrapped
        if not hasattr(unwrapped, "new_federation"):
            raise ValueError(f"{env_id} is not an environment of clustered bandits")
        unwrapped.new_federation(seeds.instance, seeds.play)
    work = Work(cells, players, int(seed), bound, stepwise)
    # Neighbours share the instance and its bound: trial by trial, all policies of it.
    tasks = [Task(c, p, t) for c in range(len(cells)) for t in range(int(trials)) for p in range(len(players))]
    rows: dict[Task, Row] = {}
    store = Store(out) if out is not None else None
    try:
        keys: dict[Task, Key] = {}
        if store is not None:
            mode = " stepwise" if stepwise else ""
            specs = [policy_spec(player) + mode for _, player in players]
            for (c, env_key), (p, (label, _)) in itertools.product(enumerate(env_keys), enumerate(players)):
                place = (env_key, specs[p], versions(), str(int(seed)))
                store.announce(label, *place)
                keys |= {Task(c, p, t): Key(*place, t) for t in range(int(trials))}
                rows |= {
                    Task(c, p, t): row | {"policy": label}
                    for t, row in store.get(*place).items()
                    if t < trials and row["outcome"] != "error"
                }
        interrupted = _play_all(
            work, [task for task in tasks if task not in rows], rows, keys, store, n_jobs, backend, address, progress
        )
    finally:
        if store is not None:
            store.close()
    order = sorted(rows, key=lambda task: (task.cell, task.player, task.trial))
    return Board([rows[task] for task in order], missing=len(tasks) - len(rows) if interrupted else 0)


def _play_all(
    work: Work,
    tasks: list[Task],
    rows: dict[Task, Row],
    keys: dict[Task, Key],
    store: Store | None,
    n_jobs: int,
    backend: str | None,
    address: str | None,
    progress: bool,
) -> bool:
    """Plays `tasks` into `rows` and `store`; True if Ctrl-C ended it early."""
    from clustered_bandit_gym.harness.output.progress import progress_bar

    results = run(work, tasks, n_jobs, backend, address)
    total = len(rows) + len(tasks)
    bar = progress_bar(total=total, initial=len(rows), unit="trial", disable=not progress, dynamic_ncols=True)
    try:
        with bar:
            for task, row in results:
                if store is not None:
                    store.put(keys[task], row)
                rows[task] = row
                bar.update()
    except KeyboardInterrupt:
        warnings.warn(f"interrupted: {len(rows):,} trials are done, {total - len(rows):,} are not", stacklevel=4)
        return True
    finally:
        results.close()
    return False


def make_env(env_id: str, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    """`gym.make`, with errors that say what to do."""
    try:
        return gym.make(env_id, disable_env_checker=True, **kwargs)
    except gym.error.Error as error:
        raise ValueError(f"{error} (`clustered-bai list` shows the environments)") from error
    except TypeError as error:
        raise ValueError(f"{env_id}: {error}") from error


def _decode(value: Any) -> Any:
    """Undo what an exported table does to nested values."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return value


def _revive(key: str, value: Any) -> Any:
    """An environment keyword from its plain form."""
    if isinstance(value, dict) and set(value) == {"instance"}:
        instance = find_instance(value["instance"])
        if instance is None:
            raise ValueError(f"the row's {key} is an Instance that this session has not met: replay(row, {key}=...)")
        return instance
    if isinstance(value, dict) and "object" in value:
        try:
            module_name, _, name = value["object"].partition(":")
            target = getattr(importlib.import_module(module_name), name)
            return target(**value["settings"]) if "settings" in value else target
        except (ImportError, AttributeError, TypeError) as error:
            raise ValueError(f"cannot make the row's {key} again ({error}): replay(row, {key}=...)") from error
    return value
