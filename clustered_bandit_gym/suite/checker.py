"""Is a submission what it claims to be? Format, digest, completeness, scores, and a random sample played again.

Replayed trials are compared field by field, bit for bit, where machine, NumPy and SciPy are those of the submission.
Elsewhere the last digit of a float may differ and lead a policy another way: there `SAME_ELSEWHERE` of the replayed
trials must agree. What no checker can see: trials that it does not replay, and a policy that knows the instances.
"""

from __future__ import annotations

import hashlib
import json
import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.fingerprint import versions
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.suite.cells import DIGEST_V1, GIVE_UP
from clustered_bandit_gym.suite.files import SOURCE, Submission, load_submission
from clustered_bandit_gym.suite.replay import CannotBuild, different, replayed, this_platform
from clustered_bandit_gym.suite.score import played_cells, score
from clustered_bandit_gym.suite.submission import check_suite

#: Share of replayed trials that must agree on another platform.
SAME_ELSEWHERE = 0.9
#: A run of the suite limits no trial's time: "timeout" does not occur.
_OUTCOMES = ("solved", "wrong", *(outcome for outcome in UNFINISHED if outcome != "timeout"))
#: Price of a real number in bits, as in all environments of the suite.
_REAL = 32


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

    replayed: list[tuple[str, int]]
    different: int
    exact: bool
    notes: list[str]


def verify(
    folder: str | Path,
    replay: int = 20,
    seed: int | None = None,
    trials: Sequence[tuple[str, int]] | None = None,
) -> Check:
    """Check a submission; raises `Mismatch` with a plain reason. Replays run the policy's code.

    Args:
        replay: number of trials to play again, drawn at random; 0 runs nothing of the submission's code.
        seed: of that draw; None for fresh randomness, so that nobody knows which trials will be drawn.
        trials: play these (cell, trial) again instead.
    """
    submission = load_submission(folder)
    _check_digest(submission)
    _check_complete(submission)
    for row in submission.rows:
        _check_row(row)
    _check_sources(submission)
    _check_scores(submission)
    wanted = _choose(submission, replay, seed) if trials is None else _named(submission, trials)
    notes = []
    exact = _same_platform(submission)
    if submission.metadata["versions"] != versions():
        notes.append(
            f"the submission was made by {submission.metadata['versions'] or '(not said)'}; this is {versions()}"
        )
    if wanted and not exact:
        notes.append(
            f"the submission says that it was made on {submission.metadata['platform']}, this is {this_platform()}: "
            f"{SAME_ELSEWHERE:.0%} of the replayed trials must agree instead of all. That platform is the submission's "
            "own statement, which cannot be checked here; verify it on such a machine"
        )
    different = _replay(submission, wanted, exact, notes)
    return Check([(row["cell"], row["trial"]) for row in wanted], different, exact, notes)


def _check_digest(submission: Submission) -> None:
    if submission.metadata["digest"] != DIGEST_V1:
        raise Mismatch(
            f"suite digest: the submission says {submission.metadata['digest']}, suite v1 has {DIGEST_V1}: it was "
            "played on other cells or instances"
        )
    if submission.metadata["suite"] != "v1":
        raise Mismatch(f"suite: expected v1, got {submission.metadata['suite']}")
    try:
        check_suite()
    except UserError as error:
        raise Mismatch(str(error)) from error


def _check_complete(submission: Submission) -> None:
    known = {cell.name for cell in played_cells(submission.quick)}
    found: dict[str, list[Row]] = {}
    for row in submission.rows:
        if row["cell"] not in known:
            raise Mismatch(
                f"completeness: {row['cell']!r} is not a cell of this {_kind(submission)} run"
            )
        found.setdefault(row["cell"], []).append(row)
    for cell in played_cells(submission.quick):
        rows = found.get(cell.name, [])
        trials = sorted(row["trial"] for row in rows)
        if trials == list(range(cell.count(submission.quick))):
            continue
        given_up = trials == list(range(GIVE_UP)) and all(
            row["outcome"] in UNFINISHED for row in rows
        )
        if not given_up:
            raise Mismatch(
                f"completeness: {cell.name} needs trials 0 to {cell.count(submission.quick) - 1}, each once; the "
                f"submission has {len(rows)} rows, {len(set(trials))} different trials"
            )


def _kind(submission: Submission) -> str:
    return "quick" if submission.quick else "full"


def _check_row(row: Row) -> None:
    where = f"row {row['cell']}, trial {row['trial']}"
    if row["outcome"] not in _OUTCOMES:
        raise Mismatch(f"{where}: expected an outcome of {', '.join(_OUTCOMES)}")
    bits = row["bits_up"] + row["bits_down"] + _REAL * (row["reals_up"] + row["reals_down"])
    if not math.isclose(row["cost"], bits, rel_tol=1e-12):
        raise Mismatch(f"{where}: cost {row['cost']} is not the price {bits} of what was sent")
    wrong = {"solved": row["wrong_agents"] == 0, "wrong": (row["wrong_agents"] or 0) > 0}
    if not wrong.get(row["outcome"], row["wrong_agents"] is None):
        raise Mismatch(
            f"{where}: outcome {row['outcome']!r} with {row['wrong_agents']} wrong agents"
        )


