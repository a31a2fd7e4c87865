"""Objects of a user's own, named as ``module:attribute``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from clustered_bandit_gym.errors import UserError


def load_module(name: str, what: str) -> ModuleType:
    """Import `name`; the current folder is searched last. `what` names the request in error
    messages.
    """
    if (folder := str(Path.cwd())) not in sys.path:
        # A console script does not search the current folder, where people keep their own code.
        # Last, so that nothing there can replace an installed package.
        sys.path.append(folder)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise UserError(
                f"{what}: {name} imports {error.name!r}, which is not installed"
            ) from None
        raise UserError(
            f"{what}: there is no module {name!r}; looked for {name}.py in this folder and in what "
            "is installed"
        ) from None
    except SyntaxError as error:
        raise UserError(f"{what}: {error.filename}, line {error.lineno}: {error.msg}") from None
    except Exception as error:
        raise UserError(
            f"{what}: importing {name} raised {type(error).__name__}: {error}"
        ) from error


def load_object(spec: str, what: str) -> Any:
    """The object that ``module:attribute`` names."""
    module_name, _, attribute = spec.partition(":")
    module = load_module(module_name, what)
    if not hasattr(module, attribute):
        raise UserError(f"{what}: module {module_name!r} has no {attribute!r}")
    return getattr(module, attribute)
