"""Identity of rows: the key under which a kept trial is found again.

Equal keys mean that the same code with the same state would be played. Unknown means different. A
key is a hash of

* every file of this package that can change a row, and the versions of NumPy, SciPy, Gymnasium and
  Python (`versions`);
* if any code of the user's is involved: the files of every loaded module that is neither standard
  library nor installed, of the modules that those import, and the versions of the installed
  distributions behind them (`reached`);
* the state of policy and environment as `pickle` would take it apart: attributes, arguments of a
  `functools.partial`, closures, and the content of files that a value names; of the user's
  functions and classes also the code as it is loaded, and the globals that it refers to.

What has no stable form (an open file, a lock), and code that refers to environment variables, the
command line, `eval` or modules by computed names, has no key: `Unhashable` is raised, and the
trials are played afresh. ``docs/guarantees.md`` lists what stays out of sight.
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
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions, version
from importlib.util import resolve_name
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

#: Folders of the package that cannot change a row. Everything else is part of every key.
NO_EFFECT = ("harness/output", "cli", "reproduce", "suite", "envs/rendering")
#: Names through which code reaches beyond its own text and state.
_OUTSIDE = {
    *("environ", "environb", "getenv", "getenvb", "argv", "orig_argv", "get_data"),
    *("import_module", "__import__", "run_module", "run_path"),
}
_OUTSIDE_BUILTINS = {"__import__", "__file__", "globals", "exec", "eval"}
#: A setting that names a folder with more files than this has no key.
_MOST_FILES = 1000


class Unhashable(Exception):
    """A value has no stable form; the message says which and why."""


@cache
def versions() -> str:
    """The package's version with a hash of its files, and the versions that it computes with."""
    digest = hashlib.sha256()
    for name, file in package_files().items():
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    others = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "gymnasium"))
    own = f"{PACKAGE} {__version__} ({digest.hexdigest()[:16]})"
    return f"{own}, {others}, Python {platform.python_version()}"


def package_files() -> dict[str, Path]:
    """Every file of the package that can change a row, by its path inside the package."""
    files = {
        prefix + file.relative_to(root).as_posix(): file
        for prefix, root in _package_folders().items()
        for file in root.rglob("*")
        if "__pycache__" not in file.parts and file.is_file()
    }
    hidden = tuple(f"{folder}/" for folder in NO_EFFECT)
    return {name: files[name] for name in sorted(files) if not name.startswith(hidden)}


def _package_folders() -> dict[str, Path]:
    """The package's folders; where it is installed editable, two of them lie beside it."""
    folders = {"": Path(__file__).parents[1]}
    for name in ("policies", "envs_registry"):
        spec = _find(f"{PACKAGE}.{name}")
        if spec is None or not spec.origin:
            raise RuntimeError(f"the installation is incomplete: {PACKAGE}.{name} is missing")
        folders[f"{name}/"] = Path(spec.origin).parent
    return folders


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


def key_or_reason(write: Any, *arguments: Any) -> tuple[str | None, str]:
    """A key, or None and the reason why there is none."""
    try:
        return write(*arguments), ""
    except Unhashable as error:
        return None, str(error)


def _module_of(value: Any) -> str:
    """The module of a class, a function or an object's class, behind any `functools.partial`."""
    while isinstance(value, partial):
        value = value.func
    return str((value if isinstance(value, type | FunctionType) else type(value)).__module__)


# --- files ---------------------------------------------------------------------------------------


def is_user_module(name: str) -> bool:
    """Whether a module is neither standard library, nor installed, nor part of this package."""
    if name == "__main__":
        return True
    top = name.partition(".")[0]
    if top in sys.builtin_module_names:
        return False
    spec = _find(name)
    if spec is None or not spec.has_location or not spec.origin:
        # A namespace package, or made by hand: the user's, unless it has a known name.
        return top not in sys.stdlib_module_names and top != PACKAGE
    path = Path(spec.origin).resolve()
    return not any(path.is_relative_to(folder) for folder in _installed())


def loaded_user_modules() -> dict[str, ModuleType]:
    """The user's modules that this process has loaded, by name; without ``__main__``."""
    return {
        name: module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and name not in ("__main__", "__mp_main__")
        and is_user_module(name)
    }


