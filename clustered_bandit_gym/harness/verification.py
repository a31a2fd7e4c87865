"""Is a folder of trials what was played? Some trials once more."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.run import replay
from clustered_bandit_gym.harness.settings import CannotRebuild
from clustered_bandit_gym.harness.store import Store

#: Columns that differ between two plays of one trial, or that tell of the run and not of the play.
_OTHER = {"seconds", "attempts", "killed", "no_key", "reproduced", "policy"}


@dataclass
class Verification:
    """What was found. Texts name a row by policy, environment, seed and trial.

    Attributes:
        rows: rows of the store.
        asked: how many rows were to be played once more.
        replayed, different: rows played once more, and those that came out differently.
        skipped: why rows could not be played once more, with their number.
    """

    rows: int = 0
    asked: int = 0
    replayed: int = 0
    different: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def fine(self) -> bool:
        """No row is different, and if replays were asked for, at least one was possible."""
        return not self.different and (self.replayed > 0 or not self.asked)

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows; the file is sound."]
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


def verify(
    folder: str | Path, replays: int = 0, seed: int = 0, allow: Sequence[str] = ()
) -> Verification:
    """Check the file of a store, and play `replays` of its trials, chosen at random, once more.

    A sound file says nothing about who wrote it; playing a trial shows that the row is what the
    policy plays. Rows run no code but that of this package and of the modules that `allow` names.
    """
    if replays < 0:
        raise UserError(f"replays must be at least 0, got {replays}")
    with Store(folder, create=False) as store:
        result = Verification(rows=len(store), asked=replays)
        rows = store.rows(everything=True) if replays else []
    for position in np.random.default_rng(seed).permutation(len(rows)).tolist():
        if result.replayed >= replays:
            break
        _replay(rows[position], result, allow)
    return result


def _replay(row: Row, result: Verification, allow: Sequence[str]) -> None:
    def skip(reason: str) -> None:
        result.skipped[reason] = result.skipped.get(reason, 0) + 1

    if row["version"] != versions():
        return skip(f"played by {row['version']}")
    if row["outcome"] in ("crash", "timeout"):
        return skip(f"the outcome is {row['outcome']}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = replay(row, allow=allow)
    except CannotRebuild as error:
        return skip(
            f"{row['policy']}: {error.reason}; or in Python: cbg.replay(row, {error.argument}=...)"
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
