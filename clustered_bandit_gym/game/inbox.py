"""What the agents of one call send up, put together block after block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.payloads import Payload

#: Reals arrive in single precision unless c_r pays for more; the centre gets them as float64.
SINGLE = np.dtype(np.float32)


class Inbox:
    """The messages of `n_agents` agents.

    `messages`: for each payload that an agent sends an array (n_agents, ...), the centre's own.
    """

    def __init__(self, n_agents: int) -> None:
        self.messages: list[np.ndarray] = []
        self._n_agents = n_agents
        self._form: list[Any] | None = None
        self._first: Sequence[Payload] = ()

    def put(self, start: int, payloads: Sequence[Payload], arrived: Sequence[np.ndarray]) -> None:
        """Store what arrived from one block of agents, (n, ...) for each payload; the block begins at `start`."""
        form = [
            (payload.kind, part.shape[1:]) for payload, part in zip(payloads, arrived, strict=True)
        ]
        if self._form is None:
            self._form, self._first = form, payloads
            types = [np.float64 if part.dtype is SINGLE else part.dtype for part in arrived]
            if arrived and len(arrived[0]) == self._n_agents:
                self.messages = [
                    part.astype(dtype) for part, dtype in zip(arrived, types, strict=True)
                ]
                return
            shapes = [(self._n_agents, *part.shape[1:]) for part in arrived]
            self.messages = [
                np.empty(shape, dtype) for shape, dtype in zip(shapes, types, strict=True)
            ]
        elif form != self._form:
            raise UserError(
                f"a program sends every agent's message in the same form, got {self._form}, then {form}"
            )
        else:
            for one, other in zip(self._first, payloads, strict=True):
                _check_known(one, other)
        for message, part in zip(self.messages, arrived, strict=True):
            message[start : start + len(part)] = part


def _check_known(one: Payload, other: Payload) -> None:
    """Messages of two blocks are written in the same alphabet: a set that depends on rewards is not known to both
    sides."""
    for name in ("among", "at_most", "grid"):
        mine, theirs = getattr(one, name, None), getattr(other, name, None)
        if mine is not theirs and not np.array_equal(mine, theirs):  # type: ignore[arg-type]
            raise UserError(
                f"{one.kind}: `{name}` differs from block to block; it must be known to the centre and to every agent "
                "before anything is pulled"
            )
