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

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.fingerprint import versions
from clustered_bandit_gym.harness.imports import PACKAGE, is_user_module, reached
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.run import evaluate, resolve_policies
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
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
from clustered_bandit_gym.suite.replay import (
    different,
    identity,
    replayed,
    short_row,
    this_platform,
)
from clustered_bandit_gym.suite.schema import (
    FORMAT,
    GUARANTEES,
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
    rows = _play(policy, folder / ".trials", quick, n_jobs, progress)
    # A crash may have come from outside (a kernel short of memory), and the cell does not count as solved anyway.
    last = list({row["cell"]: row for row in rows if row["outcome"] != "crash"}.values())
    sources = _copy_sources(policy, folder / SOURCE)
    trials = [(row["cell"], row["trial"]) for row in last]
    _, again = replayed("v1", spec, trials, folder / SOURCE, list(sources))
    if wrong := different(last, again):
        raise UserError(
            f"{len(wrong)} of {len(last)} trials are played differently in a fresh process, so that nobody could "
            f"verify this submission: the policy carries something from trial to trial, draws random numbers of its "
            f"own, or needs files that are not among its sources ({wrong[0]})"
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
        "sources": sources,
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
        backend="processes",  # not in this process, which knows other policies
        progress=False,
        bound=False,
        strict=True,
        **setting.kwargs,
    )
    if board.missing:
        raise KeyboardInterrupt
    return [short_row(cell, row) for row in board.trials.to_dict("records")]


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
