"""A submission: one policy on the whole suite, as a folder of plain files.

    rows.jsonl       one line per trial
    metadata.json    policy, authors, guarantee, versions, platform, suite digest, hashes of the sources
    scores.json      what `score` says of the rows
    source/          the user's modules that the policy reaches by import statements, if it is not part of this package
    README.md        the same for humans

While a run is under way finished trials are kept in ``.trials``, so that the same command resumes it; the folder can be
deleted afterwards.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.fingerprint import Unwritable, policy_key, versions
from clustered_bandit_gym.harness.fresh import played_fresh
from clustered_bandit_gym.harness.imports import PACKAGE, is_user_module, reached
from clustered_bandit_gym.harness.parallel import Task, Work
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.processes import dismiss
from clustered_bandit_gym.harness.run import evaluate, resolve_policies
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.harness.settings import path_of, settings_of
from clustered_bandit_gym.suite.cells import (
    DIGEST_V1,
    GIVE_UP,
    SEED,
    SUITE_V1,
    SuiteCell,
    suite_digest,
)
from clustered_bandit_gym.suite.files import (
    METADATA,
    PACKED_ROWS,
    SOURCE,
    Submission,
    load_submission,
    write_submission,
)
from clustered_bandit_gym.suite.schema import (
    FIELDS,
    FORMAT,
    GUARANTEES,
    ONLY_HERE,
    checked_metadata,
    parse,
    read_text,
)
from clustered_bandit_gym.suite.score import played_cells, score


def check_suite() -> None:
    """Raises `UserError` unless this machine draws the instances of suite v1."""
    if suite_digest(SUITE_V1) != DIGEST_V1:
        raise UserError(
            f"this machine (NumPy {version('numpy')}, SciPy {version('scipy')}, {platform.machine()}) draws other "
            "instances than those of suite v1; use other versions of NumPy or SciPy"
        )


def run_suite(
    spec: str,
    folder: str | Path,
    *,
    quick: bool = False,
    n_jobs: int = 1,
    name: str | None = None,
    authors: str = "",
    link: str = "",
    guarantee: str | None = None,
    progress: bool = True,
    packed: bool = False,
) -> Submission:
    """Play the suite with the policy that `spec` names and write the submission to `folder`.

    The same call again resumes an interrupted run.

    Args:
        spec: a name such as "bai-cl++:confidence=certified", or ``module:Class`` of your own.
        quick: the short run, a stated subset; it is marked as quick and never shares a leaderboard with full runs.
        name, authors, link, guarantee: metadata. "proved" needs a link to the proof.
        packed: compress the rows.
    """
    if guarantee is not None and guarantee not in GUARANTEES:
        raise UserError(f"guarantee must be one of {', '.join(GUARANTEES)}, got {guarantee!r}")
    if guarantee == "proved" and not link:
        raise UserError("guarantee 'proved' needs a link to the proof: --link")
    ((label, policy),) = resolve_policies(spec)
    check_suite()
    folder = Path(folder)
    previous = folder / METADATA
    if (
        previous.exists()
        and checked_metadata(parse(read_text(previous), str(previous)), str(previous))["policy"]
        != spec
    ):
        raise UserError(f"{folder} holds a submission of another policy; choose another --out")
    dismiss()  # the policy gets processes of its own: nothing of another one's run is in them
    rows = _play(policy, folder / ".trials", quick, n_jobs, progress)
    dismiss()
    # A crash may have come from outside (a kernel short of memory), and the cell does not count as solved anyway.
    last = {row["cell"]: row for row in rows if row["outcome"] != "crash"}
    if different := differences(label, policy, list(last.values())):
        raise UserError(
            f"{len(different)} of {len(last)} trials are played differently in a fresh process, so that nobody could "
            f"verify this submission: the policy carries something from trial to trial, or draws random numbers of its "
            f"own ({different[0]})"
        )
    stated = str(getattr(policy, "guarantee", "none"))
    metadata = {
        "format": FORMAT,
        "suite": "v1",
        "digest": DIGEST_V1,
        "quick": quick,
        "name": name or (spec if type(policy).__module__.startswith(f"{PACKAGE}.") else label),
        "authors": authors,
        "link": link,
        "guarantee": guarantee or ("none" if stated.startswith("none") else "claimed"),
        "guarantee_text": stated,
        "policy": spec,
        **identity(policy),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "package": __version__,
        "versions": versions(),
        "platform": this_platform(),
        "seed": SEED,
        "sources": _copy_sources(policy, folder / SOURCE),
    }
    submission = Submission(folder, metadata, rows, score(rows, quick))
    write_submission(submission, packed)
    return submission


def rescore(folder: str | Path) -> Submission:
    """Compute the scores of a submission again from its rows, after the yardsticks have changed."""
    old = load_submission(folder)
    new = Submission(old.folder, old.metadata, old.rows, score(old.rows, old.quick))
    write_submission(new, packed=(old.folder / PACKED_ROWS).exists())
    return new


def this_platform() -> dict[str, str]:
    """What decides whether a replay is bit for bit the same: the machine and the libraries that draw numbers.

    "simd" names the instruction sets that NumPy uses here: they decide the last digit of an exponential.
    """
    return {
        "machine": platform.machine(),
        "simd": ", ".join(np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", ())),
        "system": platform.system(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "python": platform.python_version(),
    }


def play_cell(
    policy: Any, cell: SuiteCell, trials: int, n_jobs: int = 1, out: Path | None = None
) -> list[Row]:
    """The first `trials` trials of a policy on a cell, as rows of a submission."""
    setting = cell.setting(stepper=not hasattr(policy, "solve"))
    board = evaluate(
        policy,
        setting.env_id,
        trials=trials,
        seed=SEED,
        n_jobs=n_jobs,
        out=out,
        backend="loky",  # not in this process, which knows other policies
        progress=False,
        bound=False,
        strict=True,
        **setting.kwargs,
    )
    if board.missing:
        raise KeyboardInterrupt
    return [short_row(cell, row) for row in board.trials.to_dict("records")]


def differences(label: str, policy: Any, rows: list[Row]) -> list[str]:
    """Play the trials of rows of a submission again, in a fresh process: what differs, one line per trial.

    Trials that ended their process get one of their own, which they must end again.
    """
    rows = sorted(rows, key=lambda row: row["outcome"] == "crash")
    alone = sum(row["outcome"] == "crash" for row in rows)
    cells = {cell.name: number for number, cell in enumerate(SUITE_V1)}
    stepper = not hasattr(policy, "solve")
    work = Work(
        [cell.setting(stepper) for cell in SUITE_V1],
        [(label, policy)],
        SEED,
        bound=False,
        strict=True,
    )
    tasks = [Task(cells[row["cell"]], 0, row["trial"]) for row in rows]
    together = tasks[: len(tasks) - alone]
    played = played_fresh(work, together) if together else []
    for task in tasks[len(together) :]:
        played += played_fresh(work, [task])
    found = []
    for row, task, again in zip(rows, tasks, played, strict=True):
        where = f"{row['cell']}, trial {row['trial']}"
        if again is None:
            if row["outcome"] != "crash":
                found.append(f"{where}: {row['outcome']} (replayed: it ends its process)")
            continue
        other = short_row(SUITE_V1[task.cell], again)
        if wrong := [name for name in FIELDS if name not in ONLY_HERE and row[name] != other[name]]:
            told = ", ".join(f"{name} {row[name]} (replayed: {other[name]})" for name in wrong)
            found.append(f"{where}: {told}")
    return found


def short_row(cell: SuiteCell, row: dict[Any, Any]) -> Row:
    """A trial's row as a submission holds it."""
    short: Row = {"cell": cell.name}
    for key in FIELDS:
        value = row[key]
        value = value.item() if hasattr(value, "item") else value
        # Missing numbers of unfinished trials come out of a data frame as NA.
        short[key] = value if isinstance(value, str | int | float) and value == value else None
    short["seconds"] = round(float(row["seconds"]), 4)
    # Half of a surrogate pair cannot be written to a file.
    return short | {"message": str(row["message"]).encode("utf-8", "replace").decode()}


