"""Parses the arguments of a vector environment's `reset`; raises `UserError` with the reason if they are invalid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.seeds import Seed


class ResetOptions(NamedTuple):
    """The options of a reset.

    Attributes:
        which: (n,) numbers of the sub-environments to reset.
        instance_seed, play_seed: one seed for each sub-environment of the vector; None if not given.
    """

    which: Ints
    instance_seed: Sequence[Seed] | None
    play_seed: Sequence[Seed] | None


def read_reset_options(
    options: dict[str, Any] | None, num_envs: int, started: bool
) -> ResetOptions:
    """The `options` of `reset`. Unless `started`, `reset_mask` must name all sub-environments."""
    options = dict(options or {})
    mask = options.pop("reset_mask", None)
    which = np.arange(num_envs) if mask is None else _masked(mask, num_envs, started)
    if unknown := set(options) - {"instance_seed", "play_seed"}:
        raise UserError(
            f"unknown reset options {sorted(unknown)}; known: reset_mask, instance_seed, play_seed"
        )
    given = {key: _one_for_each(value, num_envs, key) for key, value in options.items()}
    return ResetOptions(which, given.get("instance_seed"), given.get("play_seed"))


def read_seed(seed: int | Sequence[int | None] | None, num_envs: int) -> int | list[int] | None:
    """The `seed` of `reset`: one number, a number for each sub-environment, or None if none is given."""
    if seed is None or isinstance(seed, int | np.integer):
        return None if seed is None else int(seed)
    given = _one_for_each(list(seed), num_envs, "seed")
    numbers = [int(one) for one in given if one is not None]
    if numbers and len(numbers) < num_envs:
        raise UserError("give every sub-environment a seed, or none: they share one stream")
    return numbers or None


def new_stream(seed: int | list[int] | None) -> tuple[np.random.Generator, int]:
    """The stream that all sub-environments share, and what `np_random_seed` says: −1 for several seeds."""
    return (np.random.default_rng(seed), -1) if isinstance(seed, list) else seeding.np_random(seed)


def _masked(mask: Any, num_envs: int, started: bool) -> Ints:
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_envs,):
        raise UserError(f"reset_mask must be a boolean array of shape ({num_envs},), got {mask!r}")
    if not started and not mask.all():
        raise ResetNeeded("The first reset must reset all sub-environments: leave out reset_mask")
    return np.flatnonzero(mask)


def _one_for_each(value: Any, num_envs: int, name: str) -> Sequence[Any]:
    """`value` for every sub-environment, or the values that it lists."""
    if not isinstance(value, list | tuple | np.ndarray):
        return [value] * num_envs
    if len(value) != num_envs:
        raise UserError(
            f"{name}: expected one value for each of {num_envs} sub-environments, got {len(value)}"
        )
    return value.tolist() if isinstance(value, np.ndarray) else value
