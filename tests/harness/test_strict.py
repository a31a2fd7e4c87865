"""Strict mode: what a local program returns is all that it sends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cheats import WritesHome, row_of
from harness_players import TINY

import clustered_bandit_gym as cbg

WAYS_HOME = ["closure", "array", "self", "global", "module", "exception", "pulls"]


@pytest.mark.parametrize("where", WAYS_HOME)
def test_a_program_cannot_write_home(where: str) -> None:
    row = cbg.play(WritesHome(where), TINY)
    assert row["outcome"] == "solved", "the cheat works where nothing prevents it"
    assert (row["bits_up"], row["reals_up"]) == (0, 0)
    assert row["suspicious_communication"]
    row = cbg.play(WritesHome(where), TINY, strict=True)
    assert row["outcome"] in ("wrong", "error")


def test_strict_exceptions_carry_nothing_to_the_policy_and_all_to_the_user() -> None:
    seen: list[BaseException] = []

    class Catches(cbg.Policy):
        def solve(self, federation: Any) -> np.ndarray:
            def program(block: Any) -> None:
                raise ValueError(block.pull_grid(10))

            try:
                federation.local(federation.agents, program)
            except Exception as error:
                seen.append(error)
            return np.zeros(federation.problem.n_agents, dtype=int)

    row = cbg.play(Catches(), TINY, strict=True)
    (error,) = seen
    assert error.__context__ is None
    assert error.__cause__ is None
    assert all(isinstance(x, str) for x in error.args)
    assert row["outcome"] == "error"
    assert row["message"].startswith("ValueError: [[")
    assert row["pulls"] == 10 * row["n_agents"] * row["n_arms"]


def test_a_spent_budget_ends_a_strict_play() -> None:
    """Otherwise a policy could ask, order by order, how much of the budget its agents have used."""

    answers: list[str] = []

    class Asks(cbg.Policy):
        def solve(self, federation: Any) -> np.ndarray:
            for times in (10**6, 1):
                try:
                    federation.pull(0, 0, times)
                except Exception as error:
                    answers.append(str(error))
            return np.zeros(federation.problem.n_agents, dtype=int)

    row = cbg.play(Asks(), TINY, strict=True, env_kwargs={"max_pulls": 1000})
    assert row["outcome"] == "budget"
    assert "0 pulls made" in row["message"]
    assert len(answers) == 2
    assert not any("pulls made" in text for text in answers)


def test_programs_send_the_same_form_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    from clustered_bandit_gym.game import federation as module

    monkeypatch.setattr(module, "BLOCK_CELLS", 1)

    def talkative(federation: Any) -> None:
        federation.local(
            federation.agents, lambda block: [cbg.Flag(True)] * (1 + int(block.agents[0] == 2))
        )

    row = row_of(talkative)
    assert row["outcome"] == "error"
    assert "same form" in row["message"]


def test_a_program_pulls_at_its_own_agents_only() -> None:
    row = row_of(
        lambda federation: federation.local(
            [0], lambda block: setattr(block, "agents", federation.agents)
        )
    )
    assert row["outcome"] == "error"
    row = row_of(lambda federation: federation.local([0], lambda block: block.agents.fill(3)))
    assert row["outcome"] == "error"


STRICT_ROWS = [
    "naive", "naive:engine=lucb", "cl-bai", "bai-cl", "bai-cl:confidence=certified", "bai-cl++",
    "bai-cl++:verify=centre", "structured-bai", "uniform", "uniform-glr", "random",
]  # fmt: skip


@pytest.mark.parametrize("name", STRICT_ROWS)
def test_honest_policies_get_the_same_rows_in_strict_mode(name: str) -> None:
    for env, kwargs in ((TINY, {}), ("ClusteredBAI-PaperFlat-v0", {"n_agents": 40, "delta": 0.1})):
        plain, strict = (
            cbg.play(name, env, strict=s, bound=False, env_kwargs=kwargs) for s in (False, True)
        )
        assert (plain.pop("strict"), strict.pop("strict")) == (False, True)
        plain.pop("seconds"), strict.pop("seconds")
        assert plain == strict


def test_strict_mode_reaches_every_trial(tmp_path: Any) -> None:
    players = [WritesHome("closure"), "naive"]
    board = cbg.evaluate(
        players, TINY, trials=3, strict=True, out=tmp_path, bound=False, progress=False
    )
    assert board.trials.strict.all()
    assert not board.trials[board.trials.policy == "WritesHome"].correct.any()
    # Kept rows of the other mode are not reused.
    again = cbg.evaluate(players, TINY, trials=3, out=tmp_path, bound=False, progress=False)
    assert again.trials[again.trials.policy == "WritesHome"].correct.all()
