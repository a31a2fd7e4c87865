"""Identity of rows: the key under which a kept trial is found again.

Equal keys mean that the same code with the same state would be played. A key is a hash of

* every file of this package that can change a row, and the versions of NumPy, SciPy, Gymnasium and
  Python (`versions`);
* if other code is involved: the files of every loaded module that is neither standard library nor
  installed, the files of the modules that those import, and the versions of all installed
  distributions;
* the state of policy and environment as `pickle` takes it apart, the files that a value names, and
  the user's functions and classes as they are loaded, with the globals that they refer to.

What cannot be hashed has no key: `Unhashable` is raised, and the trials are played afresh.
``docs/guarantees.md`` lists what stays out of sight.
"""

from __future__ import annotations

import ast
import copyreg
import dis
import hashlib
import os
import platform
import site
import sys
import sysconfig
import warnings
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache, partial
from importlib.machinery import ModuleSpec
from importlib.metadata import distributions, version
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.datasets.sources import VARIABLE
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.harness.settings import PACKAGE, instance_digest, path_of
from clustered_bandit_gym.imports import load_module, load_object

#: Names through which code reaches beyond its own text and state; built-ins of this kind.
_OUTSIDE = {
    *("environ", "environb", "getenv", "getenvb", "argv", "orig_argv", "get_data"),
    *("import_module", "__import__", "run_module", "run_path"),
}
_OUTSIDE_BUILTINS = {"__import__", "__file__", "globals", "exec", "eval"}


class Unhashable(Exception):
    """A value has no stable form; the message says which and why."""


# --- files ---------------------------------------------------------------------------------------


@cache
def versions() -> str:
    """The package's version with a hash of its files, and the versions that it computes with."""
    no_effect = ("harness/output/", "cli/", "reproduce/", "suite/", "envs/rendering/")
    digest = hashlib.sha256()
    for prefix, root in _package_folders().items():
        for file in sorted(root.rglob("*")):
            name = prefix + file.relative_to(root).as_posix()
            if file.is_file() and "__pycache__" not in name and not name.startswith(no_effect):
                content = file.read_bytes()
                digest.update(f"{name}\0{len(content)}\0".encode() + content)
    others = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "gymnasium"))
    own = f"{PACKAGE} {__version__} ({digest.hexdigest()[:16]})"
    return f"{own}, {others}, Python {platform.python_version()}"


def _package_folders() -> dict[str, Path]:
    """The package's folders; where it is installed editable, two of them lie beside it."""
    folders = {"": Path(__file__).parents[1]}
    for name in ("policies", "envs_registry"):
        spec = _spec(f"{PACKAGE}.{name}")
        if spec is None or not spec.origin:
            raise RuntimeError(f"the installation is incomplete: {PACKAGE}.{name} is missing")
        if not Path(spec.origin).is_relative_to(folders[""]):
            folders[f"{name}/"] = Path(spec.origin).parent
    return folders


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
def _installed_folders() -> tuple[Path, ...]:
    """Folders of the standard library, of installed packages and of this package."""
    names = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    names.update([*site.getsitepackages(), site.getusersitepackages()])
    # A virtual environment may see the packages of the Python that it was made from.
    names.update(name for name in sys.path if Path(name).name in ("site-packages", "dist-packages"))
    return (*(Path(name).resolve() for name in names), *_package_folders().values())


@cache
def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _installed_folders())


def is_user_module(name: str) -> bool:
    """Whether a loaded module is neither standard library, nor installed, nor of this package."""
    if name == "__main__":
        return True
    top = name.partition(".")[0]
    for one in (name, top):
        file = getattr(sys.modules.get(one), "__file__", None)
        if file and os.path.isfile(file):  # torch.ops claims a file that does not exist
            return not _is_installed(file)
    return top not in sys.stdlib_module_names and top != PACKAGE


def loaded_user_modules() -> dict[str, ModuleType]:
    """The user's modules that this process has loaded, by name; without ``__main__``."""
    return {
        name: module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and name not in ("__main__", "__mp_main__")
        and is_user_module(name)
    }


