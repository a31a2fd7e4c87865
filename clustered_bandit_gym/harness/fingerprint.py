"""Keys of stored rows. Equal keys mean that the same code with the same state would be played again.

The rule is: unknown means different. A key holds

* every file of the package that can change a row, and the versions of the libraries it computes with (`versions`);
* the text of every module of the user's that the policy and the environment reach by import statements (`imports`);
* the full state of the policy and of the environment's keywords: private attributes, arguments of a
  `functools.partial`, variables of a closure, globals and class attributes that the user's code refers to, and the
  content of files that a value names.

State is written down as `pickle` and `copy.deepcopy` would take it apart, with code by its content instead of its name.
What they refuse (an open file, a lock) has no key: `Unwritable` is raised, and the caller reuses nothing. Functions
that read what no key can hold, such as environment variables, have none either (`outside`).

Out of sight are values that are patched into this package or into an installed one at run time, files that code opens
under a name computed at run time, attributes of modules that it looks up under such a name, and whatever installed code
reads: environment variables, the clock, the network.
"""

from __future__ import annotations

import copyreg
import hashlib
import json
import os
import platform
import re
import sys
import warnings
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

import gymnasium as gym
import numpy as np

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.datasets.sources import VARIABLE
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.harness.imports import (
    PACKAGE,
    exists,
    is_user_module,
    package_files,
    reached,
)
from clustered_bandit_gym.harness.outside import door, door_of_module, door_of_names, references
from clustered_bandit_gym.harness.settings import instance_digest, path_of
from clustered_bandit_gym.imports import load_module, load_object

#: A value that names a folder with more files than this has no key: looking at all of them would take too long.
MOST_FILES = 1000
#: Methods with which a class decides what a copy of its objects holds.
_OWN_COPY = ("__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__")
_NOT_STATE = ("_abc_impl", "__slots__")
#: A string that may name an object: ``module:attribute``.
_NAMED = re.compile(r"([^\W\d]\w*(?:\.\w+)*):([^\W\d]\w*)")


class Unwritable(Exception):
    """A value cannot be written down faithfully; the message says which and why."""


@cache
def versions() -> str:
    """The version of the package with a hash of its files, and the versions of what it computes with."""
    digest = hashlib.sha256()
    for name, file in package_files().items():
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    others = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "gymnasium"))
    return f"{PACKAGE} {__version__} ({digest.hexdigest()[:16]}), {others}, Python {platform.python_version()}"


def policy_key(policy: Any) -> str:
    """The key of a policy: class, settings, state and code. Raises `Unwritable`."""
    digest = _Writer().digest(policy, "the policy", {type(policy).__module__})
    return f"{path_of(type(policy))} {digest}"


def env_key(env_id: str, kwargs: dict[str, Any]) -> str:
    """The key of an environment: id, what is registered under it, keywords, state and code. Raises `Unwritable`."""
    parts: list[Any] = [{key: kwargs[key] for key in sorted(kwargs)}, os.environ.get(VARIABLE)]
    roots = {_module_of(value) for value in kwargs.values() if callable(value)}
    named = [kwargs.get("generator")]
    home, _, name = env_id.rpartition(":")
    if home:  # importing the module registers the environment, as `gym.make` would do later
        load_module(home, f"environment {env_id!r}")
        roots.add(home)
    spec = gym.registry.get(name)
    if spec is not None:
        parts += [
            spec.entry_point,
            spec.kwargs,
            spec.max_episode_steps,
            list(spec.additional_wrappers),
        ]
        named += [spec.entry_point, spec.kwargs.get("generator")]
    for text in named:
        if isinstance(text, str) and ":" in text:
            parts.append(load_object(text, f"environment {env_id!r}"))
            roots.add(text.partition(":")[0])
    return f"{env_id} {_Writer().digest(parts, env_id, roots)}"


def _module_of(value: Any) -> str:
    """The module of a class, a function or an object's class, behind any `functools.partial`."""
    while isinstance(value, partial):
        value = value.func
    return str((value if isinstance(value, type | FunctionType) else type(value)).__module__)


