"""What code refers to, and what of it no key can hold: environment variables, the command line, modules by name.

A function that refers to one of these has no key. Only what the code names is seen: `os.environ` behind an installed
library, or behind `getattr` with a computed name, is not.
"""

from __future__ import annotations

import builtins
import dis
import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

_MISSING = object()
#: By module, the attributes through which a function reaches beyond its own code and state.
_DOORS: dict[str, frozenset[str]] = {
    "os": frozenset({"environ", "environb", "getenv", "getenvb"}),
    "sys": frozenset({"argv", "orig_argv"}),
    "importlib": frozenset({"import_module", "__import__", "reload", "resources"}),
    "importlib.resources": frozenset(
        {"files", "open_text", "open_binary", "read_text", "read_binary", "path"}
    ),
    "pkgutil": frozenset({"get_data"}),
    "runpy": frozenset({"run_module", "run_path"}),
    "builtins": frozenset({"__import__", "globals", "exec", "eval"}),
}


def door(value: Any) -> str | None:
    """The name of `value`, if it is one of the objects through which code reaches beyond itself."""
    for module in (os, sys, importlib, builtins):
        for name in _DOORS[module.__name__]:
            if value is getattr(module, name, _MISSING):
                return f"{module.__name__}.{name}" if module is not builtins else name
    if isinstance(value, FunctionType) and value.__name__ in _DOORS.get(
        _public(value.__module__ or ""), ()
    ):
        return f"{_public(value.__module__)}.{value.__name__}"
    return None


def door_of_module(module: str, attributes: Iterable[str]) -> str | None:
    """The first of `attributes` that is such a door in the module of this name."""
    found = sorted(_DOORS.get(module, frozenset()).intersection(attributes))
    return f"{module}.{found[0]}" if found else None


def door_of_names(names: set[str], variables: Mapping[str, Any]) -> str | None:
    """A door among the global names of a function: ``__file__``, or a built-in function such as `globals`."""
    if "__file__" in names:
        return "__file__"
    return next(
        (name for name in sorted(names & _DOORS["builtins"]) if name not in variables), None
    )


def _public(module: str) -> str:
    """`importlib.resources` keeps its functions in private modules."""
    return "importlib.resources" if module.startswith("importlib.resources.") else module


def references(code: CodeType) -> tuple[set[str], frozenset[str], set[str]]:
    """Names of globals, of attributes and of imported modules in a function and the functions inside it.

    Strings count as attributes: they may be arguments of `getattr`.
    """
    names, attributes, imported = set(), set(), set()
    for instruction in _instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(instruction.argval)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            attributes.add(instruction.argval)
        elif instruction.opname == "IMPORT_NAME":
            imported.add(instruction.argval)
        elif instruction.opname.startswith("LOAD_CONST") and isinstance(instruction.argval, str):
            attributes.add(instruction.argval)
    return names, frozenset(attributes), imported - {""}


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
