"""Local programs that leave their findings, unsent, where the centre might look.

Each function of `LEAKS` gets the policy and the federation and returns a program and a function that
reads what the program has left: a list, empty if nothing arrived.
"""

from __future__ import annotations

import enum
import functools
import operator
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import leaks as this_module
import numpy as np
import unpacked.notes

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.frugal.settings import top_up
from clustered_bandit_gym.policies.sequential.cells import Cells
from clustered_bandit_gym.policies.sequential.scales import Scales

FOUND: list[Any] = []
Leak = tuple[Callable[..., Any], Callable[[], Any]]


def best(block: Any) -> np.ndarray:
    return block.pull_grid(1000).argmax(axis=1)  # type: ignore[no-any-return]


def in_a_closure(policy: Any, federation: Any) -> Leak:
    kept: list[Any] = []

    def program(block: Any) -> None:
        kept.append(best(block))

    return program, lambda: kept


def in_an_array(policy: Any, federation: Any) -> Leak:
    array = np.full(federation.problem.n_agents, -1)

    def program(block: Any) -> None:
        array[:] = best(block)

    return program, lambda: [array] if array.min() >= 0 else []


def by_nonlocal(policy: Any, federation: Any) -> Leak:
    kept = None

    def program(block: Any) -> None:
        nonlocal kept
        kept = best(block)

    return program, lambda: [] if kept is None else [kept]


def in_self(policy: Any, federation: Any) -> Leak:
    policy.kept = []

    def program(block: Any) -> None:
        policy.kept.append(best(block))

    return program, lambda: policy.kept


def in_a_global(policy: Any, federation: Any) -> Leak:
    def program(block: Any) -> None:
        FOUND.append(best(block))

    return program, lambda: FOUND


def module_level_program(block: Any) -> None:
    FOUND.append(best(block))


def of_a_module(policy: Any, federation: Any) -> Leak:
    return module_level_program, lambda: FOUND


def in_a_module_by_name(policy: Any, federation: Any) -> Leak:
    def program(block: Any) -> None:
        this_module.FOUND.append(best(block))

    return program, lambda: FOUND


def in_an_imported_module(policy: Any, federation: Any) -> Leak:
    def program(block: Any) -> None:
        import leaks

        leaks.FOUND.append(best(block))

    return program, lambda: FOUND


def bound_append(policy: Any, federation: Any) -> Leak:
    found: list[Any] = []
    add = found.append
    return lambda block: add(best(block)), lambda: found


def through_a_method(policy: Any, federation: Any) -> Leak:
    return lambda block: policy.note(best(block)), lambda: FOUND


class Callable_:
    found: list[Any]

    def __init__(self) -> None:
        self.found = []

    def __call__(self, block: Any) -> None:
        self.found.append(best(block))

    @staticmethod
    def static(block: Any) -> None:
        FOUND.append(best(block))


def callable_object(policy: Any, federation: Any) -> Leak:
    program = Callable_()
    return program, lambda: program.found


def bound_method(policy: Any, federation: Any) -> Leak:
    program = Callable_()
    return program.__call__, lambda: program.found


def static_method(policy: Any, federation: Any) -> Leak:
    return Callable_.static, lambda: FOUND


def local_class(policy: Any, federation: Any) -> Leak:
    class Notes:
        found: list[Any] = []

        @classmethod
        def add(cls, one: Any) -> None:
            cls.found = [*cls.found, one]

    return lambda block: Notes.add(best(block)), lambda: Notes.found


class Board:
    found: list[Any] = []


def class_attribute(policy: Any, federation: Any) -> Leak:
    Board.found = []

    def program(block: Any) -> None:
        Board.found = [best(block)]

    return program, lambda: Board.found


def partial_setdefault(policy: Any, federation: Any) -> Leak:
    found: dict[str, Any] = {}
    note = functools.partial(found.setdefault, "best")

    def program(block: Any) -> None:
        note(best(block))

    return program, lambda: list(found.values())


def partial_program(policy: Any, federation: Any) -> Leak:
    found: list[Any] = []
    return functools.partial(_into, found=found), lambda: found


def _into(block: Any, found: list[Any]) -> None:
    found.append(best(block))


