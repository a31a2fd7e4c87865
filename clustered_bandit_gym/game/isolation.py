"""Strict mode: local programs run as copies, so that what they return is all that comes back.

A closure shares its variables with the function that made it: a program could write its findings
into a list of the centre without sending anything. In strict mode every block of agents runs a
copy. cloudpickle serialises the program with everything that it refers to, the user's functions,
classes and modules by value. Programs of this package's policies are not copied; tests play them
as copies.

This protects against mistakes and shortcuts. A program that sets out to break the rules can still
write to a file, to `sys`, or to the objects of an installed library.
"""

from __future__ import annotations

import builtins
import dis
import gc
import inspect
import io
import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper, cache, lru_cache, partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, NoReturn, TypeVar

import numpy as np
from cloudpickle.cloudpickle import Pickler, _dynamic_class_reduce, _lookup_module_and_qualname

from clustered_bandit_gym._types import Array, Values
from clustered_bandit_gym.game.problem import Problem

Program = Callable[..., Any]

COPIES = "programs run on copies; return what the centre needs"
GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
#: Types of data, and of what only holds things that the garbage collector shows.
_DATA = {
    *(NoneType, bool, int, float, complex, str, bytes, np.bool_, np.int64, np.float64),
    *(tuple, list, dict, CellType, MethodType, partial),
}
#: Flag of classes that are made at run time, as by a class statement.
_HEAP_TYPE = 1 << 9


class Isolation:
    """Makes and remembers the copies of one play.

    Args:
        federation: what the policy holds; a program that refers to it gets an `AtCentre`.
        policy: who plays. Only in the hands of this package's own policies is its code trusted with
            data of the centre, which it could change.
    """

    def __init__(self, federation: Any, policy: object) -> None:
        self._federation = federation
        self._trusts = is_own(file_of(home(type(policy))))
        #: The serialised program and the copy that ran last, by the program's name.
        self._ran: dict[str, tuple[bytes, Program]] = {}

    def isolated(self, program: Program) -> Program:
        """`program` as `Federation.local` is to run it: a fresh copy in each block."""
        if self._trusts and is_ours(program):
            return program
        try:
            data = self._dumped(program)
        except Exception as error:
            raise TypeError(f"the local program cannot be copied ({error}): {COPIES}") from error
        name = program_name(program)

        def run(block: Any, *values: Array) -> Any:
            copy = Loader(io.BytesIO(data)).load()
            self._ran[name] = data, copy
            return copy(block, *[value.copy() for value in values])

        return run

    def lost(self) -> str:
        """Which variables the programs changed in vain, as a hint for the author; "" for none."""
        names: set[str] = set()
        for data, copy in self._ran.values():
            other = self._variables(copy) - self._variables(Loader(io.BytesIO(data)).load())
            names |= {f"`{name}`" for name, _ in other}
        changed = ", ".join(sorted(names))
        return f"a local program changed {changed}, but {COPIES}" if changed else ""

    def _variables(self, program: Program) -> set[tuple[str, bytes]]:
        """The variables that a function refers to, serialised, as far as they can be."""
        found = set()
        if isinstance(program, FunctionType):
            variables = inspect.getclosurevars(program)
            for name, value in {**variables.nonlocals, **variables.globals}.items():
                try:
                    found.add((name, self._dumped(value)))
                except Exception:  # it was given something that cannot be copied
                    found.add((name, b""))
        return found

    def _dumped(self, value: Any) -> bytes:
        file = io.BytesIO()
        copier = Copier(file)
        copier.federation = self._federation
        copier.dump(value)
        return file.getvalue()


def program_name(program: Program) -> str:
    """The name by which errors call a program."""
    return getattr(program, "__name__", type(program).__name__)


# --- whose code it is -----------------------------------------------------------------------------


def is_ours(program: Program) -> bool:
    """Whether `program` and all that it refers to are code of this package and data."""
    todo: list[Any] = [program]
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        kind = type(value)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if kind is FunctionType:
            module = sys.modules.get(value.__module__)
            own_globals = getattr(module, "__dict__", None) is value.__globals__
            ours = own_globals and is_own(value.__code__.co_filename)
            todo += [value.__closure__, value.__defaults__, value.__kwdefaults__]
        elif isinstance(value, type):
            ours = not is_foreign(home(value))
        elif kind is np.ndarray:
            ours = not value.dtype.hasobject
        else:
            ours = kind in _DATA or is_own(file_of(home(kind)))
            todo += gc.get_referents(value)
        if not ours:
            return False
    return True


def home(thing: Any) -> ModuleType | None:
    """The module that has a class or function under its name; what it says proves nothing."""
    found = _lookup_module_and_qualname(thing)
    return found[0] if found else None


def file_of(module: ModuleType | None) -> str:
    """The file of a module, or the first folder of a package without one; "" for built-in ones."""
    names = {} if module is None else vars(module)
    return names.get("__file__") or next(iter(names.get("__path__", ())), "")


def is_foreign(module: ModuleType | None) -> bool:
    """Whether the module is the user's: its functions, classes and variables are copied."""
    if module is None or module.__name__ == "__main__":
        return True
    file = file_of(module)
    return not is_installed(file) if file else module.__spec__ is None


