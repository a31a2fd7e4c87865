"""A submission: one policy on the whole suite, as a folder of plain files.

    rows.jsonl.gz    one line per trial
    metadata.json    policy, authors, guarantee, versions, platform, digest, hashes of the sources
    scores.json      what `score` says of the rows
    source/          the user's modules that the policy reaches by import statements
    README.md        the same for humans

While a run is under way finished trials are kept in ``.trials``, so that the same command resumes
it; the folder can be deleted afterwards.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clustered_bandit_gym._types import FilePath
from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.identity import user_files, versions
from clustered_bandit_gym.harness.play import Row, resolve_policies
from clustered_bandit_gym.harness.run import evaluate
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.harness.settings import PACKAGE
from clustered_bandit_gym.suite.cells import DIGESTS, GIVE_UP, SuiteCell, played_cells
from clustered_bandit_gym.suite.checker import sha256, short_row, this_platform, verify
from clustered_bandit_gym.suite.files import Submission, check_metadata, write_submission
from clustered_bandit_gym.suite.score import score


def run_suite(
    spec: str,
    folder: FilePath,
    *,
    quick: bool = False,
    n_jobs: int = 1,
    name: str | None = None,
    authors: str = "",
    link: str = "",
    guarantee: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Submission:
    """Play suite v2 with the policy that `spec` names and write the submission to `folder`.

    The same call again resumes an interrupted run. At the end the submission is verified with the
    last trial of each cell; one that fails stays in ``folder/.draft``.

    Args:
        spec: a name such as "bai-cl++:confidence=certified", or ``module:Class`` of your own.
        quick: the short run, a stated subset; it never shares a leaderboard with full runs.
        name, authors, link, guarantee: metadata. "proved" needs a link to the proof.
        overwrite: replace a finished submission. Trials of the same code are not played again.
    """
    folder = Path(folder)
    ((label, policy),) = resolve_policies(spec)
    stated = str(getattr(policy, "guarantee", "none"))
    metadata = {
        "format": 1,
        "suite": "v2",
        "digest": DIGESTS["v2"],
        "quick": quick,
        "name": name or label,
        "authors": authors,
        "link": link,
        "guarantee": guarantee or ("none" if stated.startswith("none") else "claimed"),
        "guarantee_text": stated,
        "policy": spec,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "package": __version__,
        "versions": versions(),
        "platform": this_platform(),
        "sources": {},
    }
    check_metadata(metadata, "the submission")
    if (folder / "metadata.json").exists() and not overwrite:
        raise UserError(
            f"{folder} holds a finished submission; choose another --out, or replace it with "
            "--overwrite"
        )
    rows = []
    kept = folder / ".trials"
    cells = played_cells("v2", quick)
    if progress and not hasattr(policy, "solve"):
        text = "This policy pulls one by one, which takes hours where a `solve` takes minutes"
        print(text, file=sys.stderr)
    for number, cell in enumerate(cells, 1):
        if progress:
            print(f"{cell.name} ({number} of {len(cells)})", file=sys.stderr)
        found = play_cell(policy, cell, GIVE_UP, kept, n_jobs)
        if any(row["outcome"] not in UNFINISHED for row in found):
            found = play_cell(policy, cell, cell.count(quick), kept, n_jobs, progress)
        rows += found
    draft = folder / ".draft"
    shutil.rmtree(draft, ignore_errors=True)
    metadata["sources"] = _copy_sources(policy, draft / "source")
    submission = Submission(draft, metadata, rows, score(rows, quick, stated))
    write_submission(submission)
    # Not a crash: it may have come from outside, and the cell is not solved anyway.
    last = {row["cell"]: row["trial"] for row in rows if row["outcome"] != "crash"}
    try:
        verify(draft, trials=list(last.items()))
    except UserError as error:
        raise UserError(f"not verified, and so left in {draft}: {error}") from error
    shutil.rmtree(folder / "source", ignore_errors=True)
    # Metadata last: a folder with metadata is a complete submission.
    for path in sorted(draft.iterdir(), key=lambda path: path.name == "metadata.json"):
        path.replace(folder / path.name)
    draft.rmdir()
    return replace(submission, folder=folder)


def play_cell(
    policy: Any,
    cell: SuiteCell,
    trials: int,
    out: Path | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> list[Row]:
    """The first `trials` trials of a policy on a cell, as rows of a submission; the other arguments
    are those of `evaluate`."""
    setting = cell.setting(stepper=not hasattr(policy, "solve"))
    board = evaluate(
        policy,
        setting.env_id,
        trials=trials,
        seed=cell.seed,
        backend="processes",  # not in this process, which knows other policies
        bound=False,
        n_jobs=n_jobs,
        out=out,
        progress=progress,
        **setting.kwargs,
    )
    if board.missing:
        raise KeyboardInterrupt
    # Unfinished trials lack some numbers, which a data frame shows as NA.
    table = board.trials.astype(object).where(board.trials.notna(), None)
    return [short_row(cell.name, row) for row in table.to_dict("records")]


def _copy_sources(policy: Any, target: Path) -> dict[str, str]:
    """Copies the user's modules behind the policy to `target`.

    Returns path inside it -> SHA-256.
    """
    module = type(policy).__module__
    if module == "__main__" or module.partition(".")[0] == PACKAGE:
        return {}
    hashes = {}
    for name, file in user_files([module]).items():
        end = "/__init__.py" if file.name == "__init__.py" else ".py"
        inside = name.replace(".", "/") + end
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target / inside)
        hashes[inside] = sha256(file)
    return hashes
