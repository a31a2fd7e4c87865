"""The suite is frozen, its scores are what the formulas say, and a submission cannot be forged unnoticed."""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from suite_toys import again

from clustered_bandit_gym.cli import app
from clustered_bandit_gym.suite import SUITE_V1
from clustered_bandit_gym.suite.cells import DIGEST_V1, GIVE_UP, suite_digest
from clustered_bandit_gym.suite.checker import Mismatch, verify
from clustered_bandit_gym.suite.files import Submission
from clustered_bandit_gym.suite.score import frontier, played_cells, profiles, score, yardsticks
from clustered_bandit_gym.suite.submission import run_suite
from clustered_bandit_gym.suite.yardsticks import yardstick
from clustered_bandit_gym.theory import bai_cl_most_agents
from clustered_bandit_gym.theory.lower_bound import TOLERANCE

TOY = "suite_toys:Fixed"


def test_v1_never_changes() -> None:
    assert suite_digest(SUITE_V1) == DIGEST_V1


def test_v1_is_the_same_on_other_processors() -> None:
    """Exponentials and matrix products have other last digits where NumPy and its linear algebra have other kernels."""
    found = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
    other = {"NPY_DISABLE_CPU_FEATURES": " ".join(found), "OPENBLAS_CORETYPE": "Prescott"}
    script = (
        "from clustered_bandit_gym.suite.cells import SUITE_V1, suite_digest\n"
        "movies = next(cell.instance.rewards for cell in SUITE_V1 if cell.name == 'movies')\n"
        "print(movies.probabilities.tobytes().hex())\n"
        "print(suite_digest(SUITE_V1))"
    )
    plain, reduced = (
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | more,
            capture_output=True,
            text=True,
            check=True,
        )
        for more in ({}, other)
    )
    (bits, digest), (other_bits, other_digest) = plain.stdout.split(), reduced.stdout.split()
    assert digest == other_digest == DIGEST_V1
    if platform.machine() == "x86_64" and "X86_V4" in found:
        assert bits != other_bits  # the two runs do differ


def test_the_digest_covers_instances_settings_and_trials() -> None:
    from dataclasses import replace

    first, *rest = SUITE_V1[:3]
    before = suite_digest((first, *rest))
    for changed in (
        replace(first, trials=first.trials + 1),
        replace(first, quick=first.quick + 1),
        replace(first, kwargs=first.kwargs | {"delta": 0.2}),
        replace(first, kwargs=first.kwargs | {"told": {"eta": 0.2}}),
    ):
        assert suite_digest((changed, *rest)) != before
    other = replace(first)
    vars(other)["instance_digest"] = "another instance under the same settings"
    assert suite_digest((other, *rest)) != before


def test_what_the_suite_covers() -> None:
    assert 28 <= len(SUITE_V1) <= 36
    assert len({cell.name for cell in SUITE_V1}) == len(SUITE_V1)
    assert all(cell.probes and cell.tags and 0 <= cell.quick <= cell.trials for cell in SUITE_V1)
    tags = {tag for cell in SUITE_V1 for tag in cell.tags}
    assert {
        "paper", "near-tie", "skewed", "empty", "one-cluster", "bernoulli", "categorical", "untold", "many-agents",
        "many-arms", "real-data", "small-delta",
    } <= tags  # fmt: skip
    by_name = {cell.name: cell for cell in SUITE_V1}
    assert by_name["agents-1e5"].instance.n_agents == 10**5
    assert by_name["arms-1e3"].instance.n_arms == 1000
    sizes = np.bincount(by_name["empty-100"].instance.clusters, minlength=20)
    assert (sizes == 0).sum() >= 8
    assert {cell.instance.rewards.to_dict()["kind"] for cell in SUITE_V1} >= {
        "gaussian",
        "bernoulli",
        "categorical",
    }
    assert {cell.delta for cell in SUITE_V1} >= {0.1, 1e-10}


def test_the_printed_schemes_are_proved_in_every_cell() -> None:
    """What the reference submissions of BAI-Cl and BAI-Cl++ say of themselves."""
    for cell in SUITE_V1:
        most = bai_cl_most_agents(cell.instance.n_clusters, cell.delta)
        assert cell.instance.n_agents <= most, cell.name


def test_yardsticks_hold() -> None:
    """Theory may find larger lower bounds than the frozen ones, never smaller ones beyond its tolerance."""
    assert list(yardsticks()) == [cell.name for cell in SUITE_V1]
    # The large cells take seconds each; `python -m clustered_bandit_gym.suite.yardsticks` computes all of them.
    for cell in SUITE_V1:
        if cell.instance.n_arms > 12 or cell.instance.n_agents > 60:
            continue
        today, frozen = yardstick(cell), yardsticks()[cell.name]
        assert today["cost"] == frozen["cost"], cell.name
        # Both are valid, and within the certified gap of the best bound that the alternatives give.
        assert frozen["bound"] <= today["bound"] * (1 + TOLERANCE), cell.name


