"""Strict mode's copies of programs: every block starts from the centre's values, and nothing comes back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from clustered_bandit_gym import Federation, Instance, Problem, Reals
from clustered_bandit_gym.game.isolation import _Twin


class Notes:
    def __init__(self, value: Any) -> None:
        self.value = value


def strict_view(n_agents: int = 3) -> Any:
    instance = Instance([[1.0, 0.0], [0.0, 1.0]], np.arange(n_agents) % 2)
    federation = Federation(instance, Problem.of(instance, 0.1), seed=0)
    federation.block_size = 1
    return federation.view(strict=True)


@pytest.fixture(params=["clustered_bandit_gym.policies.mine", "mine"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where programs and classes seem to come from: those of the package take a shorter way than those of a user."""
    monkeypatch.setattr(Notes, "__module__", request.param)
    return str(request.param)


def placed(program: Any, module: str) -> Any:
    """The program as one of `module`: what counts is the module of its global variables."""
    names = {**program.__globals__, "__name__": module}
    return FunctionType(program.__code__, names, program.__name__, None, program.__closure__)


def test_every_block_sees_the_centres_values_and_changes_none(module: str) -> None:
    view, array, notes, texts, number, seen = (
        strict_view(),
        np.zeros(2),
        Notes(0),
        Notes("a"),
        0,
        [],
    )

    def program(block: Any) -> Reals:
        nonlocal number
        found = [
            array[0],
            notes.value,
            number,
            float(hasattr(notes, "more")),
            float(texts.value == "a"),
        ]
        array[0], notes.value, number, texts.value = 5.0, notes.value + 1, number + 1, "b"
        notes.more = texts.more = True  # type: ignore[attr-defined]
        return Reals([found])

    there = placed(program, module)
    assert (_Twin.of(there) is not None) == module.startswith("clustered_bandit_gym")
    for step in range(3):
        array[0], notes.value, number = step, 10 + step, 20 + step
        seen.append(view.local(view.agents, there))
        assert (array[0], vars(notes), vars(texts), number) == (
            step,
            {"value": 10 + step},
            {"value": "a"},
            20 + step,
        )
    assert np.array_equal(seen, [[[step, 10 + step, 20 + step, 0, 1]] * 3 for step in range(3)])


def test_what_the_centre_changes_reaches_the_copies(module: str) -> None:
    """Also a value that equals the one before: 1 and True."""
    view, notes = strict_view(1), Notes(1)

    def program(block: Any) -> Reals:
        kinds = {int: 0, bool: 1, list: 2, str: 3}
        return Reals([float(10 * kinds[type(notes.value)] + len(str(notes.value)))])

    there = placed(program, module)
    answers = []
    for notes.value in (1, True, [1], 1, "a", "bc", "a"):
        answers.append(view.local([0], there)[0])
    assert answers == [1, 14, 23, 1, 31, 32, 31]


def test_one_object_under_two_names_stays_one(module: str) -> None:
    view, array = strict_view(1), np.zeros(2)
    same = array

    def program(block: Any) -> Reals:
        array[0] = 1.0
        return Reals(same[:1])

    assert view.local([0], placed(program, module)).tolist() == [1.0]
    assert array.tolist() == [0.0, 0.0]


def test_plays_that_take_turns_keep_their_own_variables(module: str) -> None:
    """Two plays, and threads as well, run the same code with different variables."""

    def numbered(number: int) -> Any:
        array, text = np.full(2, float(number)), Notes(str(number))

        def program(block: Any) -> Reals:
            array[1] += 1
            found = [array[0], array[1] - array[0], float(number), float(text.value)]
            text.value = "-1"
            return Reals([found])

        return program

    names = {**globals(), "__name__": module}

    def play(number: int) -> tuple[Any, Any, float]:
        one = numbered(number)
        return (
            strict_view(2),
            FunctionType(one.__code__, names, "program", None, one.__closure__),
            float(number),
        )

    def answer(one: tuple[Any, Any, float]) -> bool:
        view, program, number = one
        return view.local(view.agents, program).tolist() == [[number, 1.0, number, number]] * 2  # type: ignore[no-any-return]

    plays = [play(number) for number in range(3)]
    for _ in range(3):
        assert all(map(answer, plays))
    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(answer, [play(number) for number in range(30)]))