def user_files(roots: Iterable[str], loaded: Iterable[str] = ()) -> dict[str, Path]:
    """Files of the modules `roots` and `loaded`, and of the user's modules that they import, and
    so on.

    Of installed packages those count that `roots` are in: their authors may reinstall them under
    the same version.
    """
    own = {name.partition(".")[0] for name in roots}
    waiting = sorted({*roots, *loaded})
    seen = {"__main__"}
    files: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        if name in seen or (top not in own and top in sys.modules and not is_user_module(top)):
            continue
        seen.add(name)
        spec = _spec(name)
        if spec is None:
            continue
        waiting.append(name.rpartition(".")[0] or name)
        if not spec.has_location or not spec.origin:
            continue
        if top in own or not _is_installed(spec.origin):
            files[name] = Path(spec.origin)
            is_package = spec.submodule_search_locations is not None
            package = name if is_package else name.rpartition(".")[0]
            if spec.origin.endswith(".py"):
                waiting += _imports(files[name].read_bytes(), package)
    return dict(sorted(files.items()))


@lru_cache(maxsize=1000)
def _imports(content: bytes, package: str) -> tuple[str, ...]:
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
    return tuple(sorted(found))


@cache
def _all_distributions() -> list[str]:
    return sorted(f"{one.name} {one.version}" for one in distributions())


# --- keys ----------------------------------------------------------------------------------------


def policy_key(policy: Any) -> str:
    """The key of a policy: class, settings, state and code. Raises `Unhashable`."""
    digest = _Hasher().digest(policy, "the policy", {type(policy).__module__})
    return f"{path_of(type(policy))} {digest}"


def env_key(env_id: str, kwargs: dict[str, Any]) -> str:
    """The key of an environment: what is registered under its id, keywords, state and code.

    Raises `Unhashable`.
    """
    parts: list[Any] = [{key: kwargs[key] for key in sorted(kwargs)}, os.environ.get(VARIABLE)]
    roots = {_module_of(value) for value in kwargs.values() if callable(value)}
    named = [kwargs.get("generator")]
    home, _, name = env_id.rpartition(":")
    if home:  # importing the module registers the environment, as `gym.make` would do later
        load_module(home, f"environment {env_id!r}")
        roots.add(home)
    spec = gym.registry.get(name)
    if spec is not None:
        wrappers = list(spec.additional_wrappers)
        parts += [spec.entry_point, spec.kwargs, spec.max_episode_steps, wrappers]
        named += [spec.entry_point, spec.kwargs.get("generator")]
    for text in named:
        if isinstance(text, str) and ":" in text:
            parts.append(load_object(text, f"environment {env_id!r}"))
            roots.add(text.partition(":")[0])
    return f"{env_id} {_Hasher().digest(parts, env_id, roots)}"


def _module_of(value: Any) -> str:
    """The module of a class, a function or an object's class, behind any `functools.partial`."""
    while isinstance(value, partial):
        value = value.func
    return str((value if isinstance(value, type | FunctionType) else type(value)).__module__)


