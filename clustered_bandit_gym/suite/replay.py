"""Trials of a submission played again, in a fresh process that can import nothing but what it
should.

The process runs in a new folder with copies of the listed sources. Beside that folder it searches
only the standard library and what is installed: no current folder, no PYTHONPATH, no compiled
files. The calling process imports nothing of the submission.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.play import Row, play
from clustered_bandit_gym.harness.run import resolve_policies
from clustered_bandit_gym.suite.cells import cells_of
from clustered_bandit_gym.suite.files import FIELDS

Trial = tuple[str, int]


class Mismatch(UserError):
    """The submission is not what it claims to be; the message says why."""


def replayed(
    metadata: Mapping[str, Any], source: Path, trials: Sequence[Trial], secret: int | None = None
) -> list[Row | None]:
    """The row of each trial; None where the process ended.

    Args:
        metadata: of the submission: `suite`, `policy` and `sources`.
        source: the folder with the listed sources.
        trials: (cell, trial) of each.
        secret: on fresh instances that this seed draws.
    """
    rows: list[Row | None] = []
    with tempfile.TemporaryDirectory() as home:
        clean = Path(home) / "source"
        clean.mkdir()
        for name in metadata["sources"]:
            (clean / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, clean / name)
        while len(rows) < len(trials):
            left = list(trials[len(rows) :])
            rows += _run([metadata["suite"], metadata["policy"], left, secret], Path(home))
            if len(rows) < len(trials):
                rows.append(None)  # the trial that ended the process
    return rows


def _run(asked: list[Any], home: Path) -> list[Row]:
    """The rows that one process got to."""
    out = home / "rows.jsonl"
    out.unlink(missing_ok=True)
    # Options: no variables of the environment, no unsafe path, no compiled files written.
    command = [sys.executable, "-EPB", "-c", f"from {__name__} import _child; _child()"]
    text = json.dumps([*asked, str(out)]).encode()
    ended = subprocess.run(command, input=text, cwd=home / "source", capture_output=True)
    if not out.exists():
        said = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Mismatch(f"replay: the policy cannot be built: {said or ended.returncode}")
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def _child() -> None:
    suite, spec, trials, secret, out = json.loads(sys.stdin.buffer.read())
    sys.path.insert(0, str(Path.cwd()))
    ((label, policy),) = resolve_policies(spec)
    stepper = not hasattr(policy, "solve")
    with Path(out).open("w", encoding="utf-8") as file:
        for name, trial in trials:
            cell = cells_of(suite)[name]
            env = cell.setting(stepper, secret).make()
            row = play(policy, env, cell.seed, strict=True, trial=trial, bound=False, label=label)
            print(json.dumps(short_row(name, row)), file=file, flush=True)


def different(rows: list[Row], again: list[Row | None]) -> list[str]:
    """What differs between the rows of a submission and the replayed ones, one line per trial.

    A row of None was not played to its end: the trial ended its process.
    """
    compared = [name for name in FIELDS if name not in ("seconds", "attempts", "message")]
    found = []
    for row, replayed_row in zip(rows, again, strict=True):
        other = replayed_row or row | {"outcome": "crash"}
        if row["pulls_max_agent"] is None:  # as in rows of v1
            other = other | {"pulls_max_agent": None}
        wrong = [
            f"{name} {row[name]} (replayed: {other[name]})"
            for name in compared
            if row[name] != other[name]
        ]
        if wrong:
            found.append(f"{row['cell']}, trial {row['trial']}: {', '.join(wrong)}")
    return found


def short_row(cell: str, row: Mapping[Any, Any]) -> Row:
    """A trial's row as a submission holds it."""
    short: Row = {"cell": cell}
    for key in list(FIELDS)[1:]:
        value = row[key]
        # Unfinished trials lack some numbers, which a data frame shows as NA.
        missing = pd.isna(value)
        short[key] = None if missing else value.item() if hasattr(value, "item") else value
    short["seconds"] = round(float(row["seconds"]), 4)
    return short


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
        "python": platform.python_version(),
    }