def _check_sources(submission: Submission) -> None:
    for name, expected in submission.metadata["sources"].items():
        path = submission.folder / SOURCE / name
        try:
            if not path.resolve().is_relative_to(submission.folder.resolve() / SOURCE):
                raise Mismatch(f"source: {name} lies outside of the submission")
            if not path.is_file():
                raise Mismatch(f"source: {name} is missing")
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            raise Mismatch(f"source: {name} cannot be read: {error}") from error
        if found != expected:
            raise Mismatch(f"source: {name} is not the file that was played (its hash differs)")


def _check_scores(submission: Submission) -> None:
    if difference := _differs(
        submission.scores, score(submission.rows, submission.quick), "scores"
    ):
        raise Mismatch(f"scores recomputed from the rows differ: {difference}")


def _differs(claimed: Any, found: Any, where: str) -> str:
    """Where two JSON values differ by more than rounding; "" if they do not."""
    if isinstance(claimed, dict) and isinstance(found, dict) and claimed.keys() == found.keys():
        return next(
            (
                text
                for key in found
                if (text := _differs(claimed[key], found[key], f"{where}.{key}"))
            ),
            "",
        )
    if isinstance(claimed, list) and isinstance(found, list) and len(claimed) == len(found):
        named = [
            f"{where}.{b['cell']}" if isinstance(b, dict) and "cell" in b else where for b in found
        ]
        return next(
            (t for a, b, n in zip(claimed, found, named, strict=True) if (t := _differs(a, b, n))),
            "",
        )
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in (claimed, found)
    )
    same = (
        math.isclose(claimed, found, rel_tol=1e-9, abs_tol=1e-12) if numbers else claimed == found
    )
    return "" if same else f"{where} is {reprlib.repr(claimed)}, should be {reprlib.repr(found)}"


def _choose(submission: Submission, replay: int, seed: int | None) -> list[Row]:
    rng = np.random.default_rng(seed)
    count = min(replay, len(submission.rows))
    return [submission.rows[i] for i in rng.choice(len(submission.rows), size=count, replace=False)]


def _named(submission: Submission, trials: Sequence[tuple[str, int]]) -> list[Row]:
    by_name = {(row["cell"], row["trial"]): row for row in submission.rows}
    if unknown := [name for name in trials if name not in by_name]:
        raise Mismatch(f"the submission has no trial {unknown[0][1]} of {unknown[0][0]}")
    return [by_name[name] for name in trials]


def _same_platform(submission: Submission) -> bool:
    theirs, ours = submission.metadata["platform"], this_platform()
    return all(
        theirs.get(key) == ours[key] for key in ("machine", "simd", "system", "numpy", "scipy")
    )


def _replay(submission: Submission, wanted: list[Row], exact: bool, notes: list[str]) -> int:
    """Play the trials of rows again; returns how many differ. Raises `Mismatch` if they are too many."""
    if not wanted:
        return 0
    names = list(submission.metadata["sources"])
    trials = [(row["cell"], row["trial"]) for row in wanted]
    try:
        about, again = replayed(
            submission.metadata["suite"],
            submission.metadata["policy"],
            trials,
            submission.folder / SOURCE,
            names,
        )
    except CannotBuild as error:
        raise Mismatch(f"replay: the policy cannot be built: {error}") from error
    _check_identity(submission, about, notes)
    found = different(wanted, again)
    # 1 - 0.9 is a little less than 0.1: one of ten is allowed.
    if len(found) > (0 if exact else round((1 - SAME_ELSEWHERE) * len(wanted), 9)):
        raise Mismatch(
            f"replay: {len(found)} of {len(wanted)} trials differ. {found[0]}"
            + "".join(f". Note: {note}" for note in notes)
        )
    return len(found)


def _check_identity(submission: Submission, found: dict[str, Any], notes: list[str]) -> None:
    """Class, settings and fingerprint are those of the policy that is replayed. Other versions may have others."""
    metadata = submission.metadata
    if metadata["fingerprint"].startswith("none: "):
        notes.append(
            f"the policy has no fingerprint ({metadata['fingerprint'].removeprefix('none: ')}): attempts of earlier "
            "runs are not counted"
        )
    if metadata["versions"] != versions():
        return
    for key, value in found.items():
        if json.dumps(metadata[key], sort_keys=True) == json.dumps(value, sort_keys=True):
            continue
        text = f"{key} {reprlib.repr(metadata[key])} is not that of {metadata['policy']}: {reprlib.repr(value)}"
        # What is hashed of a policy with sources of its own depends on where they lie; `_check_sources` compares them.
        if key == "fingerprint" and metadata["sources"]:
            notes.append(text)
        else:
            raise Mismatch(f"policy: {text}")