class _Hasher:
    """Hashes values: the same digest for equal state in any process."""

    def __init__(self, parent: _Hasher | None = None) -> None:
        self.hash = hashlib.sha256()
        self.seen: dict[int, tuple[int, Any]] = {}  # id -> position and value, which stays alive
        self.modules: set[str] = set() if parent is None else parent.modules
        self.loaded: dict[str, ModuleType] = (
            loaded_user_modules() if parent is None else parent.loaded
        )
        self.in_code: int = 0 if parent is None else parent.in_code

    def digest(self, value: Any, where: str, roots: set[str]) -> str:
        """A hash of `value` and of the files and versions behind it; `where` is for errors."""
        try:
            self.feed(value, where)
        except RecursionError as error:
            raise Unhashable(f"{where} is nested too deeply") from error
        known = {PACKAGE, "numpy", "scipy", "gymnasium", *sys.stdlib_module_names} - {"__main__"}
        outside = {name for name in self.modules | roots if name.partition(".")[0] not in known}
        if outside:  # the user's code may reach any loaded module by ways that no text shows
            own_roots = {name for name in roots if name.partition(".")[0] not in known}
            for name, file in user_files(own_roots, self.loaded).items():
                self.put(name, hashlib.sha256(file.read_bytes()).hexdigest())
            self.put(_all_distributions())
        return self.hash.hexdigest()[:40]

    def put(self, *parts: Any) -> None:
        """Add plain values."""
        self.hash.update(repr(parts).encode("utf-8", "surrogatepass") + b"\0")

    def feed(self, value: Any, where: str) -> None:
        """Add any value."""
        kind = type(value)
        if value is os.environ or value is sys.argv:
            _refuse(where, "os.environ" if value is os.environ else "sys.argv")
        elif value is None or kind in (bool, int, float, complex, range, slice, bytearray):
            self.put(kind.__name__, value)
        elif kind in (str, bytes) or isinstance(value, Path):
            self.put(kind.__name__, value)
            self.feed_text(os.fsdecode(value), where)
        elif kind is tuple:
            self.feed_all("tuple", value, where)
        elif id(value) in self.seen:
            self.put("again", self.seen[id(value)][0])
        else:
            self.seen[id(value)] = (len(self.seen), value)
            self.feed_object(value, where)

    def feed_all(self, kind: str, values: Iterable[Any], where: str) -> None:
        values = list(values)
        self.put(kind, len(values))
        for value in values:
            self.feed(value, where)

    def feed_named(self, kind: str, values: dict[str, Any], where: str) -> None:
        self.put(kind, sorted(values))
        for name in sorted(values):
            self.feed(values[name], f"{where}.{name}" if where else name)

    def feed_object(self, value: Any, where: str) -> None:
        if type(value) is list:
            self.feed_all("list", value, where)
        elif type(value) is dict:
            self.feed_all("dict", value.items(), where)
        elif isinstance(value, set | frozenset):  # the order of a set differs between processes
            members = []
            for item in value:
                member = _Hasher(self)
                member.feed(item, where)
                members.append(member.hash.hexdigest())
            self.put("set", sorted(members))
        elif type(value) is np.ndarray and not value.dtype.hasobject:
            content = hashlib.sha256(value.tobytes()).hexdigest()
            self.put("array", content, value.dtype, value.shape)
        elif type(value) is Instance:
            self.put("instance", instance_digest(value))
        elif isinstance(value, staticmethod | classmethod | property | cached_property):
            names = ("__func__", "fget", "fset", "fdel", "func")
            functions = [getattr(value, name, None) for name in names]
            self.feed_all(type(value).__name__, functions, where)
        elif isinstance(value, FunctionType):
            self.feed_function(value, where)
        elif isinstance(value, ModuleType):
            self.feed_namespace("module", value, value.__name__, value.__name__)
        elif isinstance(value, type):
            self.feed_namespace("class", value, value.__qualname__, value.__module__)
        else:
            self.feed_reduced(value, where)

    def feed_text(self, text: str, where: str) -> None:
        """A string may name a file, a folder, or a module of the user's."""
        if not text or len(text) > 1000 or "\0" in text:
            return
        module = self.loaded.get(text.partition(":")[0])
        if module is not None:
            self.feed(module, where)
        path = Path(text)
        try:
            if path.is_file():
                self.put("file", hashlib.sha256(path.read_bytes()).hexdigest())
            elif path.is_dir() and not self.in_code:  # strings in code name folders by chance
                for file in sorted(path.rglob("*")):
                    state = file.stat()
                    self.put(str(file), state.st_size, state.st_mtime_ns)
        except (OSError, RuntimeError) as error:
            raise Unhashable(f"{where} names {text}, which cannot be read ({error})") from error

    def feed_reduced(self, value: Any, where: str) -> None:
        """An object as `pickle` takes it apart, with all of its attributes."""
        kind = type(value)
        reduce_ = copyreg.dispatch_table.get(kind)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reduced: Any = value.__reduce_ex__(4) if reduce_ is None else reduce_(value)
        except Exception as error:
            reason = f"is a {path_of(kind)}, which has no stable form ({error})"
            raise Unhashable(f"{where} {reason}") from error
        self.modules.add(kind.__module__)
        if isinstance(reduced, str):  # found by its name, e.g. a built-in function
            if reduced.rpartition(".")[2] in _OUTSIDE | _OUTSIDE_BUILTINS:
                _refuse(where, reduced)
            self.put("global", getattr(value, "__module__", None), reduced)
            return
        make, arguments, state, *rest = reduced if len(reduced) > 2 else (*reduced, None)
        self.put("object", path_of(kind))
        self.feed_all("made by", [make, arguments], where)
        # What a class leaves out of its copies counts, too.
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            self.feed_named("attributes", own, where)
        if state is not own:
            self.feed(state, where)
        for items in rest[:2]:
            self.feed_all("items", items or (), where)

    def feed_namespace(self, kind: str, value: Any, name: str, module: str) -> None:
        """A module or class by its name; one of the user's with what is in it."""
        self.modules.add(module)
        self.put(kind, module, name)
        if value is sys.modules["__main__"] or not is_user_module(module):
            return
        content = {
            key: member
            for key, member in vars(value).items()
            if not isinstance(member, MemberDescriptorType | GetSetDescriptorType)
            and (not key.startswith("__") or callable(member) or isinstance(member, classmethod))
            and key not in ("_abc_impl", "__class__", "__loader__")
        }
        self.in_code += 1
        self.feed_named("content", content, name if kind == "class" else "")
        if isinstance(value, type):
            self.feed_all("bases", [*value.__bases__, type(value)], name)
        self.in_code -= 1

    def feed_function(self, function: FunctionType, where: str) -> None:
        """A function by its name, defaults and closure; one of the user's with its code."""
        name, module = function.__qualname__, function.__module__ or "__main__"
        own = is_user_module(module)
        finds_modules = module.partition(".")[0] in ("importlib", "pkgutil", "runpy")
        if not own and (function.__name__ in _OUTSIDE or finds_modules):
            _refuse(where, function.__name__)
        self.modules.add(module)
        self.put("function", module, name)
        self.feed(function.__defaults__, f"a default of {name}")
        self.feed(function.__kwdefaults__, f"a default of {name}")
        self.in_code += 1
        for cell in function.__closure__ or ():
            try:
                self.feed(cell.cell_contents, f"a variable of {name}")
            except ValueError:
                self.put("empty cell")
        self.feed_named("attributes", vars(function), name)
        if own:
            self.feed_code(function.__code__, name, function.__globals__)
        self.in_code -= 1

    def feed_code(self, code: CodeType, name: str, variables: dict[str, Any]) -> None:
        """Code as it is loaded, with the globals and the loaded modules that it names."""
        self.put(code.co_code, code.co_exceptiontable, code.co_argcount, code.co_flags)
        self.put(code.co_posonlyargcount, code.co_kwonlyargcount, code.co_names)
        self.put(code.co_varnames, code.co_freevars, code.co_cellvars)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.feed_code(constant, name, variables)
            else:
                self.feed(constant, name)
        steps = dis.get_instructions(code)
        used = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        outside = used & _OUTSIDE_BUILTINS | _OUTSIDE.intersection(code.co_names)
        if outside:
            _refuse(name, min(outside))
        package = variables.get("__package__")
        for one in code.co_names:  # modules that a function imports
            for module in (one, f"{package}.{one}"):
                if module in self.loaded:
                    self.feed(self.loaded[module], module)
        for key in sorted(used & variables.keys()):
            self.feed(variables[key], key)


def _refuse(user: str, found: str) -> None:
    raise Unhashable(f"{user} uses {found}, and a key cannot hold what the code finds there")