def reached(names: Iterable[str], roots: Iterable[str]) -> dict[str, str | None]:
    """Modules that the modules `names` and `roots` reach by import statements, with themselves.

    An installed package counts as the user's code if one of `roots` is in it: its author may
    reinstall it under the same version. So does one that belongs to no distribution.

    Returns:
        For a user's module the hash of its file; for an installed one (its top name only) its
        distributions and their versions; None for a module without a file. The standard library
        and this package are left out.
    """
    waiting = sorted({*names, *roots})
    skipped = {PACKAGE, "__main__", *sys.stdlib_module_names}
    own = {name.partition(".")[0] for name in roots} - skipped
    modules: dict[str, str | None] = {}
    installed: dict[str, str | None] = {}
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        if name in modules or top in installed or top in skipped:
            continue
        spec = _find(name)
        if top not in own and not is_user_module(name) and (found := _distributions(top)):
            installed[top] = found
            continue
        if "." in name:
            waiting.append(name.rpartition(".")[0])
        file = Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None
        if file is None or not file.is_file():
            modules[name] = None
            continue
        content = file.read_bytes()
        modules[name] = hashlib.sha256(content).hexdigest()
        if file.suffix == ".py" and spec is not None:
            is_package = spec.submodule_search_locations is not None
            imported = _imports(content, name if is_package else name.rpartition(".")[0])
            waiting += [one for one in imported if one.partition(".")[0] in skipped or _find(one)]
    return dict(sorted((modules | installed).items()))


@lru_cache(maxsize=1000)
def _imports(content: bytes, package: str) -> tuple[str, ...]:
    """Names in the import statements of a source text; also of objects, which are no modules."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return ()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), package)
            found.update({base, *(f"{base}.{alias.name}" for alias in node.names)})
    return tuple(sorted(found - {""}))


def _absolute(name: str, package: str) -> str:
    """`name` with the dots of a relative import resolved; "" beyond the top-level package."""
    try:
        return resolve_name(name, package) if name.startswith(".") else name
    except ImportError:
        return ""


def _find(name: str) -> ModuleSpec | None:
    """Where a module is, without importing it or its parents."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if isinstance(spec, ModuleSpec):
        return spec
    parent, _, last = name.rpartition(".")
    path: list[str] | None = None
    if parent:
        above = _find(parent)
        if above is None or above.submodule_search_locations is None:
            return None
        path = list(above.submodule_search_locations)
    for finder in sys.meta_path:
        search = getattr(finder, "find_spec", None)
        try:
            spec = search(name, path) if search is not None else None
        except KeyError:  # a namespace package inside a package that is not imported
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(Path(one, last)) for one in path or ()]
        if spec is not None:
            return spec
    return None


@cache
def _installed() -> tuple[Path, ...]:
    """Folders of the standard library, of installed packages, and of this package."""
    names = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    names.update([*site.getsitepackages(), site.getusersitepackages()])
    # A virtual environment may see the packages of the Python that it was made from.
    names.update(name for name in sys.path if Path(name).name in ("site-packages", "dist-packages"))
    return (*(Path(name).resolve() for name in names), *_package_folders().values())


@cache
def _distributions(top: str) -> str | None:
    """The distributions that bring the module `top`, with their versions: PyYAML for yaml."""
    found = sorted(set(_all_distributions().get(top, ())))
    return ", ".join(f"{name} {version(name)}" for name in found) or None


@cache
def _all_distributions() -> Any:
    return packages_distributions()


# --- state ---------------------------------------------------------------------------------------