@cache
def package_folders() -> tuple[Path, ...]:
    """The folders of this package; where it is installed editable, two of them lie beside it."""
    root = __name__.partition(".")[0]
    specs = [find_spec(root + name) for name in ("", ".policies", ".envs_registry")]
    return tuple(Path(spec.origin).parent for spec in specs if spec and spec.origin)


@cache
def is_own(file: str) -> bool:
    """Whether the file is one of this package."""
    return any(Path(file).is_relative_to(folder) for folder in package_folders())


@cache
def is_installed(file: str) -> bool:
    """Whether the file belongs to this package, the standard library or an installed one."""
    path = Path(file)
    library = Path(os.__file__).parent
    standard = path.is_relative_to(library) or path.is_relative_to(library.resolve())
    third_party = {"site-packages", "dist-packages"} & set(path.parts)
    return is_own(file) or standard or bool(third_party)


def codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those inside of it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes(inner)


def imports_of(code: CodeType) -> Iterator[str]:
    """The modules and names that a function, and those inside of it, import while they run."""
    for step in chain.from_iterable(map(dis.get_instructions, codes(code))):
        if step.opname == "IMPORT_NAME":
            name = step.argval
            yield name
        elif step.opname == "IMPORT_FROM":
            yield f"{name}.{step.argval}"


# --- how it is copied -----------------------------------------------------------------------------


class AtCentre:
    """Replaces the federation or a generator in a copied program: has what every agent is told."""

    def __init__(self, what: str, problem: Problem | None = None) -> None:
        self._what = what
        if problem is not None:
            self.problem = problem
            self.agents = np.arange(problem.n_agents)
            self.arms = np.arange(problem.n_arms)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"strict mode: a local program cannot use the centre's {self._what}.{name}; "
            "its block has pull(...), and block.random(...) draws random numbers at the agents"
        )


class Copier(Pickler):  # type: ignore[misc]
    """cloudpickle with the user's modules by value, and without the objects of the centre."""

    federation: Any

    def reducer_override(self, obj: Any) -> Any:
        if obj is self.federation:
            return AtCentre, ("federation", obj.problem)
        if isinstance(obj, GENERATORS):
            return AtCentre, ("generator",)
        if isinstance(obj, TypeVar):  # cloudpickle would find the original by a number of its own
            return TypeVar, (obj.__name__, *obj.__constraints__)
        if isinstance(getattr(obj, "__self__", None), GENERATORS):
            raise TypeError("a generator of the centre; block.random(...) draws at the agents")
        if isinstance(obj, ModuleType) and is_foreign(obj):
            loading = ("__builtins__", "__loader__", "__spec__", "__cached__", "__path__")
            state = {name: value for name, value in vars(obj).items() if name not in loading}
            return ModuleType, (obj.__name__,), state
        made_by_code = isinstance(obj, type) and obj.__flags__ & _HEAP_TYPE
        by_name = not (made_by_code or isinstance(obj, FunctionType | _lru_cache_wrapper))
        if by_name or not is_foreign(home(obj)):
            return super().reducer_override(obj)
        if isinstance(obj, _lru_cache_wrapper):
            return cached_again, (obj.__wrapped__, obj.cache_parameters())
        if isinstance(obj, FunctionType):
            _, arguments, *rest = self._dynamic_function_reduce(obj)
            # cloudpickle does not see the global names in the body of a class.
            bodies = [one for one in codes(obj.__code__) if not one.co_flags & inspect.CO_OPTIMIZED]
            names = {name for body in bodies for name in body.co_names} & obj.__globals__.keys()
            rest[0][1]["__globals__"] |= {name: obj.__globals__[name] for name in names}
            return make_function, arguments, *rest
        # Without the id by which cloudpickle would find the original class in this process.
        make, (*arguments, _, extra), *rest = _dynamic_class_reduce(obj)
        for name, value in vars(obj).items():
            # cloudpickle leaves out what a base has, too; another base may come before it.
            if any(vars(base).get(name) is value is not None for base in obj.__bases__):
                rest[0][0][name] = value
        return make, (*arguments, None, extra), *rest


class Loader(pickle.Unpickler):
    """Makes the copy. Nothing of a user's module comes in by reference."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if is_foreign(sys.modules.get(module)):
            raise pickle.UnpicklingError(f"strict mode: {module}.{name} cannot be copied: {COPIES}")
        return found


def make_function(code: CodeType, names: Values, *rest: Any) -> FunctionType:
    """A copied function, with an `import` of its own."""
    names["__builtins__"] = vars(builtins) | {"__import__": _import}
    return FunctionType(code, names, *rest)


def _import(name: str, *rest: Any) -> ModuleType:
    """`import` in a copied program: a user's own modules are copied only if imported outside."""
    module = builtins.__import__(name, *rest)
    if is_foreign(module):
        raise ImportError(
            f"strict mode: import {name} at the top of the file, not within a local program: "
            f"{COPIES}"
        )
    return module


def cached_again(function: Program, parameters: Values) -> Any:
    """A copy of what `lru_cache` makes, with an empty cache."""
    return lru_cache(**parameters)(function)
