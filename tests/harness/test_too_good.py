"""Results that are too good to be true: marked on the board, without a PASS, and failed by the
audit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness_players import TINY, Telepath, truth_of
from leaks import Leaks

import clustered_bandit_gym as cbg


class KnowsTheAnswer(cbg.Policy):
    """Right with one pull of each agent, and sends what a right answer takes."""

    def solve(self, federation: Any) -> np.ndarray:
        best, k = truth_of(federation).agent_best_arms, federation.problem.n_arms

        def program(block: Any) -> cbg.ArmIndex:
            block.pull(np.arange(len(block)), 0)
            return cbg.ArmIndex(best[block.agents], among=k)

        answer: np.ndarray = federation.local(federation.agents, program)
        return answer


@pytest.mark.parametrize("pulls", [0, 1])
def test_too_good_to_be_true(pulls: int) -> None:
    policy = KnowsTheAnswer() if pulls else Telepath()
    board = cbg.evaluate(
        [policy, "naive"], "ClusteredBAI-PaperSmall-v0", trials=100, n_agents=6, progress=False
    )
    cheat, honest = board.summary.iloc[0], board.summary.iloc[1]
    assert (cheat.errors, cheat.verdict) == (0, "INCONCLUSIVE")
    assert ("lower bound" if pulls else "at most 0 of the lower bound") in cheat.doubt
    assert "cannot PASS" in str(board)
    assert (honest.doubt, honest.verdict) == ("", "PASS")
    report = cbg.audit(policy, cells=["small game"], trials=60, progress=False)
    assert report.word == "FAIL"
    assert "breaks the rules" in report.text


class Pools(cbg.Policy):
    """Sends the best arm of the block's mean: agents of a block share their rewards without sending
    them.
    """

    def solve(self, federation: Any) -> np.ndarray:
        def program(block: Any) -> cbg.ArmIndex:
            averages = block.pull_grid(300)
            centred = averages - averages.mean(axis=0)
            return cbg.ArmIndex(centred.argmax(axis=1), among=block.problem.n_arms)

        answer: np.ndarray = federation.local(federation.agents, program)
        return answer


def test_agents_that_see_each_other_fail_the_audit() -> None:
    report = cbg.audit(Pools(), cells=["small game"], trials=5, progress=False)
    assert report.word == "FAIL"
    assert "blocks of one agent" in report.text
    report = cbg.audit("naive", cells=["small game"], trials=5, progress=False)
    assert report.breaches == ()


def test_answers_that_no_message_carried_cannot_pass() -> None:
    score = cbg.evaluate(
        Leaks("in_a_closure"), TINY, trials=80, strict=False, bound=False, progress=False
    ).summary.iloc[0]
    assert score.errors == 0
    assert score.verdict == "INCONCLUSIVE"
    assert "less than half of the bits" in score.doubt


def test_the_test_of_pulls_cannot_be_switched_off_in_a_kept_run(tmp_path: Path) -> None:
    how: dict[str, Any] = {"trials": 100, "n_agents": 6, "progress": False, "out": tmp_path}
    without = cbg.evaluate(KnowsTheAnswer(), "ClusteredBAI-PaperSmall-v0", bound=False, **how)
    assert "Not checked: pulls against the lower bound" in str(without)
    board = cbg.evaluate(KnowsTheAnswer(), "ClusteredBAI-PaperSmall-v0", **how)
    assert board.summary.iloc[0].verdict == "INCONCLUSIVE"
    assert cbg.Board.load(tmp_path).summary.iloc[0].verdict == "INCONCLUSIVE"
    assert cbg.replay(without.trials.iloc[0], KnowsTheAnswer())["bound"] is None
