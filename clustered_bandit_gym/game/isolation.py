"""Strict mode: local programs run as copies, so that what they return is all that comes back.

A closure shares its variables with the function that made it: a program could write its findings
into a list of the centre without sending anything. In strict mode every block of agents runs a
copy. The program is serialised with everything that it refers to, the user's functions, classes and
modules by value, and loaded again. Programs of this package are not copied: they cost nothing, and
tests play them as copies.

This protects against mistakes and shortcuts. A program that sets out to break the rules can still
write to a file, to `sys`, or to the objects of an installed library.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from types import CellType, FunctionType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from cloudpickle import cloudpickle

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import BudgetExceeded, ProgramFailed
from clustered_bandit_gym.game.problem import Problem

if TYPE_CHECKING:
    from clustered_bandit_gym.game.block import Block

Program = Callable[..., Any]

COPIES = "programs run on copies; return what the centre needs"
_RANDOM = "; block.random(...) draws random numbers at the agents"
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
#: Types of values that a program of this package may refer to without being copied.
_PLAIN = {bool, int, float, complex, str, bytes, NoneType, Problem, np.bool_, np.int64, np.float64}


class AgentSide:
    """Replaces the federation in a copied program: holds what every agent is told."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @property
    def agents(self) -> Ints:
        return np.arange(self.problem.n_agents)

    @property
    def arms(self) -> Ints:
        return np.arange(self.problem.n_arms)

    def __getattr__(self, name: str) -> NoReturn:
        hint = _RANDOM if name == "rng" else ""
        raise AttributeError(
            f"strict mode: a local program cannot use the centre's federation.{name}{hint}"
        )