def send_to_a_generator(policy: Any, federation: Any) -> Leak:
    found: list[Any] = []

    def collect() -> Any:
        while True:
            found.append((yield))

    gen = collect()
    next(gen)
    send = gen.send

    def program(block: Any) -> None:
        send(best(block))

    return program, lambda: found


class Colour(enum.Enum):
    RED = 1


def enum_member(policy: Any, federation: Any) -> Leak:
    red: Any = Colour.RED
    red.found = []

    def program(block: Any) -> None:
        red.found = [best(block)]

    return program, lambda: red.found


def numpy_function(policy: Any, federation: Any) -> Leak:
    found: list[Any] = []
    add = np.frompyfunc(lambda x: found.append(x), 1, 1)

    def program(block: Any) -> None:
        add(best(block))

    return program, lambda: [np.array(found)] if found else []


def default_argument(policy: Any, federation: Any) -> Leak:
    found: list[Any] = []

    def program(block: Any, found: list[Any] = found) -> None:
        found.append(best(block))

    return program, lambda: found


def function_attribute(policy: Any, federation: Any) -> Leak:
    def program(block: Any) -> None:
        program.found = [best(block)]  # type: ignore[attr-defined]

    return program, lambda: getattr(program, "found", [])


@functools.lru_cache
def store() -> list[Any]:
    return []


def cached_function(policy: Any, federation: Any) -> Leak:
    store.cache_clear()
    return lambda block: store().append(best(block)), lambda: store()


def weak_proxy(policy: Any, federation: Any) -> Leak:
    found: list[Any] = []

    def program(block: Any) -> None:
        found.append(best(block))

    policy.program = program  # a proxy alone does not keep it
    return weakref.proxy(program), lambda: found


class Adds:
    """Adding an array of it to a block is a program."""

    __array_priority__ = 1

    def __add__(self, block: Any) -> None:
        FOUND.append(best(block))


def array_of_objects(policy: Any, federation: Any) -> Leak:
    adds = np.empty((), dtype=object)
    adds[()] = Adds()
    return functools.partial(operator.add, adds), lambda: FOUND


def in_a_folder_without_init(policy: Any, federation: Any) -> Leak:
    notes = unpacked.notes.FOUND
    notes.clear()
    return lambda block: unpacked.notes.FOUND.append(best(block)), lambda: notes


def code_of_the_package(policy: Any, federation: Any) -> Leak:
    p = federation.problem
    cells = Cells(p.sigma, Scales(100.0, 0.1), np.zeros((p.n_agents, p.n_arms, 1)))
    read = lambda: [cells.mean.argmax(axis=1)] if cells.n.any() else []  # noqa: E731
    return functools.partial(top_up, cells=cells, goal=1000.0), read


def type_variable(policy: Any, federation: Any) -> Leak:
    variable: Any = TypeVar("variable")  # type: ignore[misc]

    def program(block: Any) -> None:
        variable.found = best(block)

    return program, lambda: [variable.found] if hasattr(variable, "found") else []


LEAKS: dict[str, Callable[[Any, Any], Leak]] = {
    one.__name__: one
    for one in (
        in_a_closure, in_an_array, by_nonlocal, in_self, in_a_global, of_a_module, in_a_module_by_name,
        in_an_imported_module, bound_append, through_a_method, callable_object, bound_method, static_method,
        local_class, class_attribute, partial_setdefault, partial_program, send_to_a_generator, enum_member,
        numpy_function, default_argument, function_attribute, cached_function, weak_proxy,
        array_of_objects, in_a_folder_without_init, code_of_the_package, type_variable,
    )
}  # fmt: skip


class Leaks(cbg.Policy):
    """Answers with what its program has left behind; arm 0 for everybody if nothing arrived."""

    def __init__(self, how: str = "in_a_closure") -> None:
        self.how = how

    def note(self, one: Any) -> None:
        FOUND.append(one)

    def solve(self, federation: Any) -> np.ndarray:
        FOUND.clear()
        program, read = LEAKS[self.how](self, federation)
        federation.local(federation.agents, program)
        found = read()
        return found[0].astype(int) if found else np.zeros(federation.problem.n_agents, dtype=int)
