"""What was sent, and what it costs.

A real number costs `c_r` units; a symbol out of a set X that both sides know costs `c_b`·⌈log2 |X|⌉. Payloads know
their own price per agent; the `Ledger` adds them up by phase, direction and kind, so that a message to a million agents
is one entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

Direction = Literal["up", "down"]


def bits_for(size: int) -> int:
    """⌈log2 size⌉, exactly, for whole numbers ≥ 1 of any length."""
    if size < 1:
        raise ValueError(f"a set of symbols must have at least one element, got {size}")
    return (int(size) - 1).bit_length()


@lru_cache(maxsize=4096)
def _subset_bits(n_arms: int, at_most: int) -> int:
    return bits_for(sum(comb(n_arms, size) for size in range(at_most + 1)))


class Payload:
    """Something to send: the same kind to or from every agent of a message, hence one price per agent.

    `values` is what arrives: an array with one row per agent, or without that axis where all agents get the same.
    """

    kind: str
    values: np.ndarray
    bits: int = 0
    reals: int = 0
    _item_ndim: int = 0

    def rows(self, n_agents: int) -> np.ndarray:
        """The values as (n_agents, ...), a view; `ValueError` where they are of another length."""
        if self.values.ndim == self._item_ndim:
            if n_agents == 1:  # what broadcast_to does, in a tenth of the time
                row = self.values[None]
                row.setflags(write=False)
                return row
            return np.broadcast_to(self.values, (n_agents, *self.values.shape))
        if self.values.shape[0] != n_agents:
            raise ValueError(f"{self.kind}: {self.values.shape[0]} rows for {n_agents} agents")
        return self.values


class ArmIndex(Payload):
    """One arm of a set that both sides know: ⌈log2 |set|⌉ bits.

    Args:
        values: (n,) arms.
        among: the number of arms K (the set is 0..K−1), or the arms of the set.
    """

    kind = "arm"

    def __init__(self, values: ArrayLike, among: int | ArrayLike) -> None:
        self.values = _integers(values, "an arm index")
        if isinstance(among, int | np.integer):
            size, known = int(among), bool(np.all((self.values >= 0) & (self.values < among)))
        else:
            choices = np.unique(_integers(among, "the set of arms"))
            size, known = choices.size, bool(np.isin(self.values, choices).all())
        self.bits = bits_for(size)
        if not known:
            raise ValueError("an arm index lies outside the set it is said to come from")


class ArmSet(Payload):
    """A set of arms: K bits for any subset, or ⌈log2 Σ_{i≤m} C(K, i)⌉ bits if it is known to have at most m arms.

    Args:
        values: (n, K) or (K,) boolean membership.
        at_most: m, known to both sides; None for any subset.
    """

    kind = "arm set"
    _item_ndim = 1

    def __init__(self, values: ArrayLike, at_most: int | None = None) -> None:
        self.values = np.asarray(values)
        if self.values.dtype != np.bool_ or self.values.ndim not in (1, 2):
            raise ValueError("an arm set is a boolean array (agents, arms), or (arms,) for all agents alike")
        n_arms = self.values.shape[-1]
        if at_most is None or at_most >= n_arms:
            self.bits = n_arms
        else:
            largest = int(self.values.sum(axis=-1).max(initial=0))
            if largest > at_most:
                raise ValueError(f"an arm set has {largest} arms, more than the {at_most} announced")
            self.bits = _subset_bits(n_arms, at_most)


class Reals(Payload):
    """Real numbers: c_r each. `values`: (n,) one per agent, or (n, d) d per agent. `shared` (d,): the same d to all."""

    kind = "real"

    def __init__(self, values: ArrayLike, *, shared: bool = False) -> None:
        self.values = np.asarray(values, dtype=np.float64)
        self._item_ndim = self.values.ndim if shared else max(0, self.values.ndim - 1)
        if self.values.ndim > 2 or (shared and self.values.ndim > 1):
            raise ValueError(f"reals have shape (agents,) or (agents, d), got {self.values.shape}")
        self.reals = int(self.values.size if shared else np.prod(self.values.shape[1:], dtype=np.int64))


class Flag(Payload):
    """Yes or no: one bit. `values`: (n,) booleans, or a single one for all agents alike."""

    kind = "flag"

    def __init__(self, values: ArrayLike) -> None:
        self.values = np.asarray(values)
        if self.values.dtype != np.bool_ or self.values.ndim > 1:
            raise ValueError("a flag is a boolean, or a vector of them")
        self.bits = 1


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


@dataclass(frozen=True)
class Message:
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
        for name, price in (("c_b", c_b), ("c_r", c_r)):
            if not (np.isfinite(price) and price >= 0):
                raise ValueError(f"{name} must be a finite price >= 0, got {price}")
        self.c_b, self.c_r = float(c_b), float(c_r)
        self.totals: dict[tuple[str, Direction, str], Total] = {}
        self._items: list[tuple[str, Direction, str, np.ndarray, Any, int]] | None = [] if itemise else None

    def record(
        self, phase: str, direction: Direction, kind: str, agents: np.ndarray, bits: int | np.ndarray, reals: int
    ) -> None:
        """One message of `kind` to or from each of `agents` (n,); `bits` and `reals` are per message."""
        n = agents.size
        if n == 0:
            return
        total_bits = int(bits.sum()) if isinstance(bits, np.ndarray) else n * bits
        self.total(phase, direction, kind).add(n, total_bits, n * reals)
        if self._items is not None:
            self._items.append((phase, direction, kind, agents.copy(), bits, reals))

    def total(self, phase: str, direction: Direction, kind: str) -> Total:
        """The running sums of one sort of message; callers that send very many keep it at hand and add to it."""
        return self.totals.setdefault((phase, direction, kind), Total())

    @property
    def itemised(self) -> bool:
        """Whether every message is kept."""
        return self._items is not None

    def bill(self, phase: str, direction: Direction, payload: Payload, agents: np.ndarray) -> None:
        """`payload` goes to or comes from each of `agents`."""
        self.record(phase, direction, payload.kind, agents, payload.bits, payload.reals)

    def bits(self, direction: Direction | None = None, phase: str | None = None) -> int:
        """Bits sent as symbols, in one direction or both, in one phase or all."""
        return sum(total.bits for total in self._select(direction, phase))

    def reals(self, direction: Direction | None = None, phase: str | None = None) -> int:
        """Real numbers sent, in one direction or both, in one phase or all."""
        return sum(total.reals for total in self._select(direction, phase))

    @property
    def cost(self) -> float:
        """c_b·bits + c_r·reals."""
        return self.c_b * self.bits() + self.c_r * self.reals()

    def summary(self) -> dict[str, float]:
        """Plain numbers: cost, bits and reals up and down."""
        return {
            "cost": self.cost,
            "bits_up": self.bits("up"),
            "bits_down": self.bits("down"),
            "reals_up": self.reals("up"),
            "reals_down": self.reals("down"),
        }

    def by_phase(self) -> dict[str, float]:
        """Cost of each phase, in the order in which they first sent something."""
        costs: dict[str, float] = {}
        for (phase, _, _), total in self.totals.items():
            costs[phase] = costs.get(phase, 0.0) + self.c_b * total.bits + self.c_r * total.reals
        return costs

    def messages(self) -> Iterator[Message]:
        """Every message, one by one; only with `itemise=True`."""
        if self._items is None:
            raise ValueError("the ledger keeps totals only; make it with itemise=True to list every message")
        for phase, direction, kind, agents, bits, reals in self._items:
            each = np.broadcast_to(bits, agents.shape)
            for agent, price in zip(agents.tolist(), each.tolist(), strict=True):
                yield Message(phase, direction, agent, kind, price, reals)

    def _select(self, direction: Direction | None, phase: str | None) -> Iterator[Total]:
        for (its_phase, its_direction, _), total in self.totals.items():
            if direction in (None, its_direction) and phase in (None, its_phase):
                yield total


def _integers(values: ArrayLike, what: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise ValueError(f"{what} must be integers, got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64, copy=False)
