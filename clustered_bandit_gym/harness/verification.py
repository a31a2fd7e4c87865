"""Is a folder of trials what was played? Hashes of all rows, and some trials once more."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.fingerprint import versions
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.run import replay
from clustered_bandit_gym.harness.settings import CannotRebuild
from clustered_bandit_gym.harness.store import Key, Store, row_hash

#: Columns that differ between two plays of one trial, or say something about the run and not about the play.
_OTHER = {"seconds", "attempts", "no_key", "reproduced", "policy"}


@dataclass
class Verification:
    """What was found. Texts name a row by policy, environment, seed and trial.

    Attributes:
        rows, hashed: rows of the store, and those that have a hash; rows of older files have none.
        damaged: rows that do not match their hash or cannot be read.
        asked: how many rows were to be played once more.
        replayed, different: how many rows were played once more, and those that came out differently.
        skipped: why rows could not be played once more, with their number.
    """

    rows: int = 0
    hashed: int = 0
    damaged: list[str] = field(default_factory=list)
    asked: int = 0
    replayed: int = 0
    different: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def fine(self) -> bool:
        """No row is damaged or different, and if replays were asked for, at least one was possible."""
        return not self.damaged and not self.different and (self.replayed > 0 or not self.asked)

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows, {self.hashed:,} with a hash: {len(self.damaged):,} damaged."]
        lines += [f"  damaged: {text}" for text in self.damaged]
        if self.asked:
            lines.append(
                f"{self.replayed:,} rows played once more: {len(self.different):,} different."
            )
        lines += [f"  different: {text}" for text in self.different]
        lines += [
            f"  not played once more ({count:,}): {reason}"
            for reason, count in self.skipped.items()
        ]
        return "\n".join(lines)


def verify(folder: str | Path, replays: int = 0, seed: int = 0) -> Verification:
    """Recompute the hash of every row of a store, and play `replays` of its trials, chosen at random, once more.

    A hash shows that a row is as it was written. It is not a signature: anybody who changes a row on purpose can change
    its hash as well. Replaying shows that the row is what the policy plays.
    """
    if replays < 0:
        raise UserError(f"replays must be at least 0, got {replays}")
    result, sound = Verification(asked=replays), []
    with Store(folder, create=False) as store:
        for key, text, kept_hash in store.kept():
            result.rows += 1
            result.hashed += kept_hash is not None
            row = _sound(key, text, kept_hash)
            if row is None:
                result.damaged.append(_name(key, text))
            else:
                sound.append(row)
    for position in np.random.default_rng(seed).permutation(len(sound)).tolist():
        if result.replayed >= replays:
            break
        _replay(sound[position], result)
    return result


def _sound(key: Key, text: Any, kept_hash: str | None) -> Row | None:
    try:
        row: Row = json.loads(text)
        if kept_hash not in (None, row_hash(key, row)):
            return None
        return row if row["trial"] == key.trial and str(row["seed"]) == key.seed else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _name(key: Key, text: Any) -> str:
    try:
        row = json.loads(text)
        where = f"{row['policy']} on {row['env']}, "
    except (ValueError, KeyError, TypeError, RecursionError):
        where = ""
    return f"{where}seed {key.seed}, trial {key.trial}"


def _replay(row: Row, result: Verification) -> None:
    def skip(reason: str) -> None:
        result.skipped[reason] = result.skipped.get(reason, 0) + 1

    if row["version"] != versions():
        return skip(f"played by {row['version']}")
    if row["outcome"] in ("crash", "timeout"):
        return skip(f"the outcome is {row['outcome']}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = replay(row)
    except CannotRebuild as error:
        return skip(
            f"{row['policy']}: {error.reason}; run this in the folder where the trials were played, with the same "
            f"modules, or in Python: cbg.replay(row, {error.argument}=...)"
        )
    except Exception as error:
        return skip(f"{row['policy']}: {type(error).__name__}: {error}")
    result.replayed += 1
    again = json.loads(json.dumps(again))
    other = _OTHER | ({"bound"} if row.get("bound") is None else set())
    changed = [name for name in row if name not in other and again.get(name) != row[name]]
    if changed:
        name = f"{row['policy']} on {row['env']}, seed {row['seed']}, trial {row['trial']}"
        result.different.append(f"{name}: {', '.join(changed)}")
    return None
