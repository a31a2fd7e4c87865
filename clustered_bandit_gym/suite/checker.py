"""Is a submission what it claims to be? Format, digest, completeness, scores, and a sample played
again.

Replayed trials are compared field by field, bit for bit, where machine, NumPy and SciPy are those
of the submission. Elsewhere the last digit of a float may differ and lead a policy another way:
there `SAME_ELSEWHERE` of the replayed trials must agree. What no checker can see: trials that it
does not replay, and a policy that knows the instances; `fresh` plays others of the same families.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.suite.cells import DIGESTS, GIVE_UP, check_suite, played_cells
from clustered_bandit_gym.suite.files import SOURCE, Submission, load_submission
from clustered_bandit_gym.suite.replay import CannotBuild, Trial, different, replayed, this_platform
from clustered_bandit_gym.suite.score import score

#: Share of replayed trials that must agree on another platform.
SAME_ELSEWHERE = 0.9
#: A run of the suite limits no trial's time: "timeout" does not occur.
_OUTCOMES = ("solved", "wrong", *(outcome for outcome in UNFINISHED if outcome != "timeout"))


class Mismatch(Exception):
    """The submission is not what it claims to be; the message says why."""


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


def verify(
    folder: str | Path,
    replay: int = 20,
    seed: int | None = None,
    trials: Sequence[Trial] | None = None,
) -> Check:
    """Check a submission; raises `Mismatch` with a plain reason. Replays run the policy's code.

    Args:
        replay: trials to play again, drawn at random; 0 runs nothing of the submission's code.
        seed: of that draw; None for fresh randomness, so that nobody knows what will be drawn.
        trials: play these (cell, trial) again instead.
    """
    submission = load_submission(folder)
    _check_digest(submission)
    _check_complete(submission)
    for row in submission.rows:
        _check_row(row)
    _check_sources(submission)
    notes = []
    if submission.suite == "v1":
        notes.append("suite v1 is closed: its scores are not recomputed, its rows are checked")
    else:
        _check_scores(submission)
    wanted = _chosen(submission, replay, seed, trials)
    exact = _same_platform(submission)
    if submission.metadata["versions"] != versions():
        made = submission.metadata["versions"] or "(not said)"
        notes.append(f"the submission was made by {made}; this is {versions()}")
    if wanted and not exact:
        notes.append(
            f"the submission says that it was made on {submission.metadata['platform']}, this is "
            f"{this_platform()}: {SAME_ELSEWHERE:.0%} of the replayed trials must agree instead of "
            "all. That platform is the submission's own statement, which cannot be checked here; "
            "verify it on such a machine"
        )
    count = _replay(submission, wanted, exact, notes)
    return Check([(row["cell"], row["trial"]) for row in wanted], count, exact, notes)


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
    solved = {entry["cell"]: entry for entry in submission.scores["cells"] if entry["solved"]}
    wanted = [(cell, trial) for cell in solved for trial in range(trials)]
    rows = _played(submission, wanted, secret)
    found = []
    for place, (cell, entry) in enumerate(solved.items()):
        own = [row for row in rows[place * trials : (place + 1) * trials] if row is not None]
        wrong = sum(row["outcome"] == "wrong" for row in own)
        pulls = float(np.mean([row["pulls"] for row in own])) if own else math.nan
        lost = trials - sum(row["outcome"] in ("solved", "wrong") for row in own)
        figures = {"trials": trials, "wrong": wrong, "without_answer": lost, "pulls": pulls}
        found.append({"cell": cell, **figures, "pulls_shipped": entry["pulls"], "seed": secret})
    return found


def _check_digest(submission: Submission) -> None:
    suite, digest = submission.suite, submission.metadata["digest"]
    if suite not in DIGESTS:
        raise Mismatch(f"suite: expected one of {', '.join(DIGESTS)}, got {suite}")
    if digest != DIGESTS[suite]:
        raise Mismatch(
            f"suite digest: the submission says {digest}, suite {suite} has {DIGESTS[suite]}: it "
            "was played on other cells or instances"
        )
    try:
        check_suite(suite)
    except UserError as error:
        raise Mismatch(str(error)) from error


def _check_complete(submission: Submission) -> None:
    cells = played_cells(submission.suite, submission.quick)
    found: dict[str, list[Row]] = {cell.name: [] for cell in cells}
    for row in submission.rows:
        if row["cell"] not in found:
            kind = "quick" if submission.quick else "full"
            raise Mismatch(f"completeness: {row['cell']!r} is not a cell of this {kind} run")
        found[row["cell"]].append(row)
    for cell in cells:
        rows, count = found[cell.name], cell.count(submission.quick)
        trials = sorted(row["trial"] for row in rows)
        lost = all(row["outcome"] in UNFINISHED for row in rows)
        given_up = trials == list(range(GIVE_UP)) and lost
        if trials != list(range(count)) and not given_up:
            raise Mismatch(
                f"completeness: {cell.name} needs trials 0 to {count - 1}, each once; the "
                f"submission has {len(rows)} rows, {len(set(trials))} different trials"
            )


def _check_row(row: Row) -> None:
    wrong = row["wrong_agents"]
    fits = {"solved": wrong == 0, "wrong": bool(wrong)}
    if row["outcome"] not in _OUTCOMES or not fits.get(row["outcome"], wrong is None):
        raise Mismatch(
            f"row {row['cell']}, trial {row['trial']}: outcome {row['outcome']!r} with {wrong} "
            "wrong "
            f"agents; expected an outcome of {', '.join(_OUTCOMES)} that fits"
        )


def _check_sources(submission: Submission) -> None:
    home = submission.folder / SOURCE
    for name, expected in submission.metadata["sources"].items():
        path = home / name
        try:
            if not path.resolve().is_relative_to(home.resolve()):
                raise Mismatch(f"source: {name} lies outside of the submission")
            if not path.is_file():
                raise Mismatch(f"source: {name} is missing")
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            raise Mismatch(f"source: {name} cannot be read: {error}") from error
        if found != expected:
            raise Mismatch(f"source: {name} is not the file that was played (its hash differs)")


def _check_scores(submission: Submission) -> None:
    found = score(submission.rows, submission.quick, submission.metadata["guarantee_text"])
    if submission.scores == found:
        return
    claimed = submission.scores.get("cells")
    names = [
        one["cell"] for one in found["cells"] if not isinstance(claimed, list) or one not in claimed
    ]
    raise Mismatch(f"scores recomputed from the rows differ: {', '.join(names) or 'scores.json'}")


def _chosen(
    submission: Submission, replay: int, seed: int | None, trials: Sequence[Trial] | None
) -> list[Row]:
    """The rows to replay: those of `trials`, or a random sample."""
    rows = {(row["cell"], row["trial"]): row for row in submission.rows}
    if trials is None:
        places = np.random.default_rng(seed).permutation(len(rows))[:replay]
        trials = [list(rows)[place] for place in places]
    return [rows[trial] for trial in trials]


def _same_platform(submission: Submission) -> bool:
    theirs, ours = submission.metadata["platform"], this_platform()
    return all(
        theirs.get(key) == ours[key] for key in ("machine", "simd", "system", "numpy", "scipy")
    )


def _played(
    submission: Submission, trials: list[Trial], secret: int | None = None
) -> list[Row | None]:
    metadata = submission.metadata
    source, names = submission.folder / SOURCE, list(metadata["sources"])
    try:
        return replayed(submission.suite, metadata["policy"], trials, source, names, secret)
    except CannotBuild as error:
        raise Mismatch(f"replay: the policy cannot be built: {error}") from error


def _replay(submission: Submission, wanted: list[Row], exact: bool, notes: list[str]) -> int:
    """Play the trials of rows again; returns how many differ. `Mismatch` if they are too many."""
    if not wanted:
        return 0
    again = _played(submission, [(row["cell"], row["trial"]) for row in wanted])
    found = different(wanted, again)
    # 1 - 0.9 is a little less than 0.1: one of ten is allowed.
    if len(found) > (0 if exact else round((1 - SAME_ELSEWHERE) * len(wanted), 9)):
        raise Mismatch(
            f"replay: {len(found)} of {len(wanted)} trials differ. {found[0]}"
            + "".join(f". Note: {note}" for note in notes)
        )
    return len(found)
