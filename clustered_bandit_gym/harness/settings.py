"""What a row says about its player and its environment: plain values, and how to build both again
from them.

Plain values are for readers and for `replay`. They may lose detail; the key of a stored row is in
`identity`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

import gymnasium as gym
import numpy as np

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.errors import UserError, suggestion
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.imports import load_object
from clustered_bandit_gym.policy import Policy, StepPolicy

PACKAGE = "clustered_bandit_gym"
Env = gym.Env[Any, Any]
#: Arrays with more entries than this are shown by their hash.
_LARGEST_ARRAY = 1000


@dataclass(frozen=True)
class Cell:
    """An environment's id and the keywords it is made with."""

    env_id: str
    kwargs: Values = field(default_factory=dict)

    @cached_property
    def plain_kwargs(self) -> Values:
        """The keywords as rows show them."""
        return dict(plain(self.kwargs))

    def make(self) -> Env:
        """The environment; raises `UserError` where the id or the keywords are wrong."""
        try:
            env = gym.make(self.env_id, disable_env_checker=True, **self.kwargs)
        except gym.error.UnregisteredEnv as error:
            meant = suggestion(self.env_id, gym.registry)
            raise UserError(
                f"there is no environment {self.env_id}{meant}; `clustered-bai list` shows them"
            ) from error
        except gym.error.Error as error:
            raise UserError(str(error)) from error
        except TypeError as error:
            said = str(error).partition(" was raised from")[0]  # Gymnasium repeats all keywords
            raise UserError(f"{self.env_id}: {said}") from error
        if not hasattr(env.unwrapped, "new_federation"):
            raise UserError(f"{self.env_id} is not an environment of clustered bandits")
        return env


def plain(value: Any) -> Any:
    """`value` as JSON can hold it. Instances become ``{"instance": digest}``, other objects
    ``{"object": ...}``."""
    if isinstance(value, np.generic | np.ndarray) and value.size <= _LARGEST_ARRAY:
        value = value.tolist()
    if isinstance(value, int | float | None):
        return value
    if isinstance(value, str | Path):
        return writable(str(value))
    if isinstance(value, dict):
        return {writable(str(key)): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Instance):
        return {"instance": instance_digest(value)}
    if isinstance(value, np.ndarray):
        return {"array": hashlib.sha256(value.tobytes()).hexdigest(), "shape": list(value.shape)}
    if isinstance(value, type | FunctionType):
        return {"object": path_of(value)}
    if is_dataclass(value):
        settings = {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.init}
        return {"object": path_of(type(value)), "settings": settings}
    return {"repr": writable(repr(value))}


def writable(text: str) -> str:
    """`text` with lone surrogates, which cannot be printed or written to a file, as escapes."""
    return str.encode(text, "utf-8", "backslashreplace").decode("utf-8")


def revive(key: str, value: Any, allow: Sequence[str] = ()) -> Any:
    """The environment keyword `key` from its plain form; for `allow` see `trusted`."""
    if key == "generator" and isinstance(value, str) and ":" in value:
        trusted(value, allow)
    if not isinstance(value, dict) or not value.keys() & {"instance", "array", "repr", "object"}:
        return value
    if "object" not in value:
        raise UserError(f"a row does not hold {key} itself; pass it: cbg.replay(row, {key}=...)")
    target = trusted(str(value["object"]), allow)
    return target(**value["settings"]) if "settings" in value else target


def check_allowed(path: str, allow: Sequence[str]) -> str:
    """The module of the code that a row names as ``module:name``. Refused unless it is of this
    package or allowed by the caller."""
    module = path.partition(":")[0]
    if module not in allow and module.partition(".")[0] != PACKAGE:
        raise UserError(
            f'the row names {path}, which is not allowed to run: allow=["{module}"] if you trust it'
        )
    return module


def trusted(path: str, allow: Sequence[str]) -> Any:
    """The class or function ``module:name`` that a row names, if naming it can do no harm. A row
    may come from anybody, so that it may name classes of this package that are policies or
    dataclasses such as generators, and what else is in the modules `allow`. Nothing else is
    imported."""
    module = check_allowed(path, allow)
    target = load_object(path, "row")
    own_class = isinstance(target, type) and target.__module__ == module
    harmless = own_class and (is_dataclass(target) or issubclass(target, Policy | StepPolicy))
    if module not in allow and not harmless:
        raise UserError(f"{path} is neither a policy nor a generator")
    return target


def instance_digest(instance: Instance) -> str:
    """A hash of everything in the instance that a play depends on."""
    parts = {"means": instance.means, "clusters": instance.clusters, **instance.rewards.to_dict()}
    return hashlib.sha256(json.dumps(plain(parts)).encode()).hexdigest()[:24]


def label_of(policy: Any) -> str:
    """The policy's name on the board."""
    label = getattr(policy, "label", None) or getattr(policy, "name", None)
    return writable(str(label)) if label else type(policy).__name__


def settings_of(policy: Any) -> Values:
    """A policy's settings as plain values: its `settings`, or its public attributes."""
    settings = getattr(policy, "settings", None)
    if not isinstance(settings, dict):
        attributes = getattr(policy, "__dict__", {})
        settings = {key: one for key, one in attributes.items() if not key.startswith("_")}
    return dict(plain(settings))


def rebuild_policy(path: str, settings: Values, allow: Sequence[str] = ()) -> Any:
    """A policy from ``module:Class`` and the settings in a row; raises `UserError` unless it gets
    these settings. For `allow` see `trusted`."""
    target = trusted(path, allow)
    try:
        policy = target(**settings)
        if settings_of(policy) == settings:
            return policy
    except TypeError:
        pass
    raise UserError(f"{path} cannot be rebuilt from the settings {settings}; pass policy=...")


def path_of(target: Any) -> str:
    """``module:qualified.name`` of a class or function."""
    return f"{target.__module__}:{target.__qualname__}"
