"""Strict mode: local programs as copies that hold nothing of the centre's.

A closure shares its variables with the function that made it: a program could write its findings into a list of the
centre without sending anything. In strict mode every block of agents runs a copy of the program, with copies
of all variables that it refers to: the return value is the only way back.
"""

from __future__ import annotations

import builtins
import io
import pickle
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import TYPE_CHECKING, Any, NoReturn

import cloudpickle
import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import BudgetExceeded, ProgramFailed
from clustered_bandit_gym.game.payloads import Payload
from clustered_bandit_gym.game.problem import Problem

if TYPE_CHECKING:
    from clustered_bandit_gym.game.block import Block

Answer = Payload | Sequence[Payload] | None

#: Functions of this package keep no state in global variables, so they need no copies of them.
_PACKAGE = __name__.partition(".")[0] + "."
#: Types of what cannot be changed, or is everybody's anyway (classes, modules).
_SHARED = {
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    NoneType,
    type,
    ModuleType,
    BuiltinFunctionType,
    np.ufunc,
    CodeType,
}
_SHARED |= {Problem, np.bool_, np.int64, np.float64}
_SHARED_KINDS = (type, np.generic)
_TEXTS = {str, NoneType}
#: A twin holds arrays of at most this many bytes, and remembers at most so many objects.
_SMALL, _MANY = 2**16, 64