def made_up_rows(
    pulls: dict[str, float], wrong: dict[str, int] | None = None
) -> list[dict[str, Any]]:
    """Rows of a quick run: trial t of a cell makes `pulls` or 3·`pulls` times the bound, in turn."""
    rows = []
    for cell in played_cells(quick=True):
        for trial in range(cell.quick):
            failed = trial < (wrong or {}).get(cell.name, 0)
            rows.append(
                {
                    "cell": cell.name,
                    "trial": trial,
                    "outcome": "wrong" if failed else "solved",
                    "pulls": pulls.get(cell.name, 1.0)
                    * yardsticks()[cell.name]["bound"]
                    * (1 + 2 * (trial % 2)),
                    "cost": 5 * yardsticks()[cell.name]["cost"],
                    "rounds": 4,
                    "attempts": 1,
                    "suspicious_communication": False,
                    "message": "",
                }
            )
    return rows


def test_scores_follow_their_formulas() -> None:
    found = score(made_up_rows({"small-30": 8.0}, wrong={"coins": 70}), quick=True)
    by_name = {entry["cell"]: entry for entry in found["cells"]}
    # 70 trials, half at 8 and half at 24 times the bound.
    assert by_name["small-30"]["vs_bound"] == pytest.approx(16.0)
    assert by_name["small-30"]["cost_vs_naive"] == pytest.approx(5.0)
    # A bit of naive is ⌈log2 K⌉ per agent.
    assert by_name["small-30"]["bits_per_agent"] == pytest.approx(5 * 4)
    # The bootstrap interval of a mean of n values in {8, 24}: its standard error is 8/√n.
    half = 1.96 * 8 / math.sqrt(70)
    assert by_name["small-30"]["vs_bound_low"] == pytest.approx(16 - half, abs=0.35 * half)
    assert by_name["small-30"]["vs_bound_high"] == pytest.approx(16 + half, abs=0.35 * half)
    assert by_name["coins"]["verdict"] == "FAIL"
    assert not by_name["coins"]["solved"]
    cells = len(by_name)
    assert found["overall"]["share_solved"] == pytest.approx((cells - 1) / cells)
    assert found["overall"]["failed"] == 1
    assert found["overall"]["vs_bound"] == pytest.approx(
        math.exp((math.log(16) + (cells - 2) * math.log(2)) / (cells - 1))
    )
    assert found["tags"]["bernoulli"]["solved"] == 1


def test_less_than_the_lower_bound_is_not_solved() -> None:
    found = score(made_up_rows({"small-30": 0.2}), quick=True)
    entry = next(entry for entry in found["cells"] if entry["cell"] == "small-30")
    assert not entry["solved"]
    assert "fewer pulls than any δ-PC policy" in entry["reason"]


def test_profiles_and_frontier() -> None:
    fast = score(made_up_rows({}, wrong={"coins": 70}), quick=True)
    slow = score(made_up_rows({cell.name: 4.0 for cell in SUITE_V1}), quick=True)
    cells = len(played_cells(quick=True))
    found = profiles({"fast": fast, "slow": slow})
    # At τ = 1 each policy has the cells where it is best; slow needs 4 = 2^(8/4) times the pulls elsewhere.
    assert found["fast"][0] == pytest.approx((cells - 1) / cells)
    assert found["slow"][0] == pytest.approx(1 / cells)
    assert found["slow"][7] == pytest.approx(1 / cells)
    assert found["slow"][8] == 1
    assert found["fast"][-1] == pytest.approx((cells - 1) / cells)
    assert profiles({"fast": fast, "slow": slow}, "bernoulli")["fast"][-1] == 0.5
    on_front = frontier({"fast": fast, "slow": slow})
    assert on_front["slow"] == ["coins"]
    assert len(on_front["fast"]) == cells - 1


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Submission:
    return run_suite(
        TOY, tmp_path_factory.mktemp("suite") / "toy", quick=True, progress=False, authors="A. Toy"
    )


def test_a_toy_is_verified(submission: Submission) -> None:
    checked = verify(submission.folder, replay=25, seed=3)
    assert len(set(checked.replayed)) == 25
    assert checked.exact
    assert checked.notes == []
    assert (submission.folder / "source" / "suite_toys.py").is_file()
    assert not list(submission.folder.rglob("*.pkl"))
    text = (submission.folder / "README.md").read_text(encoding="utf-8")
    assert "A. Toy" in text
    assert "quick run" in text


def test_a_run_resumes_with_the_same_rows(submission: Submission) -> None:
    again = run_suite(TOY, submission.folder, quick=True, progress=False, authors="A. Toy")
    assert again.rows == submission.rows  # `seconds` included: nothing was played again


def test_a_policy_that_needs_more_than_is_told_goes_on(tmp_path: Path) -> None:
    from clustered_bandit_gym.policies import make
    from clustered_bandit_gym.suite.submission import play_cell

    cell = next(cell for cell in SUITE_V1 if cell.name == "no-eta")
    rows = play_cell(make("cl-bai"), cell, GIVE_UP)
    entry = next(entry for entry in score(rows, quick=True)["cells"] if entry["cell"] == "no-eta")
    assert not entry["solved"]
    assert entry["verdict"] == "INCONCLUSIVE"
    assert "requires eta" in entry["reason"]


