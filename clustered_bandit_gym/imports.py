"""Objects of a user's own, named as ``module:attribute``."""

from __future__ import annotations

import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from clustered_bandit_gym.errors import UserError


def load_object(spec: str, what: str) -> Any:
    """The object that ``module:attribute`` names; `what` names the request in error messages."""
    if (folder := str(Path.cwd())) not in sys.path:
        # A console script does not search the current folder, where people keep their own code.
        # Last, so that nothing there can replace an installed package.
        sys.path.append(folder)
    try:
        return resolve_name(spec)
    except Exception as error:
        hint = "; leave out .py" * (".py:" in spec)
        raise UserError(
            f"{what}: cannot load {spec} from this folder or from what is installed: "
            f"{type(error).__name__}: {error}{hint}"
        ) from error
