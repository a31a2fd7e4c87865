"""Many trials: common random numbers, resume, sweeps, replay, mistakes."""

from __future__ import annotations

import importlib
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from harness_players import QUICK, TINY, Duck, Empirical, Fails, Stepper, Telepath, truth_of

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness import run as module
from clustered_bandit_gym.policies import BAIClPlusPlus, NaiveSE


def without_seconds(board: cbg.Board) -> pd.DataFrame:
    return board.trials.drop(columns="seconds")


def test_every_policy_meets_the_same_instances() -> None:
    seen: dict[str, list[bytes]] = {}

    class Spy(cbg.Policy):
        def __init__(self, name: str) -> None:
            self.who = name

        def solve(self, federation: cbg.Federation) -> np.ndarray:
            truth = truth_of(federation)
            noise = federation.pull(federation.agents, 0)
            seen.setdefault(self.who, []).append(
                truth.means.tobytes() + truth.clusters.tobytes() + noise.tobytes()
            )
            return truth.agent_best_arms.copy()

    cbg.evaluate([Spy("a"), Spy("b")], TINY, trials=5, progress=False)
    assert seen["a"] == seen["b"]
    assert len(set(seen["a"])) == 5


def test_a_trial_does_not_depend_on_company_or_number_of_trials() -> None:
    alone = without_seconds(cbg.evaluate("bai-cl", **QUICK, trials=2))
    among = without_seconds(cbg.evaluate(["naive", "bai-cl"], **QUICK, trials=4))
    among = among[(among["policy"] == "bai-cl") & (among["trial"] < 2)].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, among)


def test_play_is_a_trial() -> None:
    board = cbg.evaluate(Empirical(4), TINY, trials=3, seed=11, progress=False, n_agents=5)
    row = cbg.play(Empirical(4), TINY, seed=11, trial=2, env_kwargs={"n_agents": 5})
    assert {**board.trials.iloc[2].to_dict(), "seconds": 0} == {**row, "seconds": 0}


def test_replay_of_every_row(tmp_path: Path) -> None:
    instance = cbg.generators.PaperSmall(n_agents=5)(np.random.default_rng(0))
    players = [NaiveSE(), BAIClPlusPlus(), Stepper(3), Duck(10), Fails(0.5)]
    board = cbg.evaluate(
        players, "ClusteredBAI-v0", trials=2, instance=instance, delta=0.2, progress=False
    )
    for _, row in board.trials.iterrows():
        again = cbg.replay(row, allow=["harness_players"], instance=instance)
        for key, value in again.items():
            if key != "seconds":
                assert value == row[key] or (value is None and pd.isna(row[key])), key


def test_replay_of_what_a_row_cannot_hold() -> None:
    instance = cbg.generators.PaperSmall(n_agents=5)(np.random.default_rng(1))
    row = cbg.play(Empirical(3), "ClusteredBAI-v0", env_kwargs={"instance": instance})
    with pytest.raises(ValueError, match=r"replay\(row, instance=\.\.\.\)"):
        cbg.replay(row, allow=["harness_players"])
    assert cbg.replay(row, allow=["harness_players"], instance=instance)["pulls"] == row["pulls"]
    with pytest.raises(ValueError, match=r"not allowed to run"):
        cbg.replay({**row, "policy_class": "gone:Gone"})
    given: dict[str, Any] = {"policy": Empirical(3), "instance": instance}
    assert cbg.replay({**row, "policy_class": "gone:Gone"}, **given)["pulls"] == row["pulls"]
    with pytest.warns(UserWarning, match="was played by"):
        cbg.replay({**row, "version": "an older one"}, **given)


def test_resume_plays_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Any] = []
    original = module.run

    def spy(work: Any, tasks: Any, *rest: Any) -> Any:
        played.append(len(tasks))
        return original(work, tasks, *rest)

    monkeypatch.setattr(module, "run", spy)
    first = cbg.evaluate(Empirical(2), TINY, trials=3, out=tmp_path, progress=False)
    more = cbg.evaluate(Empirical(2), TINY, trials=5, out=tmp_path, progress=False)
    fewer = cbg.evaluate(Empirical(2), TINY, trials=2, out=tmp_path, progress=False)
    cbg.evaluate([Empirical(2), Empirical(3)], TINY, trials=5, out=tmp_path, progress=False)
    cbg.evaluate(Empirical(2), TINY, trials=5, seed=1, out=tmp_path, progress=False)
    cbg.evaluate(Empirical(2), TINY, trials=5, out=tmp_path, progress=False, delta=0.2)
    assert played == [3, 2, 0, 5, 5, 5]
    pd.testing.assert_frame_equal(more.trials.iloc[:3], first.trials)
    pd.testing.assert_frame_equal(fewer.trials, first.trials.iloc[:2])
    unkept = cbg.evaluate(Empirical(2), TINY, trials=5, progress=False)
    pd.testing.assert_frame_equal(without_seconds(more), without_seconds(unkept))


def test_failed_trials_are_offered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("disk.full").touch()
    board = cbg.evaluate(Trouble(), TINY, trials=4, out=tmp_path, progress=False)
    assert set(board.trials["outcome"]) == {"error", "wrong"}
    Path("disk.full").unlink()
    board = cbg.evaluate(Trouble(), TINY, trials=4, out=tmp_path, progress=False)
    assert board.trials["outcome"].tolist() == ["wrong"] * 4
    assert len(cbg.Store(tmp_path)) == 4


