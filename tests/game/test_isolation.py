"""Strict mode's copies of programs: every block starts from the centre's values, and nothing comes back."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym import Federation, Instance, Problem, Reals
from clustered_bandit_gym.errors import ProgramFailed
from clustered_bandit_gym.game import isolation


class Notes:
    def __init__(self, value: Any) -> None:
        self.value = value


def strict_view(n_agents: int = 3) -> Any:
    instance = Instance([[1.0, 0.0], [0.0, 1.0]], np.arange(n_agents) % 2)
    federation = Federation(instance, Problem.of(instance, 0.1), seed=0)
    federation.block_size = 1
    return federation.view(strict=True)


def test_every_block_sees_the_centres_values_and_changes_none() -> None:
    view, array, notes, number = strict_view(), np.zeros(2), Notes(0), 0
    seen = []

    def program(block: Any) -> Reals:
        nonlocal number
        found = [array[0], notes.value, number, float(hasattr(notes, "more"))]
        array[0] = 5.0
        notes.value += 1
        number += 1
        notes.more = True  # type: ignore[attr-defined]
        return Reals([found])

    for step in range(3):
        array[0], notes.value, number = step, 10 + step, 20 + step
        seen.append(view.local(view.agents, program))
        assert (array[0], vars(notes), number) == (step, {"value": 10 + step}, 20 + step)
    assert np.array_equal(seen, [[[step, 10 + step, 20 + step, 0]] * 3 for step in range(3)])


#: Used nowhere but in the body of a class inside of a program.
WEIGHTS = (3.0, 4.0)


def test_the_body_of_a_class_finds_global_names() -> None:
    view = strict_view(1)

    def program(block: Any) -> Reals:
        class Scores:
            total = sum(WEIGHTS)

        return Reals([[Scores.total]])

    assert view.local(view.agents, program) == 7.0


def test_one_object_under_two_names_stays_one() -> None:
    view, array = strict_view(1), np.zeros(2)
    same = array

    def program(block: Any) -> Reals:
        array[0] = 1.0
        return Reals(same[:1])

    assert view.local([0], program).tolist() == [1.0]
    assert array.tolist() == [0.0, 0.0]


def test_a_program_that_refers_to_the_federation_sees_the_agents_side() -> None:
    view = strict_view(2)

    def told(block: Any) -> Reals:
        return Reals([view.problem.delta + len(view.agents) + len(view.arms)])

    assert view.local([0], told).tolist() == pytest.approx([4.1])
    with pytest.raises(ProgramFailed):
        view.local([0], lambda block: view.pull(0, 0))
    assert "cannot use the centre's federation" in str(view._play.failure)


@pytest.mark.parametrize("kind", ["method", "generator", "federation", "own"])
def test_generators_of_the_centre_are_refused_with_a_hint(kind: str) -> None:
    """As copies they would repeat their draws in every block."""
    view = strict_view(2)
    rng = np.random.default_rng(0) if kind == "own" else view.rng
    draw = rng.random

    def program(block: Any) -> Reals:
        if kind == "federation":
            return Reals([view.rng.random()])
        return Reals([rng.random()])

    def by_method(block: Any) -> Reals:
        return Reals([draw()])

    with pytest.raises(Exception, match="a local program raised"):
        view.local(view.agents, by_method if kind == "method" else program)
    assert "block.random" in str(view._play.failure)


def test_a_program_that_cannot_be_copied_says_why() -> None:
    view = strict_view()
    numbers = (x for x in range(3))
    with pytest.raises(Exception, match="raised an exception"):
        view.local(view.agents, lambda block: Reals([next(numbers)]))
    failure = str(view._play.failure)
    assert "cannot pickle 'generator' object" in failure
    assert "programs run on copies; return what the centre needs" in failure


class ByName:
    """An object that pickles itself by its name."""

    def __reduce__(self) -> str:
        return "BY_NAME"


BY_NAME: Any = ByName()


def test_an_object_that_pickles_itself_by_its_name_is_no_letter_box() -> None:
    view = strict_view()

    def program(block: Any) -> None:
        BY_NAME.found = block.pull_grid(10)

    with pytest.raises(ProgramFailed):
        view.local(view.agents, program)
    assert "BY_NAME cannot be copied" in str(view._play.failure)
    assert not hasattr(BY_NAME, "found")


MINE = """
__name__ = "clustered_bandit_gym.mine"
FOUND = []

def program(block):
    FOUND.append(block.pull_grid(10))
