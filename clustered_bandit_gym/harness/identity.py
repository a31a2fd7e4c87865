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
import io
import json
import os
import platform
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import distributions, version
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any

import gymnasium as gym

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.datasets.sources import VARIABLE
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.isolation import is_installed, package_folders
from clustered_bandit_gym.harness.settings import PACKAGE, instance_digest, path_of
from clustered_bandit_gym.imports import load_object

#: Names by which code reaches beyond its own text and state.
_OUTSIDE = {
    *("environ", "environb", "getenv", "getenvb", "argv", "orig_argv", "get_data", "__file__"),
    *("import_module", "__import__", "run_module", "run_path", "globals", "exec", "eval"),
}


class Unhashable(Exception):
    """A value has no stable form; the message says which and why."""


# --- files ---------------------------------------------------------------------------------------


@cache
def versions() -> str:
    """The package's version with a hash of its files, and the versions that it computes with."""
    digest = hashlib.sha256()
    for folder in package_folders():
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                content = file.read_bytes()
                digest.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode() + content)
    others = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "gymnasium"))
    own = f"{PACKAGE} {__version__} ({digest.hexdigest()[:16]})"
    return f"{own}, {others}, Python {platform.python_version()}"


def user_modules() -> dict[str, ModuleType]:
    """The loaded modules that are neither standard library, nor installed, nor of this package."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        real = file and os.path.isfile(file)  # torch.ops claims a file that does not exist
        if real and name == module.__name__ != "__main__" and not is_installed(file):
            found[name] = module
    return found


def user_files(roots: Iterable[str]) -> dict[str, Path]:
    """Files of the modules `roots`, and of the user's modules that they import, and so on.

    Nothing is imported but the user's packages. Of installed packages those count that `roots` are
    in.
    """
    own = {name.partition(".")[0] for name in roots}
    files: dict[str, Path] = {}
    packages = {"__main__": False}

    def visit(name: str) -> bool:
        """Note the files behind a name; returns whether it is a package of the user's."""
        if name in packages:
            return packages[name]
        packages[name] = False
        parent = name.rpartition(".")[0]
        if parent and not visit(parent):
            return False
        try:
            spec = find_spec(name)
        except (Exception, SystemExit):  # a package that cannot be imported, a module without spec
            return False
        installed = spec and spec.has_location and is_installed(str(spec.origin))
        if spec is None or (installed and name.partition(".")[0] not in own):
            return False
        packages[name] = spec.submodule_search_locations is not None
        if spec.has_location and spec.origin:
            files[name] = Path(spec.origin)
            if spec.origin.endswith(".py"):
                for found in _imports(files[name].read_bytes(), name if packages[name] else parent):
                    visit(found)
        return packages[name]

    for root in roots:
        visit(root)
    return dict(sorted(files.items()))


@cache
def _imports(content: bytes, package: str) -> set[str]:
    """Names in the import statements of a source text; also of objects, which are no modules."""
    found: set[str] = set()
    try:
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = resolve_name("." * node.level + (node.module or ""), package)
                found.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    except (SyntaxError, ValueError, ImportError):
        pass  # what cannot be imported is not played
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
    except Unhashable:
        raise
    except Exception as error:
        raise Unhashable(f"it has no stable form ({error})") from error
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
    return _sha(parts)[:40]


@cache
def _installed_versions() -> list[str]:
    """All installed distributions. Read once: a process keeps the versions that it has loaded."""
    return sorted(f"{one.name} {one.version}" for one in distributions())


def _sha(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _plain_variables(module: ModuleType) -> list[tuple[str, str]]:
    """The variables of a module whose values JSON can hold, as text."""
    texts = []
    for name, value in sorted(vars(module).items()):
        if not name.startswith("__"):
            try:
                texts.append((name, json.dumps(value)))
            except (TypeError, ValueError, RecursionError):
                continue
    return texts


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
        if kind is CodeType:
            return self.code(value)
        if isinstance(value, io.IOBase):
            raise Unhashable("it holds an open file")
        if isinstance(value, FunctionType | BuiltinFunctionType | type | ModuleType):
            return self.named(value)
        reduced = value.__reduce_ex__(2)
        # A text is the name by which a module holds the value; items of lists and dicts come last.
        if isinstance(reduced, str):
            return reduced
        return self.digests([*reduced[:3], *(list(part or ()) for part in reduced[3:])])

    def named(self, value: Any) -> Any:
        """A function, class or module: its name, and its content if it is the user's."""
        module = value.__name__ if isinstance(value, ModuleType) else str(value.__module__)
        name = (module, value.__name__)
        top = module.partition(".")[0]
        standard = top in sys.stdlib_module_names
        self.foreign |= not standard and top not in (PACKAGE, "numpy", "scipy", "gymnasium")
        finds = isinstance(value, FunctionType) and top in ("importlib", "pkgutil")
        if finds or value.__name__ in _OUTSIDE:
            raise _reaches_out("it", value.__name__)
        file = getattr(sys.modules.get(module), "__file__", None)
        installed = standard or (file and module != "__main__" and is_installed(file))
        if isinstance(value, BuiltinFunctionType) or installed:
            return name
        if isinstance(value, FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            known = value.__globals__
            used = [known[one] for one in _names(value.__code__) if one in known]
            state = [value.__code__, value.__defaults__, value.__kwdefaults__, value.__dict__]
            return name, self.digests([*state, *cells, *used])
        content = {}
        for key, one in vars(value).items():
            descriptor = isinstance(one, FunctionType | staticmethod | classmethod | property)
            if descriptor or not key.startswith(("__", "_abc_")):
                content[key] = one
        bases = [] if isinstance(value, ModuleType) else [value.__bases__, type(value)]
        return name, self.digests([content, *bases])

    def code(self, code: CodeType) -> Any:
        """What code does, without its place in the file."""
        if outside := _OUTSIDE.intersection(code.co_names):
            raise _reaches_out(code.co_qualname, min(outside))
        arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        constants = self.digests(code.co_consts)
        return code.co_code, code.co_exceptiontable, code.co_flags, arguments, names, constants


def _names(code: CodeType) -> list[str]:
    """Names that code and the functions inside of it use, sorted."""
    found = set(code.co_names)
    for one in code.co_consts:
        if isinstance(one, CodeType):
            found.update(_names(one))
    return sorted(found)


def _content(text: str) -> str:
    """A hash of the file that a string names; "" if it names none."""
    if len(text) > 1000 or "\0" in text or not os.path.isfile(text):
        return ""
    return hashlib.sha256(Path(text).read_bytes()).hexdigest()


def _reaches_out(user: str, found: str) -> Unhashable:
    return Unhashable(f"{user} uses {found}, and a key cannot hold what the code finds there")