class _Writer:
    """Writes values as JSON, the same text for equal state in any process; collects the modules behind them."""

    def __init__(self, modules: set[str] | None = None) -> None:
        self.modules: set[str] = set() if modules is None else modules
        self._places: dict[
            int, int
        ] = {}  # id -> position, so that shared and cyclic references are told apart
        self._used: set[tuple[str, frozenset[str]]] = (
            set()
        )  # modules with the attributes written of them
        self._alive: list[Any] = []  # an id is unique only as long as its object lives

    def digest(self, value: Any, where: str, roots: set[str]) -> str:
        """A hash of `value` and of the modules behind it and behind `roots`."""
        try:
            text = json.dumps(
                [self.value(value, where), reached(self.modules, roots)], sort_keys=True
            )
        except RecursionError as error:
            raise Unwritable(f"{where} is nested too deeply") from error
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]

    def value(self, value: Any, where: str) -> Any:
        """`value` as JSON. `where` says in words what it is, for `Unwritable`."""
        kind = type(value)
        if value is None or kind in (bool, int, float):
            return value
        if kind is str:
            return self._text(value, where)
        if kind is bytes:
            return {"bytes": repr(value), "text": self._text(os.fsdecode(value), where)}
        if kind in (bytearray, complex, range, slice, type(Ellipsis), type(NotImplemented)):
            return {kind.__name__: repr(value)}
        if kind is tuple:
            return {"tuple": [self.value(item, where) for item in value]}
        if isinstance(value, ModuleType):
            return self._module(value)
        _refuse(where, door(value))
        if id(value) in self._places:
            return {"again": self._places[id(value)]}
        if kind is frozenset or kind is set:
            # Members do not get positions: the order of a set differs from process to process.
            members = [
                json.dumps(_Writer(self.modules).value(item, where), sort_keys=True)
                for item in value
            ]
            return {kind.__name__: sorted(members)}
        self._places[id(value)] = len(self._places)
        self._alive.append(value)
        if kind is list:
            return [self.value(item, where) for item in value]
        if kind is dict or kind is MappingProxyType:
            pairs = [
                [self.value(key, where), self.value(item, f"{where}[{key!r}]")]
                for key, item in value.items()
            ]
            return {"dict": pairs}
        if isinstance(value, np.ndarray) and kind is np.ndarray and not value.dtype.hasobject:
            content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return {"array": content, "dtype": repr(value.dtype), "shape": list(value.shape)}
        if kind is Instance:
            return {"instance": instance_digest(value)}
        if isinstance(value, Path):
            return {"path": self._text(str(value), where)}
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, staticmethod | classmethod):
            return {kind.__name__: self.value(value.__func__, where)}
        if isinstance(value, property):
            return {
                "property": [
                    self.value(part, where) for part in (value.fget, value.fset, value.fdel)
                ]
            }
        if isinstance(value, cached_property):
            return {"cached_property": self.value(value.func, where)}
        return self._object(value, where)

    def _object(self, value: Any, where: str) -> Any:
        """An object as `pickle` takes it apart."""
        kind = type(value)
        reducer = copyreg.dispatch_table.get(kind)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reduced: Any = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        except Exception as error:
            raise Unwritable(
                f"{where} is a {path_of(kind)}, which has no stable form ({error})"
            ) from error
        written: dict[str, Any] = {}
        if isinstance(reduced, str):  # found by name in its module, e.g. a built-in function
            written["global"] = f"{getattr(value, '__module__', None)}:{reduced}"
        else:
            make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
            written["make"] = [self.value(make, where), self.value(arguments, where)]
            written["state"] = self._state(state, where)
            written["items"] = items and [self.value(item, where) for item in items]
            written["pairs"] = pairs and [
                [self.value(k, where), self.value(v, where)] for k, v in pairs
            ]
        if is_user_module(kind.__module__) and any(
            name in vars(base) for base in kind.__mro__[:-1] for name in _OWN_COPY
        ):
            written["attributes"] = self._state(getattr(value, "__dict__", None), where)
        if kind.__module__.partition(".")[0] == PACKAGE and isinstance(
            getattr(value, "settings", None), dict
        ):
            written["settings"] = self._state(value.settings, where)
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:
            written["wrapped"] = self.value(wrapped, where)
        return {"object": path_of(kind), **written}

    def _state(self, state: Any, where: str) -> Any:
        if isinstance(state, tuple):  # attributes and slots
            return [self._state(part, where) for part in state]
        if isinstance(state, dict) and all(isinstance(key, str) for key in state):
            return {
                "attributes": [
                    [key, self.value(state[key], f"{where}.{key}")] for key in sorted(state)
                ]
            }
        return self.value(state, where)

    def _text(self, text: str, where: str) -> Any:
        """A string; with the content of the file, or the list of files of the folder, that it names."""
        if not text or len(text) > 1000 or "\0" in text:
            return text
        try:
            path = Path(text).expanduser()
            if path.is_file():
                with open(path, "rb") as file:
                    return {
                        "file": text,
                        "content": hashlib.file_digest(file, "sha256").hexdigest(),
                    }
            if path.is_dir():
                return {"folder": text, "files": _listing(path)}
        except (OSError, RuntimeError) as error:
            raise Unwritable(f"{where} names {text}, which cannot be read ({error})") from error
        if (
            (match := _NAMED.fullmatch(text))
            and match[1] in sys.modules
            and is_user_module(match[1])
        ):
            return {"name": text, "in": self._module(sys.modules[match[1]], frozenset({match[2]}))}
        return text

    # --- code --------------------------------------------------------------------------------------------------------

    def _module(self, module: ModuleType, attributes: frozenset[str] = frozenset()) -> Any:
        name = module.__name__
        self.modules.add(name)
        if not is_user_module(name) or (name, attributes) in self._used:
            return {"module": name}
        self._used.add((name, attributes))
        used = sorted(attributes & vars(module).keys())
        return {
            "module": name,
            "uses": [[k, self._used_by(name, vars(module)[k], k, attributes)] for k in used],
        }

    def _used_by(self, user: str, value: Any, name: str, attributes: frozenset[str]) -> Any:
        """A value that the code of `user` refers to by `name`; of a module what is among `attributes`."""
        if not isinstance(value, ModuleType):
            _refuse(user, door(value))
            return self.value(value, name)
        _refuse(user, door_of_module(value.__name__, attributes))
        return self._module(value, attributes)

    def _class(self, target: type) -> Any:
        """A class by its name; one of the user's also by its members and bases."""
        if not is_user_module(target.__module__):
            return {"class": path_of(target)}
        self.modules.add(target.__module__)
        members = []
        for name, member in sorted(vars(target).items()):
            special = name.startswith("__") and name.endswith("__")
            code = isinstance(member, FunctionType | staticmethod | classmethod | property)
            if name in _NOT_STATE or (special and not code):
                continue
            if isinstance(member, MemberDescriptorType | GetSetDescriptorType):
                continue
            members.append([name, self.value(member, f"{target.__qualname__}.{name}")])
        bases = [self.value(base, target.__qualname__) for base in target.__bases__]
        return {"class": path_of(target), "bases": bases, "members": members}

    def _function(self, function: FunctionType) -> Any:
        """A function by its name, defaults and closure; one of the user's also by its code and what it refers to."""
        name = function.__qualname__
        names, attributes, imported = references(function.__code__)
        own = is_user_module(function.__module__ or "__main__")
        seen = attributes if own else frozenset()
        written: dict[str, Any] = {
            "function": f"{function.__module__}:{name}",
            "defaults": self.value(function.__defaults__, f"a default of {name}"),
            "keywords": self.value(function.__kwdefaults__, f"a default of {name}"),
            "closure": [self._cell(cell, name, seen) for cell in function.__closure__ or ()],
            "attributes": self._state(vars(function), name),
        }
        if not own:
            return written
        self.modules.add(function.__module__ or "__main__")
        self.modules |= imported
        _refuse(name, door_of_names(names, function.__globals__))
        written["code"] = self._code(function.__code__, name)
        found = {key: function.__globals__[key] for key in names & function.__globals__.keys()}
        written["uses"] = [
            [key, self._used_by(name, found[key], key, attributes)] for key in sorted(found)
        ]
        for other in sorted(imported):
            _refuse(name, door_of_module(other, attributes))
            if (module := _loaded(other)) is not None:
                written["uses"].append([other, self._module(module, attributes)])
        return written

    def _cell(self, cell: Any, name: str, attributes: frozenset[str]) -> Any:
        try:
            content = cell.cell_contents
        except ValueError:
            return {"cell": "empty"}
        if isinstance(content, ModuleType):
            return self._used_by(name, content, name, attributes)
        return self.value(content, f"a variable of {name}")

    def _code(self, code: CodeType, where: str) -> Any:
        constants = [
            self._code(item, where) if isinstance(item, CodeType) else self.value(item, where)
            for item in code.co_consts
        ]
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (
            code.co_qualname,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
        )
        text = repr((code.co_code, code.co_exceptiontable, shape, names))
        return [hashlib.sha256(text.encode()).hexdigest(), constants]


def _refuse(user: str, found: str | None) -> None:
    """`Unwritable`, if the code of `user` refers to the door `found`."""
    if found is not None:
        raise Unwritable(f"{user} uses {found}, and a key cannot hold what the code finds there")


def _loaded(name: str) -> ModuleType | None:
    """A module of the user's that a function imports when it runs. Imported now: its values can be set only then."""
    if not exists(name) or not is_user_module(name):
        return None
    try:
        return import_module(name)
    except (Exception, SystemExit):  # if it is needed, the play shows the error
        return None


def _listing(folder: Path) -> list[Any]:
    """Name, size and time of change of every file in a folder."""
    found: list[Any] = []
    for file in folder.rglob("*"):
        if file.is_file():
            state = file.stat()
            found.append([file.relative_to(folder).as_posix(), state.st_size, state.st_mtime_ns])
        if len(found) > MOST_FILES:
            raise Unwritable(f"{folder} is a folder with more than {MOST_FILES:,} files")
    return sorted(found)