def _play(policy: Any, out: Path, quick: bool, n_jobs: int, progress: bool) -> list[Row]:
    from clustered_bandit_gym.harness.output.progress import progress_bar

    cells = played_cells(quick)
    rows: list[Row] = []
    total = sum(cell.count(quick) for cell in cells)
    with progress_bar(
        total=total, unit="trial", disable=not progress, dynamic_ncols=True, smoothing=0.1
    ) as bar:
        for cell in cells:
            bar.set_description(cell.name)
            count = cell.count(quick)
            found = play_cell(policy, cell, min(GIVE_UP, count), 1, out)
            bar.update(len(found))
            if any(row["outcome"] not in UNFINISHED for row in found):
                for part in _growing(len(found), count):
                    found = play_cell(policy, cell, part, n_jobs, out)
                    bar.update(len(found) - (bar.n - len(rows)))
            else:
                bar.total -= count - len(found)
            rows += found
    return rows


def _growing(start: int, count: int) -> Iterator[int]:
    """Numbers of trials up to `count`, each five times the one before: the bar moves within long cells."""
    while start < count:
        start = min(5 * max(start, 10), count)
        yield start


def identity(policy: Any) -> dict[str, Any]:
    """What the metadata say of the policy itself."""
    try:
        fingerprint = policy_key(policy)
    except Unwritable as error:
        fingerprint = f"none: {error}"
    return {
        "policy_class": path_of(type(policy)),
        "settings": settings_of(policy),
        "fingerprint": fingerprint,
    }


def _copy_sources(policy: Any, target: Path) -> dict[str, str]:
    """Copies the user's modules behind the policy to `target`. Returns path inside `target` -> SHA-256."""
    module = type(policy).__module__
    if target.exists():
        shutil.rmtree(target)
    if module == "__main__" or module.split(".")[0] == PACKAGE:
        return {}
    hashes = {}
    for name in reached([module], [module]):
        spec = (
            find_spec(name)
            if name.split(".")[0] == module.split(".")[0] or is_user_module(name)
            else None
        )
        if spec is None or not spec.origin or not spec.has_location:
            continue
        is_package = spec.submodule_search_locations is not None
        inside = (
            Path(*name.split("."), "__init__.py")
            if is_package
            else Path(*name.split(".")).with_suffix(".py")
        )
        content = Path(spec.origin).read_bytes()
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        (target / inside).write_bytes(content)
        hashes[inside.as_posix()] = hashlib.sha256(content).hexdigest()
    return hashes
