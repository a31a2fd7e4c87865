"""What the agents of one call send up, put together block after block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.payloads import Payload


class Inbox:
    """The messages that the blocks of one call send."""

    def __init__(self) -> None:
        self._first: Sequence[Payload] | None = None
        self._parts: list[Sequence[np.ndarray]] = []

    def put(self, payloads: Sequence[Payload], arrived: Sequence[np.ndarray]) -> None:
        """Store what arrived from the next block of agents, (n, ...) for each payload."""
        if self._first is None:
            self._first = payloads
        else:
            before = [
                (one.kind, part.shape[1:])
                for one, part in zip(self._first, self._parts[0], strict=True)
            ]
            now = [(one.kind, part.shape[1:]) for one, part in zip(payloads, arrived, strict=True)]
            if before != now:
                raise UserError(
                    f"a program sends every agent's message in the same form, got {before}, then {now}"
                )
            for one, other in zip(self._first, payloads, strict=True):
                _check_known(one, other)
        self._parts.append(arrived)

    def messages(self) -> list[np.ndarray]:
        """For each payload that an agent sends an array (n_agents, ...), the centre's own; reals as
        float64."""
        found = []
        for parts in zip(*self._parts, strict=True):
            whole = np.concatenate(parts)
            found.append(whole.astype(np.float64) if whole.dtype == np.float32 else whole)
        return found


def _check_known(one: Payload, other: Payload) -> None:
    """Messages of two blocks must use one alphabet:

    one that depends on rewards is not known to both sides.
    """
    for name in ("among", "at_most", "grid"):
        if not np.array_equal(getattr(one, name, None), getattr(other, name, None)):  # type: ignore[arg-type]
            raise UserError(
                f"{one.kind}: `{name}` differs from block to block; it must be known to the centre and to every agent "
                "before anything is pulled"
            )
