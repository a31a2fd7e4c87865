"""What was played: specs of environments and policies as plain JSON, exact enough to be the key of a stored trial.

A stored row may be used again only if nothing that made it has changed: hence a policy's spec holds a hash of its
source, of the user's modules that it draws on, and of the files that its settings name.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import site
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym.game.instance import Instance

PACKAGE = "clustered_bandit_gym"
#: Folders of the package that change no result, or are hashed elsewhere. Editing any other makes older rows unusable.
_NO_GAME = ("cli", "experiments", "policies", "rendering")

#: Instances met in this process, so that `replay` finds them again by their digest.
_instances: WeakValueDictionary[str, Instance] = WeakValueDictionary()


# --- plain values ----------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """`value` as JSON can hold it. Instances become ``{"instance": digest}``, other objects ``{"object": repr}``."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Instance):
        return {"instance": instance_digest(value)}
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= 1000 else {"array": _sha(value.tobytes()), "shape": list(value.shape)}
    if isinstance(value, dict):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        fields = {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
        return {"object": path_of(type(value)), "settings": fields, "source": source_hash(type(value))}
    if callable(value) and hasattr(value, "__module__"):
        target = value if isinstance(value, type | FunctionType) else type(value)
        return {"object": path_of(target), "source": source_hash(target)}
    return {"object": path_of(type(value)), "repr": repr(value)}


def canonical(value: Any) -> str:
    """One text for equal plain values: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def instance_digest(instance: Instance) -> str:
    """A hash of everything in the instance that a play depends on; remembers the instance for `find_instance`."""
    digest = hashlib.sha256()
    for array in (instance.means, instance.clusters):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    model = instance.rewards.to_dict()
    for key in sorted(model):
        digest.update(key.encode() + np.asarray(model[key]).astype("U" if key == "kind" else float).tobytes())
    name = digest.hexdigest()[:24]
    _instances[name] = instance
    return name


def find_instance(digest: str) -> Instance | None:
    """The instance of this digest, if this process has met it and still holds it."""
    return _instances.get(digest)


# --- environments ----------------------------------------------------------------------------------------------------


def env_spec(env_id: str, env_kwargs: dict[str, Any]) -> str:
    """The key of an environment: its id, every keyword given, and a hash of the files that keywords name."""
    return canonical({"id": env_id, "kwargs": plain(env_kwargs)} | _named_files(env_kwargs))


# --- policies --------------------------------------------------------------------------------------------------------


def label_of(policy: Any) -> str:
    """What a policy is called on the board."""
    label = getattr(policy, "label", None) or getattr(policy, "name", None)
    return str(label) if label else type(policy).__name__


def settings_of(policy: Any) -> dict[str, Any]:
    """A policy's settings as plain values."""
    settings = getattr(policy, "settings", None)
    if not isinstance(settings, dict):
        settings = {key: value for key, value in getattr(policy, "__dict__", {}).items() if not key.startswith("_")}
    result = plain(settings)
    assert isinstance(result, dict)
    return result


def policy_spec(policy: Any) -> str:
    """The key of a policy: its class, its settings, a hash of its source and of the files its settings name."""
    settings = settings_of(policy)
    spec: dict[str, Any] = {
        "class": path_of(type(policy)),
        "settings": settings,
        "source": source_hash(type(policy)),
    }
    return canonical(spec | _named_files(settings))


def rebuild_policy(path: str, settings: dict[str, Any]) -> Any:
    """A policy from ``module:Class`` and its settings, as a row holds them; refused unless it comes out with them."""
    module_name, _, class_name = path.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
        for part in class_name.split("."):
            target = getattr(target, part)
        parameters = inspect.signature(target).parameters.values()
        takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
        names = {parameter.name for parameter in parameters}
        policy = target(**{key: value for key, value in settings.items() if takes_all or key in names})
        if settings_of(policy) != settings:
            raise ValueError(f"its settings came out as {settings_of(policy)}")
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"cannot make the policy {path} with settings {settings} again ({error}); "
            "hand it over: replay(row, policy=...)"
        ) from error
    return policy


def path_of(target: Any) -> str:
    """``module:qualified.name`` of a class or function."""
    return f"{target.__module__}:{target.__qualname__}"


# --- versions and hashes ---------------------------------------------------------------------------------------------


@cache
def versions() -> str:
    """Versions of the package (with a hash of the files that make the game) and of NumPy."""
    root = Path(cbg.__file__).parent
    files = [file for file in sorted(root.rglob("*.py")) if not set(_NO_GAME) & set(file.relative_to(root).parts)]
    files += [Path(cbg.envs_registry.__file__)]
    digest = _sha(*(file.read_bytes() for file in files))
    return f"{PACKAGE} {cbg.__version__} ({digest[:12]}), numpy {np.__version__}"


