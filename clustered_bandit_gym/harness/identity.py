"""Identity of rows: the key under which a kept trial is found again.

Equal keys mean that the same code with the same state would be played. A key is a hash of

* every file of this package, and the versions of NumPy, SciPy, Gymnasium and Python (`versions`);
* the state of policy and environment as cloudpickle writes it, with the user's functions, classes
  and modules as they are loaded, and the files that a text names;
* if other code is involved: the files of every loaded module that is neither standard library nor
  installed, the files of the modules that those import, the plain values of their variables, and
  the versions of all installed distributions.

What cannot be hashed has no key: `Unhashable` is raised, and the trials are played afresh.
``docs/guarantees.md`` lists what stays out of sight.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import io
import json
import marshal
import os
import platform
import re
import sys
from collections.abc import Iterable
from functools import _lru_cache_wrapper, cache
from importlib.machinery import ModuleSpec
from importlib.metadata import distributions, version
from importlib.util import find_spec, resolve_name
from itertools import chain
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import gymnasium as gym

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.datasets.sources import VARIABLE
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.isolation import (
    GENERATORS,
    Copier,
    cached_again,
    codes,
    home,
    imports_of,
    is_foreign,
    is_installed,
    package_folders,
)
from clustered_bandit_gym.harness.settings import PACKAGE, instance_digest, path_of, plain
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
        top = name.partition(".")[0]
        if name != top and spec_of(top) is None:
            return None  # `find_spec` would import it
        try:
            spec = find_spec(name)
        except (Exception, SystemExit):  # an object, or in a package that cannot be imported
            return None
        installed = spec and spec.has_location and _is_installed(str(spec.origin))
        return None if installed and top not in own else spec

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
    wrappers = [one.entry_point for one in spec.additional_wrappers]
    for text in (spec.entry_point, *wrappers, (spec.kwargs | kwargs).get("generator")):
        if isinstance(text, str) and ":" in text:
            parts.append(load_object(text, f"environment {env_id!r}"))
    return f"{env_id} {_digest(parts, [*kwargs.values(), data])}"


def _digest(value: Any, settings: Iterable[Any]) -> str:
    """A hash of `value`, of the code behind it, and of the folders that `settings` name."""
    pickled = io.BytesIO()
    writer = _Writer(pickled)
    try:
        writer.dump(value)
        parts: list[Any] = [pickled.getvalue()]
        texts = re.findall('"(.+?)"', json.dumps(plain(list(settings)), ensure_ascii=False))
        for folder in map(os.path.expanduser, texts):
            for file in sorted(Path(folder).rglob("*")) if os.path.isdir(folder) else ():
                parts.append((str(file), file.stat().st_size, file.stat().st_mtime_ns))
        if writer.foreign:
            # The user's code may reach any loaded module by ways that no text shows.
            # Importing packages comes first: their variables count, too.
            files = user_files({*user_modules(), *writer.imported})
            for name in writer.imported & files.keys():
                importlib.import_module(name)
            parts += [(name, _content(str(file))) for name, file in files.items()]
            parts += [(name, _plain_variables(one)) for name, one in user_modules().items()]
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
    file = os.path.expanduser(text)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if os.path.isfile(file) else ""


def _plain_variables(module: ModuleType) -> str:
    """The variables of a module as JSON; null for what JSON cannot hold."""
    variables = {name: one for name, one in vars(module).items() if not name.startswith("__")}
    return json.dumps(variables, default=lambda _: None, skipkeys=True)


class _Writer(Copier):
    """Pickles a value with the user's code in it: the same bytes for equal state in any process.

    Attributes:
        foreign: whether a value refers to code beyond this package and what it computes with.
        imported: what the user's functions import while they run.
    """

    federation = None

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.foreign = False
        self.imported: set[str] = set()

    def persistent_id(self, value: Any) -> Any:
        """What stands for a value whose pickle would miss a file, or differ where it is equal."""
        kind = type(value)
        if kind in (str, bytes) or isinstance(value, Path):
            return f"{value!r} {_content(os.fsdecode(value))}"
        if kind in (set, frozenset):
            return kind.__name__, sorted(value, key=repr)
        return None

    def reducer_override(self, value: Any) -> Any:
        """What `value` consists of; functions and classes by value if they are the user's."""
        if isinstance(value, CodeType):
            bare = value.replace(co_consts=(), co_filename="", co_firstlineno=0, co_linetable=b"")
            return CodeType, (marshal.dumps(bare, 2), value.co_consts)
        if isinstance(value, (*GENERATORS, io.IOBase)):  # by their state; files have none
            return value.__reduce_ex__(2)
        if isinstance(value, _lru_cache_wrapper):
            return cached_again, (value.__wrapped__, value.cache_parameters())
        if type(value) is Instance:
            return Instance, (instance_digest(value),), value.rewards
        named = isinstance(value, FunctionType | BuiltinFunctionType | type | ModuleType)
        users = named and self._is_users(value)
        if users and isinstance(value, FunctionType):
            self.imported |= set(imports_of(value.__code__))
            return FunctionType, (value.__code__,), _state(value)
        reduced = super().reducer_override(value)
        if users and isinstance(value, type) and len(reduced) > 2:  # not `NoneType`
            for name in ("__firstlineno__", "__static_attributes__", "__annotations_cache__"):
                reduced[2][0].pop(name, None)
        return reduced

    def _is_users(self, value: Any) -> bool:
        """Whether a function, class or module is the user's. Raises `Unhashable` if it reaches
        beyond text and state."""
        module = value if isinstance(value, ModuleType) else home(value)
        top = "" if module is None else module.__name__.partition(".")[0]
        if {top, value.__name__} & _OUTSIDE:
            raise _reaches_out("it", value.__name__)
        users = is_foreign(module)
        computes = top in (PACKAGE, "numpy", "scipy", "gymnasium", *sys.stdlib_module_names)
        self.foreign |= users or not computes
        return users


def _state(function: FunctionType) -> list[Any]:
    """The values that a function refers to. Raises `Unhashable` if it reaches beyond them."""
    # The names of `import a.b` are one text.
    texts = chain.from_iterable(code.co_names for code in codes(function.__code__))
    names = {name for text in texts for name in text.split(".")}
    if outside := names & _OUTSIDE:
        raise _reaches_out(function.__qualname__, min(outside))
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    used = [function.__globals__[name] for name in sorted(names & function.__globals__.keys())]
    return [function.__defaults__, function.__kwdefaults__, function.__dict__, cells, used]


def _reaches_out(user: str, found: str) -> Unhashable:
    return Unhashable(f"{user} uses {found}, and a key cannot hold what the code finds there")
