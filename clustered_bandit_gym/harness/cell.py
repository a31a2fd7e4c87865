"""A setting of an environment to be played."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import gymnasium as gym

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.settings import plain


@dataclass(frozen=True, eq=False)
class Cell:
    """An environment's id and the keywords it is made with.

    Cells are equal if rows show them alike, so that rows can be grouped by their cells.
    """

    env_id: str
    kwargs: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def plain_kwargs(self) -> dict[str, Any]:
        """The keywords as rows show them."""
        result: dict[str, Any] = plain(self.kwargs)
        return result

    @cached_property
    def _text(self) -> str:
        return json.dumps([self.env_id, self.plain_kwargs], sort_keys=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self._text == other._text

    def same(self, other: Cell) -> bool:
        """Whether both are one setting: objects that only look alike in rows may differ."""
        plain_types = str | int | float | list | tuple | dict | None
        return self == other and all(
            value is other.kwargs[key] or isinstance(value, plain_types)
            for key, value in self.kwargs.items()
        )

    def __hash__(self) -> int:
        return hash(self._text)

    def make(self) -> gym.Env[Any, Any]:
        """The environment; raises `UserError` where the id or the keywords are wrong."""
        try:
            env = gym.make(self.env_id, disable_env_checker=True, **self.kwargs)
        except gym.error.Error as error:
            raise UserError(f"{error} (`clustered-bai list` shows the environments)") from error
        except TypeError as error:
            raise UserError(f"{self.env_id}: {error}") from error
        if not hasattr(env.unwrapped, "new_federation"):
            raise UserError(f"{self.env_id} is not an environment of clustered bandits")
        return env