class CentreGenerator:
    """Replaces a random generator of the centre in a copied program, where it would repeat its
    draws."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"strict mode: a local program cannot draw from a generator of the centre (.{name}){_RANDOM}"
        )


class Isolation:
    """Runs the local programs of one play as copies.

    Args:
        centre: types whose objects are replaced by `AgentSide` wherever a program refers to them.
        problem: what the learner is told.
        fail: called with the exception that a program raised. The policy gets another one, which
            carries nothing.
    """

    def __init__(
        self,
        centre: tuple[type, ...],
        problem: Problem,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._centre, self._problem, self._fail = centre, problem, fail
        #: The serialised program and the copy that ran last, by the program's name.
        self._ran: dict[str, tuple[bytes, Program]] = {}

    def wrap(self, program: Program) -> Program:
        """`program` as `Federation.local` is to run it: a fresh copy in each block."""
        data = None if is_ours(program) else self._serialised(program)

        def run(block: Block, *values: np.ndarray) -> Any:
            try:
                if data is None:
                    return program(block, *values)
                copy = _Loader(io.BytesIO(data)).load()
                self._ran[run.__name__] = data, copy
                return copy(block, *[value.copy() for value in values])
            except BaseException as error:
                failure = error
            # Outside the handler: inside, the original would be the context of the new exception.
            self._fail(failure)
            raise ended(failure)

        run.__name__ = getattr(program, "__name__", type(program).__name__)
        run.__wrapped__ = program  # type: ignore[attr-defined]
        return run

    def lost(self) -> str:
        """Which variables the programs changed in vain, as a hint for the author; "" for none."""
        names: set[str] = set()
        for data, copy in self._ran.values():
            before = dict(_variables(_Loader(io.BytesIO(data)).load()))
            for name, value in _variables(copy):
                if name not in before or self._differ(before[name], value):
                    names.add(f"`{name}`")
        changed = ", ".join(sorted(names))
        return f"a local program changed {changed}, but {COPIES}" if names else ""

    def _differ(self, one: Any, other: Any) -> bool:
        try:
            return self._dumped(one) != self._dumped(other)
        except Exception:  # it was given something that cannot be copied
            return True

    def _dumped(self, value: Any) -> bytes:
        file = io.BytesIO()
        _Copier(file, self._centre, self._problem).dump(value)
        return file.getvalue()

    def _serialised(self, program: Program) -> bytes:
        try:
            return self._dumped(program)
        except Exception as error:
            name, reason = self._culprit(program, error)
            raise TypeError(
                f"strict mode: the local program refers to {name}, which cannot be copied "
                f"({reason}): {COPIES}"
            ) from error

    def _culprit(self, program: Program, error: Exception) -> tuple[str, Exception]:
        """The variable of `program` that cannot be serialised, and why."""
        for name, value in _variables(program):
            try:
                self._dumped(value)
            except Exception as reason:
                return f"`{name}` ({type(value).__name__})", reason
        return f"a {type(program).__name__}", error


def ended(failure: BaseException) -> BaseException:
    """What a policy gets for `failure` in strict mode: it says what kind it was and nothing else."""
    if isinstance(failure, KeyboardInterrupt):
        return KeyboardInterrupt()
    if isinstance(failure, BudgetExceeded):
        return BudgetExceeded("the budget is spent; in strict mode this ends the play")
    return ProgramFailed("a local program raised an exception; in strict mode this ends the play")


# --- what is copied ------------------------------------------------------------------------------


def is_ours(value: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Whether `value` and what it refers to are code of this package and plain data."""
    kind = type(value)
    if kind in _PLAIN or id(value) in seen:
        return True
    if kind is np.ndarray:
        return not value.dtype.hasobject
    seen |= {id(value)}
    if kind is FunctionType:
        if not _is_our_function(value):
            return False
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        parts = [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif kind is partial:
        parts = [value.func, *value.args, *value.keywords.values()]
    elif kind is MethodType:
        parts = [value.__func__, value.__self__]
    elif kind in (tuple, list):
        parts = list(value)
    elif kind is dict:
        parts = [*value, *value.values()]
    elif _is_our_class(kind):  # type: ignore[arg-type]
        parts = list(getattr(value, "__dict__", {}).values())
    else:
        return False
    return all(is_ours(part, seen) for part in parts)


def _is_our_function(function: FunctionType) -> bool:
    """By its file and by the identity of its global variables: a module's `__name__` proves
    nothing."""
    module = sys.modules.get(function.__globals__.get("__name__", ""))
    own_globals = module is not None and vars(module) is function.__globals__
    return own_globals and function.__code__.co_filename.startswith(_package_folders())


@lru_cache(maxsize=1024)
def _is_our_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) or ""
    return file.startswith(_package_folders()) and getattr(module, kind.__name__, None) is kind


@cache
def _package_folders() -> tuple[str, ...]:
    """The folders of this package; the policies may live in another one."""
    root = __name__.partition(".")[0]
    specs = [importlib.util.find_spec(name) for name in (root, f"{root}.policies")]
    places = {place for spec in specs if spec for place in spec.submodule_search_locations or ()}
    return tuple(place + os.sep for place in places)


@lru_cache(maxsize=4096)
def _is_installed(file: str) -> bool:
    """Whether the file belongs to this package, the standard library or an installed one."""
    return (
        file.startswith((*_package_folders(), _STANDARD_LIBRARY, "<frozen "))
        or f"{os.sep}site-packages{os.sep}" in file
        or f"{os.sep}dist-packages{os.sep}" in file
    )


def _is_foreign(module: ModuleType | None) -> bool:
    """Whether the module is the user's: its functions, classes and variables are copied."""
    if module is None or module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ not in sys.builtin_module_names and module.__spec__ is None
    return not _is_installed(file)


def _variables(program: Any) -> Iterator[tuple[str, Any]]:
    """The variables that a program refers to, by name."""
    if isinstance(program, FunctionType):
        for name, cell in zip(program.__code__.co_freevars, program.__closure__ or (), strict=True):
            if cell != CellType():  # it has a value
                yield name, cell.cell_contents
        for name in program.__code__.co_names:
            if name in program.__globals__:
                yield name, program.__globals__[name]
    elif isinstance(program, MethodType):
        yield from _variables(program.__func__)
        yield "self", program.__self__
    elif isinstance(program, partial):
        yield from _variables(program.func)
        yield from program.keywords.items()
    else:
        yield from getattr(program, "__dict__", {}).items()


