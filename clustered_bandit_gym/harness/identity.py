"""Identity of rows: the key under which a kept trial is found again.

Equal keys mean that the same code with the same state would be played. A key is a hash of

* every file of this package, and the versions of NumPy, SciPy, Gymnasium and Python (`versions`);
* the state of policy and environment as `pickle` takes it apart, the files that a text names, and
  the user's functions and classes as they are loaded, with the globals that they refer to;
* if other code is involved: the files of every loaded module that is neither standard library nor
  installed, the files of the modules that those import, the plain values of their variables, and
  the versions of all installed distributions.

What cannot be hashed has no key: `Unhashable` is raised, and the trials are played afresh.
``docs/guarantees.md`` lists what stays out of sight.
"""

from __future__ import annotations

import ast
import hashlib
import json
import marshal
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import distributions, version
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any

import gymnasium as gym

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.datasets.sources import VARIABLE
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.isolation import is_foreign, is_installed, package_folders
from clustered_bandit_gym.harness.settings import PACKAGE, instance_digest, path_of
from clustered_bandit_gym.imports import load_object

#: Modules and other names by which code reaches beyond its own text and state.
_OUTSIDE = {
    *("environ", "environb", "getenv", "getenvb", "argv", "orig_argv", "__file__"),
    *("importlib", "pkgutil", "runpy", "__import__", "globals", "exec", "eval"),
}


class Unhashable(Exception):
    """A value has no stable form; the message says which and why."""


# --- files ---------------------------------------------------------------------------------------


@cache
def versions() -> str:
    """The package's version with a hash of its files, and the versions that it computes with."""
    files = [
        (file.relative_to(folder).as_posix(), _content(str(file)))
        for folder in package_folders()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    ]
    others = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "gymnasium"))
    own = f"{PACKAGE} {__version__} ({_sha(files)[:16]})"
    return f"{own}, {others}, Python {platform.python_version()}"


def _is_installed(file: str) -> bool:
    """As `is_installed`; what a link in site-packages points to may be edited any time."""
    return is_installed(os.path.realpath(file))


def user_modules() -> dict[str, ModuleType]:
    """The loaded modules that are neither standard library, nor installed, nor of this package."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        real = file and os.path.isfile(file)  # torch.ops claims a file that does not exist
        if real and name == module.__name__ != "__main__" and not _is_installed(str(file)):
            found[name] = module
    return found


def user_files(roots: Iterable[str]) -> dict[str, Path]:
    """Files of the modules `roots`, and of the user's modules that they import, and so on.

    Nothing is imported but the user's packages. Of installed packages those count that `roots` are
    in.
    """
    own = {name.partition(".")[0] for name in roots}

    @cache
    def spec_of(name: str) -> ModuleSpec | None:
        """Where a user's module is; None for other modules and for names of other things."""
        parent = name.rpartition(".")[0]
        above = spec_of(parent) if parent else None
        if parent and (above is None or above.submodule_search_locations is None):
            return None
        try:
            spec = find_spec(name)
        except (Exception, SystemExit):  # a package that cannot be imported, a module without spec
            return None
        installed = spec and spec.has_location and _is_installed(str(spec.origin))
        return None if installed and name.partition(".")[0] not in own else spec

    files: dict[str, Path] = {}
    todo = set(roots)
    seen: set[str] = set()
    while todo := todo - seen:
        name = todo.pop()
        seen.add(name)
        spec = spec_of(name)
        todo.add(name.rpartition(".")[0])
        if spec is not None and spec.has_location:
            files[name] = Path(str(spec.origin))
            todo |= _imports(files[name], spec.parent)
    return dict(sorted(files.items()))


def _imports(file: Path, package: str | None) -> set[str]:
    """Names in the import statements of a module; also of objects, which are no modules."""
    found: set[str] = set()
    try:
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = resolve_name("." * node.level + (node.module or ""), package)
                found.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    except (SyntaxError, ValueError, ImportError):
        pass  # compiled, or cannot be imported
    return found


# --- keys ----------------------------------------------------------------------------------------


def policy_key(policy: Any) -> str:
    """The key of a policy: class, settings, state and code. Raises `Unhashable`."""
    settings = getattr(policy, "__dict__", {}).values()
    return f"{path_of(type(policy))} {_digest(policy, settings)}"


def env_key(env_id: str, kwargs: dict[str, Any]) -> str:
    """The key of a registered environment: its registration, keywords, state and code.

    Raises `Unhashable`.
    """
    spec = gym.registry[env_id.rpartition(":")[2]]
    data = os.environ.get(VARIABLE)
    parts: list[Any] = [data, spec, sorted(kwargs.items())]
    for text in (spec.entry_point, spec.kwargs.get("generator"), kwargs.get("generator")):
        if isinstance(text, str) and ":" in text:
            parts.append(load_object(text, f"environment {env_id!r}"))
    return f"{env_id} {_digest(parts, [*kwargs.values(), data])}"