class _Hasher:
    """Hashes values: the same digest for equal state in any process. Collects their modules."""

    def __init__(self, modules: set[str] | None = None) -> None:
        self.modules: set[str] = set() if modules is None else modules
        self.loaded = loaded_user_modules() if modules is None else {}
        self._hash = hashlib.sha256()
        self._places: dict[int, int] = {}  # id -> position: shared and cyclic references
        self._alive: list[Any] = []  # an id is unique only as long as its object lives
        self._depth = 0  # > 0 inside code: strings there name folders by chance

    def digest(self, value: Any, where: str, roots: set[str]) -> str:
        """A hash of `value` and of the modules behind it; `where` names it in errors."""
        try:
            self.feed(value, where)
        except RecursionError as error:
            raise Unhashable(f"{where} is nested too deeply") from error
        modules = self.modules | roots
        if any(is_user_module(name) for name in modules):
            # Code of the user's may reach any module that is loaded, by ways that no text shows.
            modules |= self.loaded.keys()
        self._put("modules", reached(modules, roots))
        return self._hash.hexdigest()[:40]

    def _put(self, *parts: Any) -> None:
        self._hash.update(repr(parts).encode("utf-8", "surrogatepass") + b"\0")

    def _all(self, kind: str, values: Iterable[Any], where: str) -> None:
        values = list(values)
        self._put(kind, len(values))
        for value in values:
            self.feed(value, where)

    def _named(self, kind: str, values: dict[str, Any], where: str) -> None:
        self._put(kind, sorted(values))
        for name in sorted(values):
            self.feed(values[name], f"{where}.{name}" if where else name)

    def feed(self, value: Any, where: str) -> None:
        """Add `value` to the hash."""
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, range, slice, bytearray):
            self._put(kind.__name__, value)
        elif kind is str or kind is bytes or isinstance(value, Path):
            self._put(kind.__name__, value)
            self._text(os.fsdecode(value), where)
        elif kind is tuple:
            self._all("tuple", value, where)
        elif isinstance(value, ModuleType):
            self._module(value)
        elif value is os.environ or value is sys.argv:
            _refuse(where, "os.environ" if value is os.environ else "sys.argv")
        elif id(value) in self._places:
            self._put("again", self._places[id(value)])
        else:
            self._places[id(value)] = len(self._places)
            self._alive.append(value)
            self._feed_object(value, kind, where)

    def _feed_object(self, value: Any, kind: type, where: str) -> None:
        if kind is list:
            self._all("list", value, where)
        elif kind is dict:
            self._put("dict", len(value))
            for key, item in value.items():
                self.feed(key, where)
                self.feed(item, f"{where}[{key!r}]")
        elif kind is set or kind is frozenset:
            members = []
            for item in value:  # one by one: the order of a set differs between processes
                member = _Hasher(self.modules)
                member.loaded = self.loaded
                member.feed(item, where)
                members.append(member._hash.hexdigest())
            self._put(kind.__name__, sorted(members))
        elif kind is np.ndarray and not value.dtype.hasobject:
            content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            self._put("array", content, value.dtype, value.shape)
        elif kind is Instance:
            self._put("instance", instance_digest(value))
        elif isinstance(value, FunctionType):
            self._function(value, where)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, staticmethod | classmethod):
            self._all(kind.__name__, [value.__func__], where)
        elif isinstance(value, property):
            self._all("property", [value.fget, value.fset, value.fdel], where)
        elif isinstance(value, cached_property):
            self._all("cached_property", [value.func], where)
        else:
            self._reduced(value, kind, where)

    def _reduced(self, value: Any, kind: type, where: str) -> None:
        """An object as `pickle` takes it apart, with all of its attributes."""
        reducer = copyreg.dispatch_table.get(kind)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reduced: Any = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        except Exception as error:
            reason = f"is a {path_of(kind)}, which has no stable form ({error})"
            raise Unhashable(f"{where} {reason}") from error
        self.modules.add(kind.__module__)
        if isinstance(reduced, str):  # found by its name, e.g. a built-in function
            if reduced.rpartition(".")[2] in _OUTSIDE | _OUTSIDE_BUILTINS:
                _refuse(where, reduced)
            self._put("global", getattr(value, "__module__", None), reduced)
            return
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        self._put("object", path_of(kind))
        self._all("made by", [make, arguments], where)
        for part in state if isinstance(state, tuple) else (state,):  # attributes, and slots
            if isinstance(part, dict) and all(isinstance(key, str) for key in part):
                self._named("attributes", part, where)
            else:
                self.feed(part, where)
        self._all("items", items or (), where)
        self._all("pairs", pairs or (), where)
        # What a class leaves out of its copies, and what hides behind a wrapper.
        if isinstance(own := getattr(value, "__dict__", None), dict):
            self._named("all attributes", own, where)
        if isinstance(settings := getattr(value, "settings", None), dict):
            self._all("settings", settings.items(), where)

    def _text(self, text: str, where: str) -> None:
        """A string may name a file, a folder, or a module of the user's."""
        if not text or len(text) > 1000 or "\0" in text:
            return
        if (module := self.loaded.get(text.partition(":")[0])) is not None:
            self._module(module)
        path = Path(text)
        try:
            if path.is_file():
                with open(path, "rb") as file:
                    self._put("file", hashlib.file_digest(file, "sha256").hexdigest())
            elif path.is_dir() and not self._depth:
                self._put("folder", _listing(path))
        except (OSError, RuntimeError) as error:
            raise Unhashable(f"{where} names {text}, which cannot be read ({error})") from error

    def _module(self, module: ModuleType) -> None:
        """A module by its name; one of the user's with all that is in it."""
        name = module.__name__
        self.modules.add(name)
        self._put("module", name)
        if id(module) in self._places or name == "__main__" or not is_user_module(name):
            return
        self._places[id(module)] = len(self._places)
        self._depth += 1
        content = {
            key: value
            for key, value in vars(module).items()
            if not _is_special(key) or isinstance(value, FunctionType)
        }
        self._named("content", content, "")
        self._depth -= 1

    def _class(self, target: type) -> None:
        """A class by its name; one of the user's with its members, bases and metaclass."""
        self.modules.add(target.__module__)
        self._put("class", path_of(target))
        if not is_user_module(target.__module__):
            return
        self._depth += 1
        members = {
            name: member
            for name, member in vars(target).items()
            if name != "_abc_impl"
            and not isinstance(member, MemberDescriptorType | GetSetDescriptorType)
            and (
                not _is_special(name)
                or isinstance(member, FunctionType | staticmethod | classmethod | property)
            )
        }
        self._named("members", members, target.__qualname__)
        self._all("bases", [*target.__bases__, type(target)], target.__qualname__)
        self._depth -= 1

    def _function(self, function: FunctionType, where: str) -> None:
        """A function by its name, defaults and closure; one of the user's with its code."""
        name, module = function.__qualname__, function.__module__ or "__main__"
        own = is_user_module(module)
        finds_modules = module.partition(".")[0] in ("importlib", "pkgutil", "runpy")
        if not own and (function.__name__ in _OUTSIDE or finds_modules):
            _refuse(where, function.__name__)
        self.modules.add(module)
        self._put("function", module, name)
        self.feed(function.__defaults__, f"a default of {name}")
        self.feed(function.__kwdefaults__, f"a default of {name}")
        self._depth += 1
        for cell in function.__closure__ or ():
            try:
                self.feed(cell.cell_contents, f"a variable of {name}")
            except ValueError:
                self._put("empty cell")
        self._named("attributes", vars(function), name)
        if own:
            self._code(function.__code__, name, function.__globals__)
        self._depth -= 1

    def _code(self, code: CodeType, name: str, variables: dict[str, Any]) -> None:
        """Code as it is loaded, with the globals and the modules that it refers to."""
        self._put(code.co_code, code.co_exceptiontable, code.co_argcount, code.co_flags)
        self._put(code.co_posonlyargcount, code.co_kwonlyargcount, code.co_names)
        self._put(code.co_varnames, code.co_freevars, code.co_cellvars)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, name, variables)
            else:
                self.feed(constant, name)
        steps = list(dis.get_instructions(code))
        used = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        builtins = (used - variables.keys() | {"__file__"} & used) & _OUTSIDE_BUILTINS
        if outside := sorted(builtins | _OUTSIDE.intersection(code.co_names)):
            _refuse(name, outside[0])
        for position, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                level, names = steps[position - 2].argval, steps[position - 1].argval
                self._imported("." * level + step.argval, names or (), variables)
        for key in sorted(used & variables.keys()):
            self.feed(variables[key], key)

    def _imported(self, name: str, parts: Iterable[str], variables: dict[str, Any]) -> None:
        """A module that a function imports. Imported now: its values can be changed only then."""
        name = _absolute(name, str(variables.get("__package__") or ""))
        self.modules |= {name} - {""}
        for one in (name, *(f"{name}.{part}" for part in parts)):
            if not name or not is_user_module(name) or _find(one) is None:
                continue
            try:
                self._module(import_module(one))
            except (Exception, SystemExit) as error:  # if it is needed, the play shows the error
                self._put("cannot be imported", type(error).__name__)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _refuse(user: str, found: str) -> None:
    raise Unhashable(f"{user} uses {found}, and a key cannot hold what the code finds there")


def _listing(folder: Path) -> list[Any]:
    """Name, size and time of change of every file in a folder."""
    found: list[Any] = []
    for file in folder.rglob("*"):
        if file.is_file():
            state = file.stat()
            found.append([file.relative_to(folder).as_posix(), state.st_size, state.st_mtime_ns])
        if len(found) > _MOST_FILES:
            raise Unhashable(f"{folder} is a folder with more than {_MOST_FILES:,} files")
    return sorted(found)
