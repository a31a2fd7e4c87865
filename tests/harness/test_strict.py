"""Strict mode: what a local program returns is all that it sends."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from cheats import row_of
from harness_players import TINY
from leaks import LEAKS, Leaks

import clustered_bandit_gym as cbg


@pytest.mark.parametrize("how", list(LEAKS))
def test_a_program_cannot_leave_anything_behind(how: str) -> None:
    row = cbg.play(Leaks(how), TINY, strict=False, bound=False)
    assert row["outcome"] == "solved", "the leak works where nothing prevents it"
    assert (row["bits_up"], row["reals_up"]) == (0, 0)
    assert row["suspicious_communication"]
    row = cbg.play(Leaks(how), TINY, strict=True, bound=False)
    assert row["outcome"] in ("wrong", "error")


@pytest.mark.parametrize(
    ("how", "names"),
    [("in_a_closure", "`kept`"), ("bound_append", "`add`"), ("in_a_global", "`FOUND`")],
)
def test_the_author_reads_what_was_changed_in_vain(how: str, names: str) -> None:
    row = cbg.play(Leaks(how), TINY, strict=True, bound=False)
    assert row["message"].endswith(
        f"a local program changed {names}, but programs run on copies; return what the centre needs"
    )


def test_a_board_tells_of_changes_in_vain_without_an_exception() -> None:
    class Preallocates(cbg.Policy):
        def solve(self, federation: Any) -> Any:
            kept = np.zeros((federation.problem.n_agents, federation.problem.n_arms))

            def program(block: Any) -> cbg.Flag:
                kept[block.agents] = block.pull_grid(100)
                return cbg.Flag(np.ones(len(block), dtype=bool))

            federation.local(federation.agents, program)
            return kept.argmax(axis=1)

    board = cbg.evaluate(Preallocates(), TINY, trials=3, n_agents=8, bound=False, progress=False)
    assert set(board.trials["outcome"]) == {"wrong"}
    assert "a local program changed `kept`, but programs run on copies" in str(board)


def test_strict_is_the_default() -> None:
    for function in (cbg.play, cbg.evaluate):
        assert inspect.signature(function).parameters["strict"].default is True
    assert cbg.sweep("random", TINY, trials=1, progress=False).trials["strict"].all()


@pytest.mark.parametrize("name", ["pulls", "pulls_per_agent", "pulls_by_phase", "ledger", "rounds"])
@pytest.mark.parametrize("strict", [False, True])
def test_counts_of_pulls_tell_nothing(name: str, strict: bool) -> None:
    row = row_of(lambda federation: getattr(federation, name), strict=strict)
    assert row["outcome"] == "error"
    assert "has no attribute" in row["message"]


def test_a_program_that_forgets_to_return_is_named() -> None:
    class Forgets(cbg.Policy):
        def solve(self, federation: Any) -> Any:
            def find_best(block: Any) -> None:
                cbg.ArmIndex(block.pull_grid(10).argmax(axis=1), among=block.problem.n_arms)

            return federation.local(federation.agents, find_best)

    for strict in (False, True):
        row = cbg.play(Forgets(), TINY, strict=strict)
        assert "the local program `find_best` returned nothing" in row["message"]


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


def test_strict_mode_reaches_every_trial(tmp_path: Any) -> None:
    players = [Leaks("in_a_closure"), "naive"]
    board = cbg.evaluate(
        players, TINY, trials=3, strict=True, out=tmp_path, bound=False, progress=False
    )
    assert board.trials.strict.all()
    assert not board.trials[board.trials.policy == "Leaks"].correct.any()
    # Kept rows of the other mode are not reused.
    again = cbg.evaluate(
        players, TINY, trials=3, strict=False, out=tmp_path, bound=False, progress=False
    )
    assert again.trials[again.trials.policy == "Leaks"].correct.all()


def test_exceptions_end_the_play() -> None:
    def interrupted(federation: Any) -> None:
        def program(block: Any) -> None:
            raise KeyboardInterrupt("a letter")

        with pytest.raises(KeyboardInterrupt) as caught:
            federation.local([0], program)
        assert caught.value.args == ()

    def wrong_type(federation: Any) -> None:
        with pytest.raises(Exception, match="a local program raised") as caught:
            federation.local([0], lambda block: type("letter", (), {})())
        assert caught.value.__context__ is None

    for cheat in (interrupted, wrong_type):
        assert row_of(cheat, strict=True)["outcome"] == "error"


def test_agents_and_what_is_told_cannot_be_written_to() -> None:
    def through_agents(federation: Any) -> None:
        federation.local(federation.agents, lambda block: block.agents.setflags(write=True))

    def through_the_problem(federation: Any) -> None:
        federation.local(federation.agents, lambda block: vars(block.problem).update(secret=1))

    for cheat in (through_agents, through_the_problem):
        assert row_of(cheat, strict=True)["outcome"] == "error"


def test_values_of_rewards_are_no_letter_box() -> None:
    """The shape and the dtype of a read-only array can be written."""

    class Reshapes(cbg.Policy):
        def solve(self, federation: Any) -> Any:
            def program(block: Any) -> None:
                block.values.shape = (1, 2)

            federation.local(federation.agents, program)
            return np.full(federation.problem.n_agents, federation.reward_values.ndim - 1)

    instance = cbg.Instance([[0.9, 0.1], [0.1, 0.9]], [0, 0, 1], cbg.Bernoulli())
    kwargs = {"instance": instance}
    row = cbg.play(Reshapes(), "ClusteredBAI-v0", bound=False, env_kwargs=kwargs)
    assert row["pulls"] == 0
    assert row["wrong_agents"] == 1, "arm 0 for everybody"


def test_a_program_learns_nothing_from_a_spent_budget() -> None:
    """Its text would tell how many pulls all agents have made; nor can the play go on after it."""

    class Catches(cbg.Policy):
        def solve(self, federation: Any) -> Any:
            def program(block: Any) -> cbg.Payload:
                texts: list[str] = []
                try:
                    block.pull_grid(2**50)
                except cbg.BudgetExceeded as error:
                    texts = [str(one) for one in (error, error.__context__, error.__cause__)]
                told = any("pulls made" in text for text in texts)
                return cbg.Flag(np.full(len(block), told))

            told = federation.local(federation.agents, program)
            assert not told.any()
            return told.astype(int)

    row = cbg.play(Catches(), TINY, bound=False, env_kwargs={"max_pulls": 1000})
    assert row["outcome"] == "budget"
    assert "0 pulls made" in row["message"]