def _digest(value: Any, settings: Iterable[Any]) -> str:
    """A hash of `value`, of the code behind it, and of the folders that `settings` name."""
    hasher = _Hasher()
    try:
        parts: list[Any] = [hasher.digest(value)]
        for folder in settings:
            if isinstance(folder, str | Path) and os.path.isdir(folder):
                for file in sorted(Path(folder).rglob("*")):
                    parts.append((str(file), file.stat().st_size, file.stat().st_mtime_ns))
        if hasher.foreign:
            # The user's code may reach any loaded module by ways that no text shows.
            for name, file in user_files(user_modules()).items():
                parts.append((name, _content(str(file))))
            for name, module in user_modules().items():
                parts.append((name, _plain_variables(module)))
            parts += _installed_versions()
    except Unhashable:
        raise
    except Exception as error:
        raise Unhashable(f"it has no stable form ({error})") from error
    return _sha(parts)[:40]


@cache
def _installed_versions() -> list[str]:
    """All installed distributions. Read once: a process keeps the versions that it has loaded."""
    return sorted(f"{one.name} {one.version}" for one in distributions())


def _sha(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _content(text: str) -> str:
    """A hash of the file that a string names; "" if it names none."""
    if len(text) > 1000 or "\0" in text or not os.path.isfile(text):
        return ""
    return hashlib.sha256(Path(text).read_bytes()).hexdigest()


def _plain_variables(module: ModuleType) -> str:
    """The variables of a module as JSON; null for what JSON cannot hold."""
    variables = {name: one for name, one in vars(module).items() if not name.startswith("__")}
    return json.dumps(variables, default=lambda _: None, skipkeys=True)


class _Hasher:
    """Hashes values and the user's code in them: the same for equal state in any process.

    Attributes:
        foreign: whether a value refers to code beyond this package and what it computes with.
    """

    def __init__(self) -> None:
        self.foreign = False
        self._known: dict[int, tuple[str, Any]] = {}

    def digest(self, value: Any) -> str:
        """A hash of `value`. Raises `Unhashable`, or whatever its parts raise when taken apart."""
        if id(value) not in self._known:
            self._known[id(value)] = ("cycle", value)  # held, so that its id stays its own
            self._known[id(value)] = (_sha((path_of(type(value)), self.parts(value))), value)
        return self._known[id(value)][0]

    def digests(self, values: Iterable[Any]) -> list[str]:
        return [self.digest(value) for value in values]

    def parts(self, value: Any) -> Any:
        """What `value` consists of, as texts and hashes."""
        kind = type(value)
        if kind in (NoneType, bool, int, float, complex):
            return repr(value)
        if kind in (str, bytes) or isinstance(value, Path):
            return repr(value), _content(os.fsdecode(value))
        if kind in (list, tuple):
            return self.digests(value)
        if kind is dict:
            return self.digests(value.items())
        if kind in (set, frozenset):
            return sorted(self.digests(value))
        if kind is Instance:
            return instance_digest(value)
        if kind in (staticmethod, classmethod, property):
            return self.digests(getattr(value, one, None) for one in ("__func__", "fget", "fset"))
        if isinstance(value, FunctionType | BuiltinFunctionType | type | ModuleType):
            return self.named(value)
        reduced = value.__reduce_ex__(2)
        # A text is the name by which a module holds the value; items of lists and dicts come last.
        if isinstance(reduced, str):
            return reduced
        return self.digests([*reduced[:3], *(list(part or ()) for part in reduced[3:])])

    def named(self, value: Any) -> Any:
        """A function, class or module: its name, and its content if it is the user's."""
        home = value.__name__ if isinstance(value, ModuleType) else str(value.__module__)
        name = (home, value.__name__)
        top = home.partition(".")[0]
        if {top, value.__name__} & _OUTSIDE:
            raise _reaches_out("it", value.__name__)
        users = is_foreign(sys.modules.get(home))
        if isinstance(value, FunctionType):  # a decorator may have given it the name of another one
            file = value.__code__.co_filename
            users |= not (_is_installed(file) or file.startswith("<frozen "))
        computes = top in (PACKAGE, "numpy", "scipy", "gymnasium", *sys.stdlib_module_names)
        self.foreign |= users or not computes
        if isinstance(value, BuiltinFunctionType):
            return name, self.digest(value.__self__)
        if not users:
            return name
        if isinstance(value, FunctionType):
            return name, self.function(value)
        content = {}
        for key, one in vars(value).items():
            descriptor = isinstance(one, FunctionType | staticmethod | classmethod | property)
            if descriptor or not key.startswith(("__", "_abc_")):
                content[key] = one
        bases = [] if isinstance(value, ModuleType) else [value.__bases__, type(value)]
        return name, self.digests([content, *bases])

    def function(self, value: FunctionType) -> Any:
        """What a function does, without its place in a file, and the values that it refers to."""
        codes = list(_codes(value.__code__))
        # The names of `import a.b` are one text.
        names = {name for code in codes for text in code.co_names for name in text.split(".")}
        if outside := names & _OUTSIDE:
            raise _reaches_out(value.__qualname__, min(outside))
        bare = [
            code.replace(co_consts=(), co_filename="", co_firstlineno=0, co_linetable=b"")
            for code in codes
        ]
        constants = [
            [one for one in code.co_consts if not isinstance(one, CodeType)] for code in codes
        ]
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        used = [value.__globals__[name] for name in sorted(names & value.__globals__.keys())]
        state = [value.__defaults__, value.__kwdefaults__, value.__dict__]
        return marshal.dumps(bare, 2), self.digests([constants, cells, used, *state])


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those inside of it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _reaches_out(user: str, found: str) -> Unhashable:
    return Unhashable(f"{user} uses {found}, and a key cannot hold what the code finds there")
