"""Is a submission what it claims to be? Format, digest, completeness, scores, and a sample played
again.

Replayed trials are compared field by field, bit for bit, where machine, NumPy and SciPy are those
of the submission. Elsewhere the last digit of a float may differ and lead a policy another way:
there nine of ten replayed trials must agree. What no checker can see: trials that it does not
replay, and a policy that knows the instances; `fresh` plays others of the same families.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.suite.cells import DIGESTS, GIVE_UP, played_cells
from clustered_bandit_gym.suite.files import Submission, load_submission, rows_by_cell
from clustered_bandit_gym.suite.replay import Mismatch, Trial, different, replayed, this_platform
from clustered_bandit_gym.suite.score import score


@dataclass(frozen=True)
class Check:
    """A passed check.

    Attributes:
        replayed: (cell, trial) of the trials that were played again.
        different: how many of them differ; 0 where `exact`.
        exact: they were compared bit for bit.
        notes: what a reader should know.
    """

    replayed: list[Trial]
    different: int
    exact: bool
    notes: list[str]


def verify(folder: str | Path, replay: int = 20, trials: Sequence[Trial] | None = None) -> Check:
    """Check a submission; raises `Mismatch` with a plain reason. Replays run the policy's code.

    Args:
        replay: trials to play again, drawn so that nobody can know them; 0 runs nothing of the
            submission's code.
        trials: play these (cell, trial) again instead.
    """
    submission = checked(folder)
    metadata = submission.metadata
    notes = []
    if submission.suite == "v1":
        notes.append("suite v1 is closed: its scores are not recomputed, its rows are checked")
    if metadata["versions"] != versions():
        notes.append(f"the submission was made by {metadata['versions']}; this is {versions()}")
    rows = {(row["cell"], row["trial"]): row for row in submission.rows}
    if trials is None:
        trials = secrets.SystemRandom().sample(list(rows), min(replay, len(rows)))
    if not trials:
        return Check([], 0, True, notes)
    theirs = {"python": "", **metadata["platform"]}
    ours = this_platform() | {"python": theirs["python"]}
    exact = theirs == ours
    if not exact:
        notes.append(
            f"the submission says that it was made on {theirs}, this is {ours}: 90% of the "
            "replayed trials must agree instead of all. Its platform is its own statement, which "
            "cannot be checked here"
        )
    again = replayed(metadata, submission.folder / "source", trials)
    found = different([rows[trial] for trial in trials], again)
    if len(found) > (0 if exact else len(trials) // 10):
        said = f"replay: {len(found)} of {len(trials)} trials differ. {found[0]}"
        raise Mismatch(". Note: ".join([said, *notes]))
    return Check(list(trials), len(found), exact, notes)


def checked(folder: str | Path) -> Submission:
    """A submission whose files hold together; raises `Mismatch` otherwise. Runs none of its code."""
    submission = load_submission(folder)
    if submission.suite not in DIGESTS:
        raise Mismatch(f"suite: expected one of {', '.join(DIGESTS)}, got {submission.suite}")
    if submission.metadata["digest"] != DIGESTS[submission.suite]:
        raise Mismatch("suite digest: it was played on other cells or instances")
    _check_complete(submission)
    # A run of the suite limits no trial's time: "timeout" does not occur.
    outcomes = ["solved", "wrong", *(word for word in UNFINISHED if word != "timeout")]
    if others := {row["outcome"] for row in submission.rows} - set(outcomes):
        raise Mismatch(f"expected an outcome of {', '.join(outcomes)}, got {min(others)!r}")
    _check_sources(submission)
    if submission.suite != "v1":
        found = score(submission.rows, submission.quick, submission.metadata["guarantee_text"])
        if submission.scores != found:
            raise Mismatch("scores recomputed from the rows differ from scores.json")
    return submission


def fresh(folder: str | Path, seed: int | None = None, trials: int = 40) -> list[dict[str, Any]]:
    """The policy on fresh instances of every family that it solved: one entry per cell.

    A policy that is tuned to the shipped instances shows by errors, or by more pulls than there.

    Args:
        seed: draws the instances; None for one that nobody can know.
        trials: of each cell. They can show that an error rate is far above δ, not that it is below.
    """
    submission = load_submission(folder)
    if submission.suite != "v2":
        raise UserError("fresh instances need a submission of suite v2")
    secret = secrets.randbits(64) if seed is None else seed
    solved = [entry for entry in submission.scores["cells"] if entry["solved"]]
    wanted = [(entry["cell"], trial) for entry in solved for trial in range(trials)]
    played = replayed(submission.metadata, submission.folder / "source", wanted, secret)
    found = []
    for place, entry in enumerate(solved):
        rows = [row for row in played[place * trials :][:trials] if row is not None]
        outcomes = Counter(row["outcome"] for row in rows)
        found.append(
            {
                "cell": entry["cell"],
                "trials": trials,
                "wrong": outcomes["wrong"],
                "without_answer": trials - outcomes["wrong"] - outcomes["solved"],
                "pulls": float(np.mean([row["pulls"] for row in rows] or np.nan)),
                "pulls_shipped": entry["pulls"],
                "seed": secret,
            }
        )
    return found


def _check_complete(submission: Submission) -> None:
    found = rows_by_cell(submission.rows)
    for cell in played_cells(submission.suite, submission.quick):
        rows = found.pop(cell.name, [])
        trials = [row["trial"] for row in rows]
        lost = all(row["outcome"] in UNFINISHED for row in rows)
        count = GIVE_UP if lost and len(rows) == GIVE_UP else cell.count(submission.quick)
        if trials != list(range(count)):
            raise Mismatch(
                f"completeness: {cell.name} needs trials 0 to {count - 1}, each once; the "
                f"submission has {len(rows)} rows, {len(set(trials))} different trials"
            )
    if found:
        raise Mismatch(f"completeness: {min(found)!r} is not a cell of this run")


def _check_sources(submission: Submission) -> None:
    home = submission.folder / "source"
    for name, expected in submission.metadata["sources"].items():
        path = home / name
        try:
            if not path.resolve().is_relative_to(home.resolve()):
                raise Mismatch(f"source: {name} lies outside of the submission")
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            raise Mismatch(f"source: {name} cannot be read: {error}") from error
        if found != expected:
            raise Mismatch(f"source: {name} is not the file that was played (its hash differs)")
