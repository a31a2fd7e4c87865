"""The user's modules behind a policy: which modules its code imports, and what is in them.

Import statements are read from the text with `ast`, wherever they stand, so that ``from conf import TIMES`` counts and
a module that is imported only inside a function counts too. Modules found by other means (`importlib.import_module`,
`exec`) are not seen here; code that uses such means has no key, see `outside`.
"""

from __future__ import annotations

import ast
import hashlib
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from importlib.util import resolve_name
from pathlib import Path

PACKAGE = "clustered_bandit_gym"
#: Folders of the package that cannot change a row. Everything else is part of every key.
NO_EFFECT = ("harness/output", "cli", "reproduce", "suite", "envs/rendering")


def package_files() -> dict[str, Path]:
    """Every file of the installed package that can change a row, by its path inside the package.

    In an editable installation `policies` and `envs_registry` lie beside the package, not in it.
    """
    roots = {"": Path(__file__).parents[1]}
    for name in ("policies", "envs_registry"):
        spec = _find(f"{PACKAGE}.{name}")
        if spec is None or not spec.origin:
            raise RuntimeError(f"the installation is incomplete: {PACKAGE}.{name} is missing")
        roots[f"{name}/"] = Path(spec.origin).parent
    files = {
        prefix + file.relative_to(root).as_posix(): file
        for prefix, root in roots.items()
        for file in root.rglob("*")
        if "__pycache__" not in file.parts and file.is_file()
    }
    return {
        name: file
        for name, file in sorted(files.items())
        if not name.startswith(tuple(f"{n}/" for n in NO_EFFECT))
    }


def is_user_module(name: str) -> bool:
    """Whether `name` is code that the key must hold: not the standard library, nor installed, nor hashed already."""
    if name == PACKAGE or name.startswith(f"{PACKAGE}."):
        inside = name[len(PACKAGE) + 1 :].replace(".", "/") + "/"
        return inside.startswith(tuple(f"{folder}/" for folder in NO_EFFECT))
    if name.partition(".")[0] in sys.builtin_module_names:
        return False
    if name == "__main__":
        return True
    spec = _find(name)
    if spec is None or not spec.has_location or not spec.origin:
        # A module without a file is a namespace package, or made by hand: the user's, unless Python is built that way.
        return name.partition(".")[0] not in sys.stdlib_module_names
    path = Path(spec.origin).resolve()
    return not any(path.is_relative_to(folder) for folder in _installed())


def exists(name: str) -> bool:
    """Whether a module of this name can be found, without importing it."""
    return _find(name) is not None


def reached(names: Iterable[str], roots: Iterable[str]) -> dict[str, str | None]:
    """Modules that the modules `names` and `roots` reach by import statements, themselves included.

    An installed package counts as the user's code if one of `roots` is in it: its author may reinstall it under the
    same version.

    Returns:
        For a user's module the hash of its file; for an installed one (its top name only) the version; None for a
        module that cannot be found or has no file. The standard library and this package are left out.
    """
    waiting = sorted({*names, *roots})
    own = {name.partition(".")[0] for name in roots} - {PACKAGE, *sys.stdlib_module_names}
    modules: dict[str, str | None] = {}
    installed: dict[str, str | None] = {}
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        if name in modules or name == "__main__" or top in installed:
            continue
        if top not in own and not is_user_module(name):
            if top != PACKAGE and top not in sys.stdlib_module_names:
                installed[top] = _version(top)
            continue
        if "." in name:
            waiting.append(name.rpartition(".")[0])
        spec = _find(name)
        file = Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None
        if file is None or not file.is_file():
            modules[name] = None
            continue
        content = file.read_bytes()
        modules[name] = hashlib.sha256(content).hexdigest()
        if file.suffix == ".py":
            is_package = spec is not None and spec.submodule_search_locations is not None
            waiting += _imports(content, name if is_package else name.rpartition(".")[0])
    return dict(sorted((modules | installed).items()))


def _imports(content: bytes, package: str) -> Iterator[str]:
    """Names of the modules in the import statements of a source text."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            try:
                base = resolve_name(relative, package) if node.level else relative
            except (
                ImportError
            ):  # beyond the top-level package: the module cannot be imported that way
                continue
            yield base
            spec = _find(base)
            if spec is not None and spec.submodule_search_locations is not None:
                names = [f"{base}.{alias.name}" for alias in node.names]
                yield from (name for name in names if _find(name) is not None)


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
            spec.submodule_search_locations = [
                str(folder) for one in path or () if (folder := Path(one, last)).is_dir()
            ]
        if spec is not None:
            return spec
    return None


@cache
def _installed() -> tuple[Path, ...]:
    """Folders of the standard library and of installed packages."""
    names = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    names.update(site.getsitepackages())
    # A virtual environment may see the packages of the Python that it was made from.
    names.update(name for name in sys.path if Path(name).name in ("site-packages", "dist-packages"))
    names.add(site.getusersitepackages())
    return tuple(Path(name).resolve() for name in names)


@cache
def _version(top: str) -> str | None:
    try:
        return version(top)
    except (PackageNotFoundError, ValueError):
        return None