class Trouble(cbg.Policy):
    """Raises in about half of the trials while a file lies here: a cause outside the policy, such
    as a full disk.
    """

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        if any(Path.cwd().glob("*.full")) and federation.rng.random() < 0.5:
            raise OSError("no space left")
        return (truth_of(federation).agent_best_arms + 1) % federation.problem.n_arms


def test_editing_solve_does_not_reuse_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    source = (
        "import clustered_bandit_gym as cbg\n"
        "class Edited(cbg.Policy):\n"
        "    def solve(self, federation):\n"
        "        federation.pull(0, 0, {times})\n"
        "        return [0] * federation.problem.n_agents\n"
    )

    def run(times: int, n_jobs: int) -> list[int]:
        (tmp_path / "edited_policy.py").write_text(source.format(times=times))
        importlib.invalidate_caches()
        sys.modules.pop("edited_policy", None)
        board = cbg.evaluate(
            "edited_policy:Edited",
            TINY,
            trials=2,
            out=tmp_path / "out",
            progress=False,
            n_jobs=n_jobs,
        )
        return list(board.trials["pulls"])

    assert run(3, 2) == [3, 3]
    assert run(5, 2) == [
        5,
        5,
    ]  # neither the store nor a worker that is still there may know the old code
    assert run(3, 1) == [3, 3]
    shown = cbg.Board.load(tmp_path / "out").trials
    assert shown["pulls"].tolist() == [3, 3]
    assert len(cbg.Store(tmp_path / "out")) == 4


def test_ctrl_c_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyboard: None
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = Path("one.calls")  # outside the policy, whose state is part of the key
    calls.touch()

    class Interrupted(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            with open(next(Path.cwd().glob("*.calls")), "a+") as file:
                file.write("x")
                if file.tell() == 4:
                    signal.raise_signal(signal.SIGINT)
            return np.zeros(federation.problem.n_agents, dtype=int)

    with pytest.warns(UserWarning, match="3 trials are done, 7 are not"):
        board = cbg.evaluate(Interrupted(), TINY, trials=10, out=tmp_path, progress=False)
    assert (len(board.trials), board.missing) == (3, 7)
    assert "7 trials were not played" in str(board)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        board = cbg.evaluate(Interrupted(), TINY, trials=10, out=tmp_path, progress=False)
    assert (len(board.trials), board.missing, len(calls.read_text())) == (10, 0, 4 + 7)


def test_sweep_over_a_grid_and_over_cells(tmp_path: Path) -> None:
    board = cbg.sweep(
        Empirical(1),
        TINY,
        n_agents=(3, 4),
        delta=[0.1, 0.2],
        trials=2,
        progress=False,
        out=tmp_path,
    )
    assert board.varied == ["delta", "n_agents"]
    assert sorted(zip(board.summary["n_agents"], board.summary["delta"], strict=True)) == [
        (3, 0.1),
        (3, 0.2),
        (4, 0.1),
        (4, 0.2),
    ]
    cells = ({"n_agents": 3, "delta": 0.1}, {"env_id": "ClusteredBAI-PaperSmall-v0", "n_agents": 5})
    mixed = cbg.sweep(
        [Empirical(1), Telepath()], TINY, cells=cells, trials=2, progress=False, out=tmp_path
    )
    assert list(mixed.summary["env"]) == [TINY] * 2 + ["ClusteredBAI-PaperSmall-v0"] * 2
    assert len(cbg.Store(tmp_path)) == 8 + 8 - 2  # the cell that both have was played once
    one = cbg.evaluate(Empirical(1), TINY, n_agents=3, delta=0.1, trials=2, progress=False)
    first = mixed.trials[mixed.trials["policy"] == one.trials["policy"][0]].iloc[:2]
    assert first["pulls"].tolist() == one.trials["pulls"].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trials": 0}, "trials must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"seed": -1}, "seed, unless"),
        ({"env_id": "ClusteredBAI-Nowhere-v0"}, "clustered-bai list"),
        ({"env_id": "CartPole-v1"}, "not an environment of clustered bandits"),
        ({"no_such_setting": 3}, "no_such_setting"),
        ({"delta": 2.0}, "delta"),
        ({"backend": "slurm"}, "backend must be one of None, 'processes', 'dask'; got 'slurm'"),
        ({"address": "tcp://x"}, "needs the backend"),
        ({"backend": "dask"}, "needs the address"),
        ({"policies": []}, "no policies are given"),
        ({"policies": [Empirical]}, r"such as Mine\(\)"),
        ({"policies": "no-such-policy"}, "unknown policy"),
        ({"policies": 3}, "a policy is a name, or an object with solve"),
    ],
)
def test_mistakes_are_told_before_anything_is_played(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {
        "policies": Empirical(1),
        "env_id": TINY,
        "trials": 2,
        "progress": False,
    } | change
    with pytest.raises(ValueError, match=message):
        cbg.evaluate(arguments.pop("policies"), arguments.pop("env_id"), **arguments)


def test_equal_labels_are_kept_apart() -> None:
    class Empirical2(Empirical):
        """Same name, other class."""

    board = cbg.evaluate([Empirical(10), Empirical2(10)], TINY, trials=1, progress=False)
    assert list(board.summary["policy"]) == ["empirical", "empirical #2"]


def test_a_million_agents_through_the_federation_door() -> None:
    board = cbg.evaluate(
        Empirical(1),
        "ClusteredBAI-PaperSmall-v0",
        n_agents=10**6,
        trials=1,
        progress=False,
        bound=False,
    )
    assert board.trials["pulls"][0] == 10**7
