"""What was sent, and what it costs: totals by phase, direction and kind.

A message to a million agents is one entry, since payloads know their price per agent.

`Reals` are as wide as their price says: 32 bits, a single-precision float, unless c_r ≥ 64·c_b pays
for a double. They are rounded accordingly when they are sent (`Ledger.as_sent`). Averages of pulls
that the centre ordered are not rounded: the sender does not choose them, so they cannot carry a
hidden message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from clustered_bandit_gym._types import Array, Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import amount

Direction = Literal["up", "down"]


@dataclass
class Total:
    """Sums over messages of one sort."""

    messages: int = 0
    bits: int = 0
    reals: int = 0

    def add(self, messages: int, bits: int, reals: int) -> None:
        self.messages += messages
        self.bits += bits
        self.reals += reals


class Message(NamedTuple):
    """One itemised message."""

    phase: str
    direction: Direction
    agent: int
    kind: str
    bits: int
    reals: int


class Ledger:
    """Totals of all messages by (phase, direction, kind), at a price.

    Args:
        c_b: cost of a bit.
        c_r: cost of a real number.
        itemise: keep every message, for `messages()`. Memory grows with their number.
    """

    def __init__(self, c_b: float = 1.0, c_r: float = 32.0, itemise: bool = False) -> None:
        self.c_b = amount(c_b, "c_b")
        self.c_r = amount(c_r, "c_r")
        self.totals: dict[tuple[str, Direction, str], Total] = defaultdict(Total)
        self._items: list[Message] | None = [] if itemise else None

    def record(
        self,
        phase: str,
        direction: Direction,
        kind: str,
        agents: Ints,
        bits: int | Ints,
        reals: int,
    ) -> None:
        """One message of `kind`, with `bits` and `reals` each, to or from `agents` (n,)."""
        n = agents.size
        if n == 0:
            return
        sent = n * bits if isinstance(bits, int) else int(bits.sum())
        self.totals[phase, direction, kind].add(n, sent, n * reals)
        if self._items is not None:
            prices = np.broadcast_to(bits, n).tolist()
            for agent, price in zip(agents.tolist(), prices, strict=True):
                self._items.append(Message(phase, direction, agent, kind, price, reals))

    def as_sent(self, reals: Floats) -> Array:
        """`reals` in the precision that is paid for: float64 if c_r ≥ 64·c_b, else float32."""
        if np.isnan(reals).any():
            raise UserError("a real to be sent is NaN; send a Flag for a missing number")
        if self.c_r >= 64 * self.c_b:
            return reals
        with np.errstate(over="ignore"):
            arrived = reals.astype(np.float32)
        if np.any(np.isinf(arrived) & np.isfinite(reals)):
            raise UserError("a real exceeds single precision; c_r = 64·c_b pays for a double")
        return arrived

    def bits(self, direction: Direction | None = None, phase: str | None = None) -> int:
        """Bits sent as symbols, in one direction or both, in one phase or all."""
        return self._sum(direction, phase).bits

    def reals(self, direction: Direction | None = None, phase: str | None = None) -> int:
        """Real numbers sent, in one direction or both, in one phase or all."""
        return self._sum(direction, phase).reals

    @property
    def cost(self) -> float:
        """c_b·bits + c_r·reals."""
        return self._cost(self._sum(None, None))

    def summary(self) -> dict[str, float]:
        """Plain numbers: cost, bits and reals up and down."""
        up = self._sum("up", None)
        down = self._sum("down", None)
        bits = {"bits_up": up.bits, "bits_down": down.bits}
        return {"cost": self.cost, **bits, "reals_up": up.reals, "reals_down": down.reals}

    def by_phase(self) -> dict[str, float]:
        """Cost of each phase, in the order in which they first sent something."""
        return {phase: self._cost(self._sum(None, phase)) for phase, _, _ in self.totals}

    def messages(self) -> Iterator[Message]:
        """Every message, one by one; only with `itemise=True`."""
        if self._items is None:
            raise UserError("the ledger lists every message only if made with itemise=True")
        return iter(self._items)

    def _cost(self, total: Total) -> float:
        return self.c_b * total.bits + self.c_r * total.reals

    def _sum(self, direction: Direction | None, phase: str | None) -> Total:
        found = Total()
        for (its_phase, its_direction, _), total in self.totals.items():
            if direction in (None, its_direction) and phase in (None, its_phase):
                found.add(total.messages, total.bits, total.reals)
        return found