def test_state_that_outlives_a_trial_shows_in_a_fresh_process() -> None:
    from suite_toys import Fixed, Remembers

    from clustered_bandit_gym.suite.replay import different
    from clustered_bandit_gym.suite.submission import play_cell

    cell = next(cell for cell in SUITE_V1 if cell.name == "coins")
    rows = play_cell(Remembers(), cell, 3)
    assert [row["pulls"] for row in rows] == [1, 2, 3]
    assert Remembers.seen == []  # played in a process of its own
    (line,) = different(rows[2:], again("suite_toys:Remembers", rows[2:]))
    assert line.startswith("coins, trial 2: pulls 3 (replayed: 1)")
    rows = play_cell(Fixed(), cell, 2)
    assert different(rows, again("suite_toys:Fixed", rows)) == []


def forged(submission: Submission, tmp_path: Path, change: Any, rescore: bool = True) -> Path:
    """A copy with changed rows, and with scores that fit them."""
    folder = tmp_path / "forged"
    shutil.copytree(submission.folder, folder)
    rows = [dict(row) for row in submission.rows]
    rows = change(rows) or rows
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    if rescore:
        (folder / "scores.json").write_text(
            json.dumps(score(rows, submission.quick)), encoding="utf-8"
        )
    return folder


def find(rows: list[dict[str, Any]], cell: str, trial: int) -> dict[str, Any]:
    return next(row for row in rows if (row["cell"], row["trial"]) == (cell, trial))


def test_pulls_lowered_by_one(submission: Submission, tmp_path: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        find(rows, "coins", 7)["pulls"] -= 1

    folder = forged(submission, tmp_path, change)
    with pytest.raises(
        Mismatch, match=r"replay: 1 of 1 trials differ. coins, trial 7: pulls \d+ \(replayed: \d+\)"
    ):
        verify(folder, trials=[("coins", 7)])
    verify(
        folder, trials=[("coins", 6)]
    )  # what a checker cannot catch: a trial that it does not replay


def test_scores_that_do_not_fit_the_rows(submission: Submission, tmp_path: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        find(rows, "coins", 7)["pulls"] -= 1

    with pytest.raises(
        Mismatch, match=r"scores recomputed from the rows differ: scores\.cells\.coins\.pulls"
    ):
        verify(forged(submission, tmp_path, change, rescore=False), replay=0)


def test_a_wrong_trial_turned_right(submission: Submission, tmp_path: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        row = find(rows, "tie-1e-2", 3)
        assert row["outcome"] == "wrong"
        row["outcome"], row["wrong_agents"] = "solved", 0

    with pytest.raises(Mismatch, match="tie-1e-2, trial 3: outcome solved"):
        verify(forged(submission, tmp_path, change), trials=[("tie-1e-2", 3)])


def test_a_trial_dropped_or_twice(submission: Submission, tmp_path: Path) -> None:
    with pytest.raises(Mismatch, match="completeness: flat-200 needs trials 0 to 29"):
        verify(
            forged(submission, tmp_path / "a", lambda rows: rows.remove(find(rows, "flat-200", 5))),
            replay=0,
        )
    with pytest.raises(Mismatch, match="completeness: flat-200"):
        verify(
            forged(submission, tmp_path / "b", lambda rows: rows.append(find(rows, "flat-200", 5))),
            replay=0,
        )


def test_another_digest_or_source_or_price(submission: Submission, tmp_path: Path) -> None:
    folder = forged(submission, tmp_path / "a", lambda rows: None)
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    (folder / "metadata.json").write_text(
        json.dumps(metadata | {"digest": "0" * 64}), encoding="utf-8"
    )
    with pytest.raises(Mismatch, match="suite digest"):
        verify(folder, replay=0)
    folder = forged(submission, tmp_path / "b", lambda rows: None)
    with (folder / "source" / "suite_toys.py").open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    with pytest.raises(Mismatch, match=r"source: suite_toys.py is not the file that was played"):
        verify(folder, replay=0)

    def cheaper(rows: list[dict[str, Any]]) -> None:
        find(rows, "coins", 7)["cost"] -= 1

    with pytest.raises(Mismatch, match="is not the price"):
        verify(forged(submission, tmp_path / "c", cheaper), replay=0)


def test_verify_says_why_and_exits_with_one(submission: Submission, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    good = CliRunner().invoke(
        app, ["suite", "verify", str(submission.folder), "--replay", "2", "--seed", "1", "--yes"]
    )
    assert good.exit_code == 0
    assert "VERIFIED" in good.output
    folder = forged(submission, tmp_path, lambda rows: rows[:-1])
    bad = CliRunner().invoke(app, ["suite", "verify", str(folder), "--replay", "0"])
    assert bad.exit_code == 1
    assert "NOT VERIFIED: completeness" in bad.output
    missing = CliRunner().invoke(app, ["suite", "verify", str(tmp_path), "--yes"])
    assert missing.exit_code == 1
    assert "is not a submission" in missing.output
