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
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import distributions, version
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.datasets.sources import VARIABLE
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.harness.settings import PACKAGE, instance_digest, path_of
from clustered_bandit_gym.imports import load_module, load_object

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
    for prefix, root in _package_folders().items():
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                content = file.read_bytes()
                name = prefix + file.relative_to(root).as_posix()
                digest.update(f"{name}\0{len(content)}\0".encode() + content)
    others = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "gymnasium"))
    own = f"{PACKAGE} {__version__} ({digest.hexdigest()[:16]})"
    return f"{own}, {others}, Python {platform.python_version()}"


def _package_folders() -> dict[str, Path]:
    """The package's folders; where it is installed editable, two of them lie beside it."""
    folders = {"": Path(__file__).parents[1]}
    for name in ("policies", "envs_registry"):
        spec = find_spec(f"{PACKAGE}.{name}")
        if spec is not None and spec.origin:
            folder = Path(spec.origin).parent
            if not folder.is_relative_to(folders[""]):
                folders[f"{name}/"] = folder
    return folders


@cache
def _is_installed(file: str) -> bool:
    """Whether a file belongs to the standard library, to an installed package or to this one."""
    path = Path(file).resolve()
    library = [Path(sysconfig.get_path(key)).resolve() for key in ("stdlib", "platstdlib")]
    own = [*library, *_package_folders().values()]
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return bool(installed) or any(path.is_relative_to(folder) for folder in own)


def user_modules() -> dict[str, ModuleType]:
    """The loaded modules that are neither standard library, nor installed, nor of this package."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        real = file and os.path.isfile(file)  # torch.ops claims a file that does not exist
        if real and name == module.__name__ != "__main__" and not _is_installed(file):
            found[name] = module
    return found


def user_files(roots: Iterable[str]) -> dict[str, Path]:
    """Files of the modules `roots`, and of the user's modules that they import, and so on.

    Of installed packages those count that `roots` are in.
    """
    own = {name.partition(".")[0] for name in roots}
    waiting = sorted(roots)
    seen = {"__main__"}
    files: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        spec = None if name in seen else _spec(name)
        seen.add(name)
        if spec is None:
            continue
        package, _, _ = name.rpartition(".")
        waiting.append(package or name)
        if not spec.has_location or not spec.origin:
            continue
        if name.partition(".")[0] in own or not _is_installed(spec.origin):
            files[name] = Path(spec.origin)
            if spec.origin.endswith(".py"):
                inside = name if spec.submodule_search_locations is not None else package
                waiting += _imports(files[name].read_bytes(), inside)
    return dict(sorted(files.items()))


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is; imports nothing but packages around it."""
    parent = name.rpartition(".")[0]
    above = _spec(parent) if parent else None
    if parent and (above is None or above.submodule_search_locations is None):
        return None
    try:
        return find_spec(name)
    except (Exception, SystemExit):  # a package that cannot be imported, a module without a spec
        return None


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
    return {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names}


# --- keys ----------------------------------------------------------------------------------------


def policy_key(policy: Any) -> str:
    """The key of a policy: class, settings, state and code. Raises `Unhashable`."""
    return (
        f"{path_of(type(policy))} {_digest(policy, list(getattr(policy, '__dict__', {}).values()))}"
    )


def env_key(env_id: str, kwargs: dict[str, Any]) -> str:
    """The key of an environment: what is registered under its id, keywords, state and code.

    Raises `Unhashable`.
    """
    parts: list[Any] = [{key: kwargs[key] for key in sorted(kwargs)}, os.environ.get(VARIABLE)]
    named = [kwargs.get("generator")]
    home, _, name = env_id.rpartition(":")
    if home:  # importing the module registers the environment, as `gym.make` would do later
        load_module(home, f"environment {env_id!r}")
    spec = gym.registry.get(name)
    if spec is not None:
        wrappers = list(spec.additional_wrappers)
        parts += [spec.entry_point, spec.kwargs, spec.max_episode_steps, wrappers]
        named += [spec.entry_point, spec.kwargs.get("generator")]
    for text in named:
        if isinstance(text, str) and ":" in text:
            parts.append(load_object(text, f"environment {env_id!r}"))
    return f"{env_id} {_digest(parts, [*kwargs.values(), os.environ.get(VARIABLE)])}"