"""


@pytest.mark.parametrize("registered", [False, True])
def test_a_module_that_takes_a_name_of_the_package_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: bool
) -> None:
    (tmp_path / "forged.py").write_text(MINE)
    spec = importlib.util.spec_from_file_location("forged", tmp_path / "forged.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "forged", module)
    if registered:
        monkeypatch.setitem(sys.modules, "clustered_bandit_gym.mine", module)
    spec.loader.exec_module(module)
    view = strict_view()
    view.local(view.agents, module.program)
    assert module.FOUND == []


POLICIES = [
    "naive", "naive:engine=lucb", "naive:engine=mixture", "cl-bai", "bai-cl", "bai-cl:confidence=certified",
    "bai-cl++", "bai-cl++:verify=centre", "structured-bai", "frugal-bai", "uniform", "uniform-glr",
]  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
def test_programs_of_the_package_keep_the_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not copied. As copies they do the same: they neither share variables nor keep anything."""
    kwargs: dict[str, Any] = {"bound": False, "env_kwargs": {"n_agents": 12, "delta": 0.1}}
    with monkeypatch.context() as patch:
        patch.delattr(isolation.Isolation, "_dumped")
        plain = cbg.play(name, "ClusteredBAI-PaperFlat-v0", strict=True, **kwargs)
    monkeypatch.setattr(isolation, "is_ours", lambda program: False)
    copied = cbg.play(name, "ClusteredBAI-PaperFlat-v0", strict=True, **kwargs)
    assert plain["outcome"] in ("solved", "wrong")
    assert {**plain, "seconds": 0} == {**copied, "seconds": 0}


def test_a_users_subclass_of_a_policy_runs_as_a_copy() -> None:
    """A program of the package that calls a method of the user's."""
    from clustered_bandit_gym.policies import BAICl

    found: list[Any] = []

    class Mine(BAICl):
        @staticmethod
        def _describe(block: Any, arm: int) -> Any:
            found.append(arm)
            return ()

    for strict in (False, True):
        found.clear()
        row = cbg.play(Mine(), "ClusteredBAI-PaperSmall-v0", strict=strict, bound=False)
        assert row["outcome"] == "solved"
        assert bool(found) != strict


def test_what_the_agents_are_told_is_no_letter_box() -> None:
    view = strict_view()
    view.local(view.agents, lambda block: object.__setattr__(block.problem, "delta", 0.7))
    assert view.problem.delta == 0.1


def test_what_one_block_is_told_is_no_letter_box_for_the_next() -> None:
    view = strict_view()

    def program(block: Any) -> Reals:
        before = block.problem.delta
        object.__setattr__(block.problem, "delta", 0.7)
        return Reals(np.full((1, 1), before))

    seen = view.local(view.agents, program).ravel().tolist()
    assert seen == pytest.approx([0.1] * view.problem.n_agents)


def test_a_cached_helper_of_the_program_is_copied_with_it() -> None:
    @functools.cache
    def twice(n: int) -> int:
        return 2 * n

    view = strict_view()
    found = view.local(view.agents, lambda block: cbg.Symbol(np.full(len(block), twice(3)), 8))
    assert found.tolist() == [6] * view.problem.n_agents


def test_a_copied_class_keeps_an_attribute_that_another_base_has_first() -> None:
    class Base:
        times = 3

    class First(Base):
        pass

    class Second:
        times = 5

    class Both(First, Second):
        times = Second.times

    view = strict_view()
    found = view.local(view.agents, lambda block: cbg.Symbol(np.full(len(block), Both.times), 8))
    assert found.tolist() == [5] * view.problem.n_agents


def test_the_package_is_known_by_its_folders() -> None:
    assert Path(cbg.__file__).parent in isolation.package_folders()
    assert isolation.is_own(cbg.policies.NaiveSE.solve.__code__.co_filename)
    assert not isolation.is_own(__file__)
    assert not isolation.is_installed(__file__)
    assert all(map(isolation.is_installed, (os.__file__, np.__file__, cbg.__file__)))


def test_a_file_name_of_the_package_proves_nothing() -> None:
    """A program that is compiled under a name of the package's files has variables of its own."""
    source = "def program(block):\n    found.append(block.pull_grid(1))\n"
    names: dict[str, Any] = {"found": [], "__name__": isolation.__name__}
    exec(compile(source, isolation.__file__, "exec"), names)
    view = strict_view(2)
    view.local(view.agents, names["program"])
    assert names["found"] == []
