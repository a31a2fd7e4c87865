"""Further ways to get more out of a local program than it sends: each is closed, or ends the play."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from harness_players import TINY

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError

LETTERS: list[int] = []


def writes_down(block: Any, number: int = 7) -> None:
    """A program with a global variable."""
    LETTERS.append(number)


class Plays(cbg.Policy):
    """Runs a function with the federation, then guesses arm 0 after one pull."""

    def __init__(self, cheat: Any) -> None:
        self._cheat = cheat

    def solve(self, federation: Any) -> np.ndarray:
        self._cheat(federation)
        federation.pull(0, 0)
        return np.zeros(federation.problem.n_agents, dtype=int)


def outcome(cheat: Any) -> str:
    LETTERS.clear()
    return str(cbg.play(Plays(cheat), TINY, strict=True)["outcome"])


def test_checked_values_and_prices_stay_as_they_were_checked() -> None:
    for payload in (
        cbg.ArmSubset(np.ones((1, 3), dtype=bool)),
        cbg.Symbol(np.array([0]), among=1),
        cbg.Quantised(np.array([0.0]), grid=[0.0], rounding="up"),
        cbg.ArmIndex(np.array([1]), among=3),
        cbg.ArmSet(np.zeros((1, 3), dtype=bool), at_most=0),
    ):
        for array in (payload.values, payload.bits):
            if isinstance(array, np.ndarray):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.setflags(write=True)
    assert cbg.Flag(np.array([200], dtype=np.uint8).view(bool)).values.view(np.uint8)[0] == 1
    with pytest.raises(UserError, match="whole number"):
        cbg.Symbol([3], among=6.5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="complex"):
        cbg.Reals([1j])


def test_a_set_that_depends_on_rewards_is_not_known_to_both_sides() -> None:
    """Found wherever agents run in several blocks, as in the audit's plays with one agent in each."""
    instance = cbg.Instance(np.eye(3), np.arange(3))
    play = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=0)
    play.block_size = 1
    best = lambda block: block.pull_grid(10**6).argmax(axis=1)  # noqa: E731
    with pytest.raises(UserError, match="among"):
        play.local(play.agents, lambda block: cbg.ArmIndex(best(block), among=best(block)))
    with pytest.raises(UserError, match="grid"):
        play.local(
            play.agents, lambda b: cbg.Quantised(best(b), grid=best(b).astype(float), rounding="up")
        )
    assert play.local(
        play.agents, lambda block: cbg.ArmIndex(best(block), among=np.arange(3))
    ).tolist() == [0, 1, 2]


def test_agents_and_what_is_told_cannot_be_written_to() -> None:
    def through_agents(federation: Any) -> None:
        federation.local(federation.agents, lambda block: block.agents.setflags(write=True))

    def through_the_problem(federation: Any) -> None:
        federation.local(federation.agents, lambda block: vars(block.problem).update(secret=1))

    assert outcome(through_agents) == outcome(through_the_problem) == "error"
    with pytest.raises(ValueError, match="WRITEABLE"):
        cbg.Federation(cbg.Instance(np.eye(3), [0]), cbg.Problem(1, 3, 1, 0.1)).agents.setflags(
            write=True
        )


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

    assert outcome(interrupted) == outcome(wrong_type) == "error"


def test_programs_by_other_names_are_copies() -> None:
    def by_partial(federation: Any) -> None:
        federation.local([0], functools.partial(writes_down, number=8))

    def in_a_set(federation: Any) -> None:
        programs = frozenset([writes_down])
        federation.local([0], lambda block: next(iter(programs))(block))

    def under_another_name(federation: Any) -> None:
        federation.local([0], functools.wraps(cbg.play)(writes_down))

    writes_down.__module__, own = writes_down.__module__, writes_down.__module__
    for cheat in (by_partial, in_a_set, under_another_name):
        assert outcome(cheat) in ("wrong", "solved")
        assert LETTERS == []
        writes_down.__module__ = own
