"""What a replay compares: every trial that the checker counts was played."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from suite_toys import Exits, Fixed, again

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.fingerprint import versions
from clustered_bandit_gym.policies import make
from clustered_bandit_gym.suite import SUITE_V1
from clustered_bandit_gym.suite.cells import GIVE_UP
from clustered_bandit_gym.suite.checker import Mismatch, verify
from clustered_bandit_gym.suite.files import load_submission
from clustered_bandit_gym.suite.replay import different, identity, this_platform
from clustered_bandit_gym.suite.score import score
from clustered_bandit_gym.suite.submission import play_cell

QUICK = Path(__file__).parents[2] / "submissions" / "quick"
COINS = next(cell for cell in SUITE_V1 if cell.name == "coins")


@pytest.fixture
def random(tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(
            QUICK / "random", tmp_path / "random", ignore=shutil.ignore_patterns(".trials")
        )
    )


def give_up(folder: Path, outcome: str) -> None:
    """Replaces the rows of every cell by three that end without an answer."""
    lines = (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    lost = {
        "outcome": outcome,
        "wrong_agents": None,
        "message": "the trial's process ended: SIGSEGV(-11)",
    }
    rows: list[dict[str, Any]] = [
        row | lost for row in map(json.loads, lines) if row["trial"] < GIVE_UP
    ]
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    full = [{"attempts": 1, "suspicious_communication": False} | row for row in rows]
    (folder / "scores.json").write_text(json.dumps(score(full, quick=True)), encoding="utf-8")


def test_a_wrong_trial_called_a_crash(random: Path) -> None:
    give_up(random, "crash")
    with pytest.raises(
        Mismatch,
        match=r"replay: 1 of 1 trials differ. coins, trial 1: outcome crash \(replayed: wrong\)",
    ):
        verify(random, trials=[("coins", 1)])


def test_the_suite_has_no_timeouts(random: Path) -> None:
    give_up(random, "timeout")
    with pytest.raises(
        Mismatch, match="expected an outcome of solved, wrong, budget, error, crash"
    ):
        verify(random, replay=0)


def test_a_crash_is_replayed_alone() -> None:
    rows = play_cell(Exits(), COINS, 1)
    assert rows[0]["outcome"] == "crash"
    assert different(rows, again("suite_toys:Exits", rows)) == []
    # Its end does not touch the replay of others, whatever their order.
    good = play_cell(Fixed(), COINS, 1)
    (line,) = different(rows + good, again("suite_toys:Fixed", rows + good))
    assert line.startswith("coins, trial 0: outcome crash (replayed: solved)")


def change_metadata(folder: Path, **values: Any) -> None:
    path = folder / "metadata.json"
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8"
    )


@pytest.mark.parametrize(
    "values",
    [
        {"guarantee": "proved by authority"},
        {"guarantee": None},
        {"guarantee": "proved", "link": ""},
        {"suite": "v0"},
    ],
)
def test_a_guarantee_is_one_of_three(random: Path, values: dict[str, Any]) -> None:
    change_metadata(random, **values)
    with pytest.raises(
        (UserError, Mismatch),
        match=r"guarantee must be|given where guarantee is proved|expected v1",
    ):
        verify(random, replay=0)


@pytest.mark.parametrize(
    ("key", "value"),
    [("policy_class", "mine:Mine"), ("settings", {"a": 1}), ("fingerprint", "forged")],
)
def test_metadata_describe_the_policy_that_is_replayed(random: Path, key: str, value: Any) -> None:
    true = identity(make("random"))
    change_metadata(random, **true | {"versions": versions(), key: value})
    with pytest.raises(Mismatch, match=f"policy: {key} .* is not that of random: "):
        verify(random, trials=[("coins", 0)])


def test_another_platform_is_a_statement(random: Path) -> None:
    change_metadata(random, platform=this_platform() | {"machine": "another"})
    rows = [
        json.loads(line)
        for line in (random / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    next(row for row in rows if (row["cell"], row["trial"]) == ("coins", 3))["rounds"] += 1
    (random / "rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    (random / "scores.json").write_text(
        json.dumps(score(load_submission(random).rows, quick=True)), encoding="utf-8"
    )
    checked = verify(random, trials=[("coins", trial) for trial in range(10)])
    assert (checked.exact, checked.different, len(checked.replayed)) == (False, 1, 10)
    assert any("own statement, which cannot be checked here" in note for note in checked.notes)


def test_code_that_fails_on_import(random: Path) -> None:
    (random / "source").mkdir()
    text = "raise RuntimeError('not here')\n"
    (random / "source" / "bad_module_of_a_test.py").write_text(text, encoding="utf-8")
    sources = {"bad_module_of_a_test.py": hashlib.sha256(text.encode()).hexdigest()}
    change_metadata(random, sources=sources, policy="bad_module_of_a_test:Bad")
    with pytest.raises(Mismatch, match=r"the policy cannot be built: .*not here"):
        verify(random, trials=[("coins", 0)])


def test_a_policy_without_a_fingerprint_is_noted(random: Path) -> None:
    change_metadata(random, fingerprint="none: it reads os.environ", versions="of another day")
    notes = verify(random, trials=[("coins", 0)]).notes
    assert any(
        "no fingerprint (it reads os.environ): attempts of earlier runs are not counted" in note
        for note in notes
    )