class AgentSide:
    """Replaces the federation in a program that refers to it: holds what every agent is told."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @property
    def agents(self) -> Ints:
        return np.arange(self.problem.n_agents)

    @property
    def arms(self) -> Ints:
        return np.arange(self.problem.n_arms)

    def __getattr__(self, name: str) -> NoReturn:
        hint = "; block.random(...) draws random numbers at the agents" if name == "rng" else ""
        raise AttributeError(
            f"strict mode: a local program cannot use the centre's federation.{name}{hint}"
        )


class Isolation:
    """Runs the local programs of one play as copies, a fresh one in every block.

    Args:
        centre: types whose objects are replaced by `AgentSide` wherever a program mentions them.
        problem: what the learner is told.
        fail: called with the exception that a program raised. The policy gets another one, which carries nothing.
    """

    def __init__(
        self, centre: tuple[type, ...], problem: Problem, fail: Callable[[BaseException], None]
    ) -> None:
        self._centre, self._problem, self._fail = centre, problem, fail
        self._program: Callable[..., Answer] | None = None
        self._twin: _Twin | None = None
        self._cells: tuple[tuple[CellType, CellType], ...] = ()

    def run(self, program: Callable[..., Answer], block: Block, *values: np.ndarray) -> Answer:
        """What a copy of `program` answers; `values` are what was sent to the agents of the block."""
        if program is not self._program:
            self._program, self._twin = program, _Twin.of(program)
            self._cells = () if self._twin is None else self._twin.beside(program)
        copy = None if self._twin is None else self._twin.renewed(self._cells)
        if copy is None:
            copy = _Copier(self._centre, self._problem).copy(program)
        try:
            answer: Answer = copy(block, *[value.copy() for value in values])
            return answer
        except BaseException as error:
            failure = error
        # Not within the handler: there the original would travel along as the context of the new exception.
        self._fail(failure)
        raise ended(failure)


def ended(failure: BaseException) -> BaseException:
    """The exception that a policy gets for `failure` in strict mode: it says what kind it was and nothing else."""
    if isinstance(failure, KeyboardInterrupt):
        return KeyboardInterrupt()
    if isinstance(failure, BudgetExceeded):
        return BudgetExceeded("the budget is spent; in strict mode this ends the play")
    return ProgramFailed("a local program raised an exception; in strict mode this ends the play")


class _Copier:
    """Copies functions with their variables: the result of serialising everything, in a fiftieth of the time."""

    __slots__ = ("_centre", "_made", "_problem")

    def __init__(self, centre: tuple[type, ...], problem: Problem) -> None:
        self._centre, self._problem = centre, problem
        #: Copies by the id of the original, which the program keeps alive: what was one object stays one.
        self._made: dict[int, Any] = {}

    def copy(self, one: Any) -> Any:
        kind: Any = type(one)
        if kind in _SHARED:
            return one
        made = self._made.get(id(one))
        if made is not None:
            return made
        if kind is np.ndarray and not one.dtype.hasobject:
            made = one.copy(order="K")
        elif kind is FunctionType:
            return one if one.__closure__ is None and _is_ours(one) else self._function(one)
        elif kind is MethodType:
            made = MethodType(self.copy(one.__func__), self.copy(one.__self__))
        elif kind is partial:
            made = partial(
                self.copy(one.func), *map(self.copy, one.args), **self.copy(one.keywords)
            )
        elif kind in (tuple, set, frozenset):
            made = kind(self.copy(x) for x in one)
        elif kind is list:
            made = self._made[id(one)] = []
            made.extend(self.copy(x) for x in one)
        elif kind is dict:
            made = self._made[id(one)] = {}
            self._fill(made, one)
        elif kind in self._centre:
            made = AgentSide(self._problem)
        elif isinstance(one, _SHARED_KINDS):
            return one
        elif _is_plain(kind):
            made = self._made[id(one)] = kind.__new__(kind)
            self._fill(made.__dict__, one.__dict__)
        else:
            made = self._serialised(one)
        self._made[id(one)] = made
        return made

    def _fill(self, made: dict[Any, Any], one: dict[Any, Any]) -> None:
        if _SHARED.issuperset(map(type, one.values())) and _SHARED.issuperset(map(type, one)):
            made.update(one)
        else:
            made.update((self.copy(key), self.copy(value)) for key, value in one.items())

    def _function(self, one: FunctionType) -> Any:
        code, variables = one.__code__, one.__closure__
        ours = _is_ours(one)
        names: dict[str, Any] = (
            one.__globals__ if ours else {"__builtins__": builtins, "__name__": one.__module__}
        )
        cells = None if variables is None else tuple([CellType() for _ in variables])
        made = self._made[id(one)] = FunctionType(code, names, one.__name__, None, cells)
        if one.__defaults__:
            made.__defaults__ = self.copy(one.__defaults__)
        if one.__kwdefaults__:
            made.__kwdefaults__ = self.copy(one.__kwdefaults__)
        if not ours:
            names |= {
                name: self.copy(one.__globals__[name])
                for name in _global_names(code)
                if name in one.__globals__
            }
        for cell, variable in zip(cells or (), variables or (), strict=True):
            try:
                value = variable.cell_contents
            except ValueError:  # it has no value yet
                continue
            cell.cell_contents = value if type(value) in _SHARED else self.copy(value)
        return made

    def _serialised(self, one: Any) -> Any:
        file = io.BytesIO()
        try:
            _Pickler(file, self._centre).dump(one)
        except Exception as error:
            raise TypeError(
                f"strict mode: a local program runs as a copy at the agents, but a {type(one).__name__} in it cannot "
                f"be copied ({error}); let it refer to arrays, numbers and functions only"
            ) from error
        file.seek(0)
        return _Unpickler(file, self._problem).load()


class _Twin:
    """A copy of a program that is brought back to the state of the original for every block.

    That is as good as a fresh copy and takes a tenth of the time, for the simple programs that the paper's schemes run
    at one agent after the other: functions of this package whose variables are plain values, small arrays, functions
    without variables, and objects of this package with plain attributes. `_Copier` copies all others.
    """

    __slots__ = ("_cells", "_copy", "_objects")

    def __init__(self, program: FunctionType, n_variables: int) -> None:
        self._cells = tuple(map(CellType, range(n_variables)))
        self._copy = FunctionType(
            program.__code__, program.__globals__, program.__name__, None, self._cells or None
        )
        #: Copies of objects with texts for attributes, by the id of the original. Functions stand for themselves.
        self._objects: dict[int, Any] = {}

    @staticmethod
    def of(program: Any) -> _Twin | None:
        """A twin of `program`, or None where it takes a `_Copier`.

        There is one for each piece of code: the programs of all plays that share the code have the same twin.
        """
        if type(program) is not FunctionType or program.__defaults__ or program.__kwdefaults__:
            return None
        code = program.__code__
        twin = _twins.by_code.get(id(code))
        if twin is None or twin._copy.__globals__ is not program.__globals__:
            if not _is_ours(program):
                return None
            twin = _twins.by_code[id(code)] = _Twin(program, len(program.__closure__ or ()))
        if len(twin._objects) > _MANY:
            twin._objects.clear()
        return twin

    def beside(self, program: Any) -> tuple[tuple[CellType, CellType], ...]:
        """Each variable of the copy, with the program's."""
        return tuple(zip(self._cells, program.__closure__ or (), strict=True))

    def renewed(self, cells: tuple[tuple[CellType, CellType], ...]) -> Any:
        """The copy, with fresh copies of what the program refers to now (`cells`: see `beside`); None where it takes a
        `_Copier`."""
        made: dict[int, Any] = {}
        try:
            for cell, variable in cells:
                value = variable.cell_contents
                kind = type(value)
                if kind not in _SHARED:
                    copy = self._objects.get(id(value))
                    # What no program has changed since it was made need not be made again.
                    if copy is not value and (
                        type(copy) is not kind or copy.__dict__ != value.__dict__
                    ):
                        copy = self._made(value, kind, made)
                        if copy is None:
                            return None
                    value = copy
                cell.cell_contents = value
        except ValueError:  # a variable has no value yet
            return None
        return self._copy

    def _made(self, one: Any, kind: Any, made: dict[int, Any]) -> Any:
        """A copy of `one`, the same wherever it occurs (`made`); None where it takes a `_Copier`."""
        if id(one) in made:
            return made[id(one)]
        if kind is np.ndarray:
            if one.dtype.hasobject or one.nbytes > _SMALL:  # the twin outlives the play
                return None
            copy = made[id(one)] = one.copy(order="K")
            return copy
        if kind is FunctionType:
            if one.__closure__ is not None or not _is_ours(one):
                return None
            self._objects[id(one)] = one
            return one
        if not (kind.__module__.startswith(_PACKAGE) and _is_plain(kind)):
            return None
        state = one.__dict__
        if not (
            _SHARED.issuperset(map(type, state.values())) and _SHARED.issuperset(map(type, state))
        ):
            return None
        copy = made[id(one)] = kind.__new__(kind)
        copy.__dict__.update(state)
        if _TEXTS.issuperset(
            map(type, state.values())
        ):  # other values can be equal and yet differ: 1, 1.0 and True
            self._objects[id(one)] = copy
        return copy