def _digest(value: Any, settings: list[Any]) -> str:
    """A hash of `value`, of the files and versions behind it, and of folders that `settings` name."""
    hasher = _Hasher()
    try:
        parts: list[Any] = [hasher.digest(value)]
    except (Unhashable, RecursionError) as error:
        raise Unhashable(str(error)) from error
    except Exception as error:
        raise Unhashable(f"it has no stable form ({error})") from error
    for folder in settings:
        if isinstance(folder, str | Path) and os.path.isdir(folder):
            for file in sorted(Path(folder).rglob("*")):
                parts.append((str(file), file.stat().st_size, file.stat().st_mtime_ns))
    known = {PACKAGE, "numpy", "scipy", "gymnasium", *sys.stdlib_module_names} - {"__main__"}
    if any(name.partition(".")[0] not in known for name in hasher.modules):
        # The user's code may reach any loaded module by ways that no text shows.
        for name, file in user_files(user_modules()).items():
            parts.append((name, _content(str(file))))
        for name, module in sorted(user_modules().items()):
            parts.append((name, _plain_variables(module)))
        parts += _installed_versions()
    return _sha(parts)[:40]


@cache
def _installed_versions() -> list[str]:
    """All installed distributions. Read once: a process keeps the versions that it has loaded."""
    return sorted(f"{one.name} {one.version}" for one in distributions())


def _sha(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _plain_variables(module: ModuleType) -> dict[str, str]:
    """The variables of a module whose values JSON can hold, as text."""
    texts = {}
    for name, value in sorted(vars(module).items()):
        if not name.startswith("__"):
            try:
                texts[name] = json.dumps(value)
            except (TypeError, ValueError, RecursionError):
                continue
    return texts


class _Hasher:
    """Hashes values and the user's code in them: the same for equal state in any process.

    Attributes:
        modules: names of the modules that the values refer to.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()
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
        if value is None or kind in (bool, int, float, complex):
            return repr(value)
        if kind in (str, bytes) or isinstance(value, Path):
            return repr(value), _content(os.fsdecode(value))
        if kind in (list, tuple):
            return self.digests(value)
        if kind is dict:
            return [self.digests(pair) for pair in value.items()]
        if kind in (set, frozenset):
            return sorted(self.digests(value))
        if kind is np.ndarray and not value.dtype.hasobject:
            return value.dtype.str, value.shape, value.tobytes()
        if kind is Instance:
            return instance_digest(value)
        if kind in (staticmethod, classmethod):
            return self.digest(value.__func__)
        if kind is property:
            return self.digests([value.fget, value.fset])
        if kind is CodeType:
            return self.code(value)
        if isinstance(value, io.IOBase):
            raise Unhashable("it holds an open file")
        if isinstance(value, FunctionType | BuiltinFunctionType | type | ModuleType):
            return self.named(value)
        reduced = value.__reduce_ex__(2)
        if isinstance(reduced, str):  # found by this name in its module
            return reduced
        make, arguments, *more = reduced
        items = [self.digests(part) for part in more[1:] if part is not None]
        return self.digests([make, arguments, *more[:1]]), items

    def named(self, value: Any) -> Any:
        """A function, class or module: its name, and its content if it is the user's."""
        module = value.__name__ if isinstance(value, ModuleType) else str(value.__module__)
        self.modules.add(module)
        finds = isinstance(value, FunctionType) and module.startswith(("importlib", "pkgutil"))
        if finds or value.__name__ in _OUTSIDE:
            raise _reaches_out("it", value.__name__)
        name = (module, value.__name__)
        file = getattr(sys.modules.get(module), "__file__", None)
        installed = module in sys.stdlib_module_names or (file and _is_installed(file))
        if isinstance(value, BuiltinFunctionType) or (installed and module != "__main__"):
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
        if isinstance(value, ModuleType):
            return name, self.digest(content)
        return name, self.digests([content, value.__bases__, type(value)])

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
