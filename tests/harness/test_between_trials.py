"""What lasts from one trial to the next: failed attempts, seeds, and the state of policy and
process.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, ClassVar

import numpy as np
import pytest
from harness_players import TINY

import clustered_bandit_gym as cbg


class TriesAgain(cbg.Policy):
    """Raises now and then, with entropy of its own: played again, a trial may end better."""

    def solve(self, federation: Any) -> np.ndarray:
        if np.random.default_rng().random() < 0.3:
            raise RuntimeError("not this time")
        return cbg.policies.make("uniform:pulls_per_arm=1000").solve(federation)


def test_trials_that_failed_stay_on_record(tmp_path: Any) -> None:
    """False alarms: 0.7^60 that no trial ever fails, 60·0.3^30 that one is unfinished after 30
    runs.
    """
    settings: dict[str, Any] = {"trials": 60, "delta": 0.1, "bound": False, "progress": False}
    failed: set[int] = set()
    for _ in range(30):
        board = cbg.evaluate(TriesAgain(), TINY, out=tmp_path, **settings)
        trials, score = board.trials, board.summary.iloc[0]
        failed |= set(trials.trial[trials.outcome == "error"])
        assert set(trials.trial[trials.attempts > 1]) <= failed
        if score.unfinished == 0:
            break
    assert score.unfinished == 0
    assert set(trials.trial[trials.attempts > 1]) == failed != set()
    assert score.retried == ((trials.attempts > 1) & (trials.outcome == "solved")).sum()
    assert score.verdict != "PASS"
    assert "first attempt" in str(board)
    fresh = cbg.evaluate("uniform:pulls_per_arm=1000", TINY, **settings)
    assert fresh.summary.verdict[0] == "PASS", "without failures these trials would pass"


def test_a_secret_seed_is_drawn_and_shown() -> None:
    boards = [
        cbg.evaluate("random", TINY, trials=1, seed="secret", bound=False, progress=False)
        for _ in range(2)
    ]
    first, second = (board.trials.seed[0] for board in boards)
    assert first != second
    assert min(first, second) > 2**64  # fails with probability 2^-63
    assert str(first) in str(boards[0])
    row = cbg.replay(boards[0].trials.iloc[0])
    assert row["pulls"] == boards[0].trials.pulls[0]
    with pytest.raises(ValueError, match="secret"):
        cbg.evaluate("random", TINY, trials=1, seed="hidden", progress=False)


class Learns(cbg.Policy):
    """Carries what it saw from trial to trial."""

    seen: ClassVar[list[int]] = []

    def solve(self, federation: Any) -> np.ndarray:
        self.seen.append(1)
        federation.pull(0, 0, 100 + len(self.seen))
        return np.zeros(federation.problem.n_agents, dtype=int)


def test_state_carried_from_trial_to_trial_shows_in_a_fresh_process() -> None:
    Learns.seen.clear()
    settings: dict[str, Any] = {"trials": 3, "replays": 1, "bound": False, "progress": False}
    board = cbg.evaluate([Learns(), "uniform"], TINY, **settings)
    by_policy = board.trials.groupby("policy")["reproduced"].apply(
        lambda column: column.dropna().tolist()
    )
    assert by_policy["Learns"] == [False]
    assert by_policy["uniform"] == [True]
    assert "fresh process" in board.summary.doubt[0]


class Untidy(cbg.Policy):
    """Changes what belongs to the whole process, as people do for their own use."""

    def solve(self, federation: Any) -> np.ndarray:
        np.seterr(all="raise")
        warnings.simplefilter("error")
        os.chdir("/")
        federation.pull(0, 0)
        return np.zeros(federation.problem.n_agents, dtype=int)


def test_a_play_leaves_the_process_as_it_was() -> None:
    before = np.geterr(), list(warnings.filters), os.getcwd()
    cbg.play(Untidy(), TINY)
    assert (np.geterr(), list(warnings.filters), os.getcwd()) == before


def test_a_failed_replay_is_kept(tmp_path: Any) -> None:
    Learns.seen.clear()
    how: dict[str, Any] = {"trials": 3, "bound": False, "progress": False, "out": tmp_path}
    cbg.evaluate(Learns(), TINY, replays=1, **how)
    assert "fresh process" in cbg.Board.load(tmp_path).summary.doubt[0]


def test_a_later_replay_does_not_undo_a_failed_one(tmp_path: Any, monkeypatch: Any) -> None:
    how: dict[str, Any] = {"trials": 2, "bound": False, "progress": False, "out": tmp_path}
    for same in (False, True):
        monkeypatch.setattr(
            "clustered_bandit_gym.harness.run.reproduced",
            lambda _, rows, __, same=same: dict.fromkeys(rows, same),
        )
        board = cbg.evaluate("uniform", TINY, replays=2, **how)
    assert board.reused == 2
    assert not board.trials["reproduced"].any()
