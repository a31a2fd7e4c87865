"""Strict mode's copies of programs: every block starts from the centre's values, and nothing comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clustered_bandit_gym import Federation, Instance, Problem, Reals


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


def test_every_block_sees_the_centres_values_and_changes_none(module: str) -> None:
    view, array, notes, texts, number, seen = strict_view(), np.zeros(2), Notes(0), Notes("a"), 0, []

    def program(block: Any) -> Reals:
        nonlocal number
        found = [array[0], notes.value, number, float(hasattr(notes, "more")), float(texts.value == "a")]
        array[0], notes.value, number, texts.value = 5.0, notes.value + 1, number + 1, "b"
        notes.more = texts.more = True  # type: ignore[attr-defined]
        return Reals([found])

    program.__module__ = module
    for step in range(3):
        array[0], notes.value, number = step, 10 + step, 20 + step
        seen.append(view.local(view.agents, program))
        assert (array[0], vars(notes), vars(texts), number) == (step, {"value": 10 + step}, {"value": "a"}, 20 + step)
    assert np.array_equal(seen, [[[step, 10 + step, 20 + step, 0, 1]] * 3 for step in range(3)])


def test_what_the_centre_changes_reaches_the_copies(module: str) -> None:
    """Also a value that equals the one before: 1 and True."""
    view, notes = strict_view(1), Notes(1)

    def program(block: Any) -> Reals:
        kinds = {int: 0, bool: 1, list: 2, str: 3}
        return Reals([float(10 * kinds[type(notes.value)] + len(str(notes.value)))])

    program.__module__ = module
    answers = []
    for notes.value in (1, True, [1], 1, "a", "bc", "a"):
        answers.append(view.local([0], program)[0])
    assert answers == [1, 14, 23, 1, 31, 32, 31]


def test_one_object_under_two_names_stays_one(module: str) -> None:
    view, array = strict_view(1), np.zeros(2)
    same = array

    def program(block: Any) -> Reals:
        array[0] = 1.0
        return Reals(same[:1])

    program.__module__ = module
    assert view.local([0], program).tolist() == [1.0]
    assert array.tolist() == [0.0, 0.0]