def source_hash(target: Any) -> str:
    """A hash of the code behind a class or function.

    For a class of an importable module: the text of that module and of every user's module it draws on (not of
    installed packages). For one defined in a script or a notebook (`__main__`): its compiled code and, through the
    names it uses, the functions, classes and constants of the script behind it, so that other edits of the script do no
    harm.
    """
    digest = hashlib.sha256()
    modules: dict[str, ModuleType] = {}
    seen: set[int] = set()
    for base in reversed(target.__mro__) if isinstance(target, type) else (target,):
        if base.__module__ == "__main__":
            digest.update(base.__qualname__.encode())
            _hash_object(base, digest, modules, seen)
        else:
            _collect_modules(sys.modules.get(base.__module__), modules)
    for name in sorted(modules):
        digest.update(name.encode() + _module_text(modules[name]))
    return digest.hexdigest()[:24]


def _collect_modules(module: ModuleType | None, found: dict[str, ModuleType]) -> None:
    """Adds `module` and, recursively, what it imports, as far as it is a user's code or a policy of this package."""
    if module is None or module.__name__ in found or not _is_tracked(module):
        return
    found[module.__name__] = module
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            _collect_modules(value, found)
        elif isinstance(value, type | FunctionType):
            _collect_modules(sys.modules.get(value.__module__), found)


@cache
def _installed() -> tuple[Path, ...]:
    """Folders of the standard library and of installed packages."""
    names = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    names.update(site.getsitepackages())
    names.add(site.getusersitepackages())
    return tuple(Path(name).resolve() for name in names)


def _is_tracked(module: ModuleType) -> bool:
    name, file = module.__name__, getattr(module, "__file__", None)
    if name == "__main__" or not file:
        return False
    if name == PACKAGE or name.startswith(f"{PACKAGE}."):
        # The rest of the package is in `versions`, or changes no result.
        return name.startswith(f"{PACKAGE}.policies")
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in _installed())


def _module_text(module: ModuleType) -> bytes:
    file = Path(str(module.__file__))
    return file.read_bytes() if file.exists() else b""


def _hash_object(value: Any, digest: Any, modules: dict[str, ModuleType], seen: set[int]) -> None:
    """Feeds the code of a class or function of `__main__`, and what its code refers to, into `digest`."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, type):
        for name, member in sorted(vars(value).items()):
            if name in {"__doc__", "__module__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__"}:
                continue
            digest.update(name.encode())
            inner = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            accessors = (inner.fget, inner.fset) if isinstance(inner, property) else (inner,)
            for part in accessors:
                _hash_value(part, digest, modules, seen)
        return
    function = inspect.unwrap(value)
    _hash_code(function.__code__, digest)
    _hash_value(function.__defaults__, digest, modules, seen)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            digest.update(name.encode())
            _hash_value(function.__globals__[name], digest, modules, seen)


def _hash_value(value: Any, digest: Any, modules: dict[str, ModuleType], seen: set[int]) -> None:
    if isinstance(value, ModuleType):
        _collect_modules(value, modules)
    elif isinstance(value, type | FunctionType):
        if value.__module__ == "__main__":
            _hash_object(value, digest, modules, seen)
        else:
            _collect_modules(sys.modules.get(value.__module__), modules)
    elif isinstance(value, bool | int | float | str | bytes | tuple | type(None)):
        digest.update(repr(value).encode())
    elif isinstance(value, np.ndarray):
        digest.update(value.tobytes())


def _hash_code(code: CodeType, digest: Any) -> None:
    digest.update(code.co_code + repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _hash_code(constant, digest)
        elif isinstance(constant, frozenset):
            digest.update(repr(sorted(map(repr, constant))).encode())
        else:
            digest.update(repr(constant).encode())


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _named_files(settings: dict[str, Any]) -> dict[str, Any]:
    named = {key: _file_hash(str(value)) for key, value in settings.items() if isinstance(value, str | Path)}
    files = {key: digest for key, digest in named.items() if digest}
    return {"files": files} if files else {}


def _file_hash(text: str) -> str | None:
    """Hash of the file that a setting names, e.g. a trained model; None if it names none."""
    try:
        path = Path(text)
        return _sha(path.read_bytes())[:24] if text and path.is_file() else None
    except (OSError, ValueError):
        return None


def _sha(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()
