"""A submission is complete, can be run again, and cannot be forged unnoticed."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from suite_small import small_suite
from suite_toys import Remembers, again
from typer.testing import CliRunner

from clustered_bandit_gym.cli import app
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.suite.cells import cells_of
from clustered_bandit_gym.suite.checker import different, fresh, verify
from clustered_bandit_gym.suite.files import Submission
from clustered_bandit_gym.suite.score import score
from clustered_bandit_gym.suite.submission import play_cell, run_suite

TOY = "suite_toys:Fixed"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submission]:
    home = tmp_path_factory.mktemp("suite") / "toy"
    with small_suite():
        yield run_suite(TOY, home, quick=True, progress=False, authors="A. Toy")


def test_a_toy_is_verified(submission: Submission) -> None:
    checked = verify(submission.folder, replay=25)
    assert len(set(checked.replayed)) == 25
    assert checked.exact
    assert checked.notes == []
    assert not (submission.folder / ".draft").exists()
    assert (submission.folder / "source" / "suite_toys.py").is_file()
    text = (submission.folder / "README.md").read_text(encoding="utf-8")
    assert "A. Toy" in text
    assert "quick run" in text
    assert all(row["pulls_max_agent"] > 0 and row["rounds"] == 1 for row in submission.rows)


def test_a_run_resumes_with_the_same_rows(submission: Submission) -> None:
    again = partial(run_suite, TOY, submission.folder, quick=True, progress=False, authors="A. Toy")
    with pytest.raises(UserError, match="holds a finished submission; choose another --out"):
        again()
    resumed = again(overwrite=True)
    assert resumed.rows == submission.rows  # `seconds` included: nothing was played again


def test_fresh_instances(submission: Submission) -> None:
    found = fresh(submission.folder, seed=5, trials=3)
    solved = [entry["cell"] for entry in submission.scores["cells"] if entry["solved"]]
    assert found.index.tolist() == solved
    assert found.filter(["solved", "wrong"]).sum(axis=1).tolist() == [3] * len(solved)
    assert found["pulls_ratio"].notna().all()


def test_state_that_outlives_a_trial_shows_in_a_fresh_process() -> None:
    cell = cells_of("v2")["easy-10"]
    rows = play_cell(Remembers(), cell, 3)
    assert [row["pulls"] for row in rows] == [1, 2, 3]
    assert Remembers.seen == []  # played in a process of its own
    (line,) = different(rows[2:], again("suite_toys:Remembers", rows[2:]))
    assert line.startswith("easy-10, trial 2: pulls 3 (replayed: 1)")


def test_a_submission_that_does_not_verify_is_not_put_in_its_place(tmp_path: Path) -> None:
    with (
        small_suite(),
        pytest.raises(UserError, match=r"not verified, and so left in .*\.draft: r"),
    ):
        run_suite("suite_toys:Remembers", tmp_path / "out", quick=True, progress=False)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".draft", ".trials"]


def forged(
    submission: Submission, tmp_path: Path, change: Callable[[Rows], Any], rescore: bool = True
) -> Path:
    """A copy with changed rows, and with scores that fit them."""
    folder = tmp_path / "forged"
    shutil.copytree(submission.folder, folder)
    rows = [dict(row) for row in submission.rows]
    rows = change(rows) or rows
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    if rescore:
        scores = score(rows, submission.quick, submission.metadata["guarantee_text"])
        (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    return folder


def find(rows: Rows, cell: str, trial: int) -> dict[str, Any]:
    return next(row for row in rows if (row["cell"], row["trial"]) == (cell, trial))


def test_pulls_lowered_by_one(submission: Submission, tmp_path: Path) -> None:
    def change(rows: Rows) -> None:
        find(rows, "easy-10", 7)["pulls"] -= 1

    folder = forged(submission, tmp_path, change)
    told = r"replay: 1 of 1 trials differ. easy-10, trial 7: pulls \d+ \(replayed: \d+\)"
    with pytest.raises(match=told):
        verify(folder, trials=[("easy-10", 7)])
    folder = forged(submission, tmp_path / "b", change, rescore=False)
    with pytest.raises(match="scores recomputed from the rows differ"):
        verify(folder, replay=0)


def test_a_trial_dropped_or_twice(submission: Submission, tmp_path: Path) -> None:
    changes: list[Callable[[Rows], Any]] = [
        lambda rows: rows.remove(find(rows, "easy-10", 5)),
        lambda rows: rows.append(find(rows, "easy-10", 5)),
    ]
    for place, change in enumerate(changes):
        folder = forged(submission, tmp_path / str(place), change)
        with pytest.raises(match="completeness: easy-10 needs trials 0 to 59"):
            verify(folder, replay=0)


def test_another_digest_or_source(submission: Submission, tmp_path: Path) -> None:
    folder = forged(submission, tmp_path / "a", lambda rows: None)
    path = folder / "metadata.json"
    metadata = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(metadata | {"digest": "0" * 64}), encoding="utf-8")
    with pytest.raises(match="suite digest"):
        verify(folder, replay=0)
    folder = forged(submission, tmp_path / "b", lambda rows: None)
    with (folder / "source" / "suite_toys.py").open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    with pytest.raises(match=r"source: suite_toys.py is not the file that was played"):
        verify(folder, replay=0)


def test_an_edited_policy_is_noted(
    submission: Submission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submission's copy is what is verified; the author may have edited the original."""
    monkeypatch.chdir(tmp_path)
    source = (submission.folder / "source" / "suite_toys.py").read_text(encoding="utf-8")
    (tmp_path / "suite_toys.py").write_text(source, encoding="utf-8")
    assert verify(submission.folder, replay=0).notes == []
    (tmp_path / "suite_toys.py").write_text(source + "# edited\n", encoding="utf-8")
    (note,) = verify(submission.folder, replay=0).notes
    assert "the source changed: suite_toys.py in this folder" in note


def test_verify_says_why_and_exits_with_one(submission: Submission, tmp_path: Path) -> None:
    run = CliRunner().invoke
    good = run(app, ["suite", "verify", str(submission.folder), "--replay", "2", "--yes"])
    assert good.exit_code == 0
    assert "VERIFIED" in good.output
    folder = forged(submission, tmp_path, lambda rows: rows[:-1])
    bad = run(app, ["suite", "verify", str(folder), "--replay", "0"])
    assert bad.exit_code == 1
    assert "NOT VERIFIED: completeness" in bad.output
    missing = run(app, ["suite", "verify", str(tmp_path), "--yes"])
    assert missing.exit_code == 1
    assert "is not a submission" in missing.output
