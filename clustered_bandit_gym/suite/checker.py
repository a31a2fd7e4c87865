"""Is a submission what it claims to be? Format, digest, completeness, scores, and a sample played
again.

A fresh process replays trials, in a new folder with copies of the listed sources. Beside that
folder it searches only the standard library and what is installed: no current folder, no
PYTHONPATH, no compiled files. The calling process imports nothing of the submission.

Replayed trials are compared field by field, bit for bit, where machine, NumPy and SciPy are those
of the submission. Elsewhere the last digit of a float may differ and lead a policy another way:
there nine of ten replayed trials must agree. What no checker can see: trials that it does not
replay, and a policy that knows the instances; `fresh` plays others of the same families.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from clustered_bandit_gym._types import FilePath, Values
from clustered_bandit_gym.envs.stepwise import crosstalk
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.audit.games import GAMES
from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.play import Row, play, resolve_policies
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.suite.cells import DIGESTS, GIVE_UP, cells_of, played_cells
from clustered_bandit_gym.suite.files import FIELDS, Submission, load_submission, read
from clustered_bandit_gym.suite.score import score

Trial = tuple[str, int]


class Check(NamedTuple):
    """A passed check.

    Attributes:
        replayed: (cell, trial) of the trials that were played again.
        different: how many of them differ; 0 where `exact`.
        exact: they were compared bit for bit.
        notes: what a reader should know.
    """

    replayed: Sequence[Trial]
    different: int
    exact: bool
    notes: list[str]


def verify(folder: FilePath, replay: int = 20, trials: Sequence[Trial] | None = None) -> Check:
    """Check a submission; raises `UserError` with a plain reason. Replays run the policy's code.

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
    for name, played in metadata["sources"].items():
        if Path(name).is_file() and sha256(Path(name)) != played:
            notes.append(
                f"the source changed: {name} in this folder is not the file that was played. What "
                "is verified is the submission's copy; to submit the new one, run the suite again"
            )
    rows = {(row["cell"], row["trial"]): row for row in submission.rows}
    if trials is None:
        trials = secrets.SystemRandom().sample(list(rows), min(replay, len(rows)))
    ours = this_platform()
    exact = not trials or ours.items() <= metadata["platform"].items()
    if not exact:
        notes.append(
            f"the submission says that it was made on {metadata['platform']}, this is {ours}: 90% "
            "of the replayed trials must agree instead of all. Its platform is its own statement, "
            "which cannot be checked here"
        )
    again = replayed(metadata, submission.folder / "source", trials)
    found = different([rows[trial] for trial in trials], again)
    if len(found) > (0 if exact else len(trials) // 10):
        said = (
            f"replay: {len(found)} of {len(trials)} trials differ. {found[0]}. If the rows are not "
            "forged, the policy carries something from trial to trial, draws random numbers of its "
            "own, or needs files beside its modules"
        )
        raise UserError(". Note: ".join([said, *notes]))
    return Check(trials, len(found), exact, notes)


def checked(folder: FilePath) -> Submission:
    """A submission whose files hold together; raises `UserError` otherwise. Runs none of its code."""
    submission = load_submission(folder)
    if submission.metadata["digest"] != DIGESTS.get(submission.suite):
        raise UserError(
            f"suite digest: expected one of {', '.join(DIGESTS)} with the cells and instances of "
            f"this package, got another {submission.suite}"
        )
    _check_complete(submission)
    # A run of the suite limits no trial's time: "timeout" does not occur.
    outcomes = ["solved", "wrong", *(word for word in UNFINISHED if word != "timeout")]
    if others := {row["outcome"] for row in submission.rows} - set(outcomes):
        raise UserError(f"expected an outcome of {', '.join(outcomes)}, got {min(others)!r}")
    _check_sources(submission)
    if submission.suite != "v1":
        found = score(submission.rows, submission.quick, submission.metadata["guarantee_text"])
        if submission.scores != found:
            raise UserError("scores recomputed from the rows differ from scores.json")
    return submission


def _check_complete(submission: Submission) -> None:
    found = dict(submission.by_cell)
    for cell in played_cells(submission.suite, submission.quick):
        rows = found.pop(cell.name, pd.DataFrame(columns=list(FIELDS)))
        lost = len(rows) == GIVE_UP and rows["outcome"].isin(UNFINISHED).all()
        count = GIVE_UP if lost else cell.count(submission.quick)
        if rows["trial"].tolist() != list(range(count)):
            raise UserError(
                f"completeness: {cell.name} needs trials 0 to {count - 1}, each once; the "
                f"submission has {len(rows)} rows, {rows['trial'].nunique()} different trials"
            )
    if found:
        raise UserError(f"completeness: {min(found)!r} is not a cell of this run")


def _check_sources(submission: Submission) -> None:
    home = Path(os.path.realpath(submission.folder / "source"))
    for name, played in submission.metadata["sources"].items():
        path = home / name
        inside = name.isprintable() and path.suffix == ".py" and path.is_relative_to(home)
        # No links and no "..", and so the same place in the folder that a replay runs in.
        if not inside or os.path.realpath(path) != str(path):
            raise UserError(f"source: {name!r} is not a Python file inside of source/")
        if sha256(path) != played:
            raise UserError(
                f"source: {name} is not the file that was played. It changed since (its hash "
                "differs); run the suite again"
            )


def sha256(path: Path) -> str:
    """The hash of a file's content."""
    return hashlib.sha256(read(path)).hexdigest()


def fresh(folder: FilePath, seed: int | None = None, trials: int = 40) -> pd.DataFrame:
    """The policy on fresh instances of every family that it solved: one line per cell.

    A policy that is tuned to the shipped instances shows by trials that are not "solved", or by a
    `pulls_ratio` above 1: mean pulls over those on the shipped instances.

    Args:
        seed: draws the instances; None for one that nobody can know.
        trials: of each cell. They can show that an error rate is far above δ, not that it is below.
    """
    submission = checked(folder)
    if submission.suite != "v2":
        raise UserError("fresh instances need a submission of suite v2")
    secret = secrets.randbits(63) if seed is None else seed
    solved = {name: one["pulls"] for name, one in submission.entries.items() if one["solved"]}
    wanted = [(cell, trial) for cell in solved for trial in range(trials)]
    played = replayed(submission.metadata, submission.folder / "source", wanted, secret)
    rows = pd.DataFrame(played, columns=["cell", "trial", "outcome", "pulls"])
    outcomes = pd.crosstab(rows["cell"], rows["outcome"]).reindex(list(solved))
    ratio = rows.groupby("cell")["pulls"].mean() / pd.Series(solved)
    return outcomes.assign(pulls_ratio=ratio, seed=secret)


def replayed(
    metadata: Values, source: Path, trials: Sequence[Trial], secret: int | None = None
) -> list[Row]:
    """The row of each (cell, trial), played with the listed sources in `source`; of one that ends
    the process cell, trial and outcome "crash" alone. `secret` is the seed of fresh instances.
    """
    rows: list[Row] = []
    # Options: no variables of the environment, no unsafe path, no compiled files written.
    command = [sys.executable, "-EPB", "-c", f"from {__name__} import _child; _child()"]
    with tempfile.TemporaryDirectory() as home:
        clean = Path(home) / "source"
        out = Path(home) / "rows.jsonl"
        clean.mkdir()
        for name in metadata["sources"]:
            (clean / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, clean / name)
        while left := trials[len(rows) :]:
            stated = [metadata[name] for name in ("suite", "policy", "guarantee_text")]
            asked = json.dumps([*stated, left, secret, str(out)])
            ended = subprocess.run(command, input=asked.encode(), cwd=clean, capture_output=True)
            if not out.exists():
                said = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise UserError(f"replay: the policy cannot be played: {said or ended.returncode}")
            rows += [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
            out.unlink()
            if differ := rows[-1].get("differ") if rows else None:
                raise UserError(
                    f"in blocks of one agent the policy plays differently ({differ}): its programs "
                    "let agents use each other's rewards, which were not sent"
                )
            if len(rows) < len(trials):
                cell, trial = trials[len(rows)]
                rows.append({"cell": cell, "trial": trial, "outcome": "crash"})
    return rows


def _child() -> None:
    suite, spec, guarantee, trials, secret, out = json.load(sys.stdin)
    sys.path.insert(0, str(Path.cwd()))
    ((_, policy),) = resolve_policies(spec)
    if (own := str(getattr(policy, "guarantee", "none"))) != guarantee:
        raise UserError(f"its guarantee is {own!r}, not {guarantee!r} as metadata.json says")
    stepper = not hasattr(policy, "solve")
    with Path(out).open("w", encoding="utf-8") as file:
        for name, trial in trials:
            cell = cells_of(suite)[name]
            env = cell.setting(stepper, secret).make()
            row = play(policy, env, cell.seed, trial=trial, bound=False)
            print(json.dumps(short_row(name, row)), file=file, flush=True)
        # At last: a policy may carry something from play to play.
        for game in [game for game in GAMES if game.small and not stepper]:
            small: Any = game.env(0.2, 500_000).make().unwrapped
            if differ := crosstalk(policy, small, 0, 0):
                print(json.dumps({"differ": differ}), file=file)
                break


def different(rows: list[Row], again: list[Row]) -> list[str]:
    """What differs between the rows of a submission and the replayed ones, one line per trial."""
    found = []
    for row, other in zip(rows, again, strict=True):
        left_out = ["seconds", "attempts", "message"]
        if row["pulls_max_agent"] is None:  # as in rows of v1
            left_out.append("pulls_max_agent")
        wrong = [
            f"{name} {row[name]} (replayed: {value})"
            for name, value in other.items()
            if row[name] != value and name not in left_out
        ]
        if wrong:
            found.append(f"{row['cell']}, trial {row['trial']}: {', '.join(wrong)}")
    return found


def short_row(cell: str, row: Mapping[Any, Any]) -> Row:
    """A trial's row as a submission holds it."""
    own = {**row, "cell": cell, "seconds": round(row["seconds"], 4)}
    return {name: own[name] for name in FIELDS}


def this_platform() -> dict[str, str]:
    """What decides whether a replay is bit for bit the same: machine, and libraries that draw
    numbers.

    "simd" names the instruction sets that NumPy uses here: they decide the last digit of an
    exponential.
    """
    extensions = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return {
        "machine": platform.machine(),
        "simd": ", ".join(extensions.get("found", ())),
        "system": platform.system(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
    }