class _Twins(threading.local):
    """The twins of this thread, by the id of their code, which they keep alive; a hash of code takes microseconds."""

    def __init__(self) -> None:
        self.by_code: dict[int, _Twin] = {}


_twins = _Twins()


def _is_ours(function: FunctionType) -> bool:
    """Whether its global variables are those of a module of this package; `__module__` can be set at will."""
    return str(function.__globals__.get("__name__", "")).startswith(_PACKAGE)


@lru_cache(maxsize=1024)
def _is_plain(kind: type) -> bool:
    """Whether objects of the class are their `__dict__` and nothing else, and are copied as such."""
    usual = all(
        getattr(kind, name) is getattr(object, name)
        for name in ("__reduce_ex__", "__reduce__", "__getstate__")
    )
    slots = any(getattr(base, "__slots__", ()) for base in kind.__mro__)
    return usual and not slots and kind.__new__ is object.__new__ and kind.__dictoffset__ != 0


@lru_cache(maxsize=1024)
def _global_names(code: CodeType) -> frozenset[str]:
    """Names that the code, or code within it, may look up as global variables."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return frozenset(code.co_names).union(*map(_global_names, inner))


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, centre: tuple[type, ...]) -> None:
        super().__init__(file)
        self._centre = centre

    def persistent_id(self, obj: object) -> str | None:
        return "federation" if type(obj) in self._centre else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, problem: Problem) -> None:
        super().__init__(file)
        self._problem = problem

    def persistent_load(self, _: str) -> AgentSide:
        return AgentSide(self._problem)