# --- how it is copied ----------------------------------------------------------------------------


class _Copier(cloudpickle.Pickler):  # type: ignore[misc]
    """Serialises by value what is not installed, and keeps objects of the centre out."""

    def __init__(self, file: io.BytesIO, centre: tuple[type, ...], problem: Problem) -> None:
        super().__init__(file)
        self._centre, self._problem = centre, problem

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, self._centre):
            return AgentSide, (self._problem,)
        if isinstance(getattr(obj, "__self__", None), _GENERATORS):
            raise TypeError(f"a generator of the centre{_RANDOM}")
        if isinstance(obj, _GENERATORS):
            return CentreGenerator, ()
        if isinstance(obj, ModuleType) and _is_foreign(obj):
            state = {name: value for name, value in vars(obj).items() if name not in _LOADING}
            return ModuleType, (obj.__name__,), state, None, None, _fill
        if isinstance(obj, FunctionType) and not _is_installed(obj.__code__.co_filename):
            return self._dynamic_function_reduce(obj)
        if type(obj) is _CACHED:
            return _cached_again, (obj.__wrapped__, obj.cache_parameters())
        if not isinstance(obj, type):
            return super().reducer_override(obj)
        with _by_value(sys.modules.get(obj.__module__)):
            made = super().reducer_override(obj)
        if isinstance(made, tuple) and made[0].__name__.startswith("_make_skeleton"):
            # Without the id by which cloudpickle would find the original class in this process.
            maker, arguments, *rest = made
            made = (maker, (*arguments[:-2], None, arguments[-1]), *rest)
        return made


@contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    """Inside, cloudpickle copies classes of `module`, if it is the user's."""
    with _REGISTRY:
        own = (
            module is not None
            and _is_foreign(module)
            and sys.modules.get(module.__name__) is module
        )
        if own:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            if own:
                cloudpickle.unregister_pickle_by_value(module)


_LOADING = ("__builtins__", "__loader__", "__spec__", "__cached__")
_REGISTRY = threading.Lock()
_CACHED = type(lru_cache(maxsize=1)(len))


def _fill(module: ModuleType, variables: dict[str, Any]) -> None:
    """Give a copied module its variables; after it was made, since they may refer to it."""
    vars(module).update(variables, __builtins__=_BUILTINS)


def _cached_again(function: Any, parameters: dict[str, Any]) -> Any:
    """A copy of what `lru_cache` makes, with an empty cache."""
    return lru_cache(**parameters)(function)


class _Loader(pickle.Unpickler):
    """Makes the copy. Nothing of a user's module comes in by reference."""

    def find_class(self, module: str, name: str) -> Any:
        if module == cloudpickle.__name__ and name == "_make_function":
            return _make_function
        found = super().find_class(module, name)
        if _is_foreign(sys.modules.get(module)):
            raise pickle.UnpicklingError(f"strict mode: {module}.{name} cannot be copied: {COPIES}")
        return found


def _make_function(code: Any, names: dict[str, Any], *rest: Any) -> FunctionType:
    names["__builtins__"] = _BUILTINS
    return FunctionType(code, names, *rest)


def _import(name: str, names: Any = None, *rest: Any) -> ModuleType:
    """`import` within a copied program; the user's own modules are copied only if imported outside."""
    found = builtins.__import__(name, names, *rest)
    level = rest[2] if len(rest) > 2 else 0
    whole = importlib.util.resolve_name("." * level + name, (names or {}).get("__package__"))
    if _is_foreign(sys.modules.get(whole)):
        raise ImportError(
            f"strict mode: import {whole} at the top of the file, not within a local program: {COPIES}"
        )
    return found


_BUILTINS = {**vars(builtins), "__import__": _import}
