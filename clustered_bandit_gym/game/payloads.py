"""Payloads: what can be sent, and what it costs.

A real number costs `c_r` units; a symbol out of a set X that both sides know costs `c_b`·⌈log2
|X|⌉. A payload knows its own price per agent; the `Ledger` adds prices up.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, Ints, Shape
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import check_choice, increasing, indices, read_only, whole


def bits_for(size: int) -> int:
    """⌈log2 size⌉, exactly, for whole numbers ≥ 1 of any length."""
    return (size - 1).bit_length()


@cache
def _bits_for_set(n_arms: int, at_most: int) -> int:
    """⌈log2 of the number of sets of `at_most` arms or fewer, out of `n_arms`⌉."""
    if at_most >= n_arms:
        return n_arms
    return bits_for(sum(math.comb(n_arms, size) for size in range(at_most + 1)))


def count_bits(numbers: Ints) -> Ints:
    """Bits of the Elias δ code of whole numbers 1..2**53: prefix-free, so neither side need know a
    range. e + 2⌊log2(e + 1)⌋ + 1 for numbers from 2^e on; 1 bit for 1.
    """
    _, lengths = np.frexp(numbers)  # e + 1
    _, lengths_of_lengths = np.frexp(lengths)
    return np.asarray(lengths + 2 * lengths_of_lengths - 2, dtype=int)


def counts_bits(times: Ints, values: int) -> Ints:
    """Bits that tell how often each of so many values came up in `times` pulls, ⌈log2 C(n + values
    − 1, values − 1)⌉: of the shape of `times`."""
    numbers, place = np.unique(times, return_inverse=True)
    bits = [bits_for(math.comb(n + values - 1, values - 1)) for n in numbers.tolist()]
    return np.array(bits, dtype=int)[place].reshape(times.shape)


class Payload:
    """Something to send: the same kind to or from every agent of a message, priced per agent.

    `values` is what arrives: an array with one row per agent, or without that axis where all agents
    get the same.
    """

    kind: str
    values: Array
    #: Price per agent: one number, or (n,) where messages of different agents differ in length.
    bits: int | Ints = 0
    reals: int = 0
    #: Axes of values that are the same for all agents.
    shared_ndim = 0

    def rows(self, n_agents: int) -> Array:
        """The values as (n_agents, ...), a view; `ValueError` where they are of another length."""
        if self.values.ndim == self.shared_ndim:
            return np.broadcast_to(self.values, (n_agents, *self.values.shape))
        if self.values.shape[0] != n_agents:
            raise UserError(
                f"{self.kind}: {self.values.shape[0]} rows for {n_agents} agents; a payload has one each"
            )
        return self.values


class ArmIndex(Payload):
    """One arm of a set that both sides know: ⌈log2 |set|⌉ bits.

    Args:
        values: (n,) arms.
        among: the number of arms K (the set is 0..K−1), or the arms of the set.
    """

    kind = "arm"

    def __init__(self, values: ArrayLike, among: int | ArrayLike) -> None:
        self.values = _array(values, int, (0, 1), "arm indices are integers (agents,)")
        if isinstance(among, int | np.integer):
            self.among: int | Ints = whole(among, "among, the number of arms,")
            self.bits = bits_for(self.among)
            indices(self.values, self.among, "arm")
        else:
            self.among = read_only(
                np.unique(_array(among, int, (1,), "the set of arms holds integers"))
            )
            self.bits = bits_for(self.among.size)
            if not np.isin(self.values, self.among).all():
                raise UserError("an arm index lies outside the set given by `among`")


class ArmSet(Payload):
    """A set of arms: K bits for any subset, or ⌈log2 Σ_{i≤m} C(K, i)⌉ bits if it is known to have
    at most m arms.

    Args:
        values: (n, K) or (K,) boolean membership.
        at_most: m, known to both sides; None for any subset.
    """

    kind = "arm set"
    shared_ndim = 1

    def __init__(self, values: ArrayLike, at_most: int | None = None) -> None:
        shapes = "an arm set is a boolean array (agents, arms), or (arms,) for all agents alike"
        self.values = _array(values, bool, (1, 2), shapes)
        self.at_most = None if at_most is None else whole(at_most, "at_most", 0)
        n_arms = self.values.shape[-1]
        limit = n_arms if self.at_most is None else min(self.at_most, n_arms)
        if self.values.sum(axis=-1).max(initial=0) > limit:
            raise UserError(f"an arm set has more than the {limit} arms announced")
        self.bits = _bits_for_set(n_arms, limit)


class Reals(Payload):
    """Real numbers: c_r each. `values`: (n,) one per agent, (n, d) d per agent, or a single one for
    all agents alike.

    NaN cannot be sent. Values arrive rounded to the width that c_r pays for, see `Ledger.as_sent`.
    """

    kind = "real"

    def __init__(self, values: ArrayLike) -> None:
        shapes = "reals have shape (agents,) or (agents, d)"
        self.values = _array(values, float, (0, 1, 2), shapes)
        self.reals = math.prod(self.values.shape[1:])


class Flag(Payload):
    """Yes or no: one bit. `values`: (n,) booleans, or a single one for all agents alike."""

    kind = "flag"

    def __init__(self, values: ArrayLike) -> None:
        self.values = _array(values, bool, (0, 1), "a flag is a boolean, or a vector of them")
        self.bits = 1


class ArmSubset(Payload):
    """A small set of arms out of a set that both sides know: a code whose length grows with the
    number of arms sent.

    With n arms to choose from and c of them sent, the count takes 2⌊log2(c + 1)⌋ + 1 bits (Elias'
    gamma code of c + 1) and the choice ⌈log2 C(n, c)⌉: one bit for the empty set. The code is
    prefix-free, so no length has to be sent.

    Args:
        values: (n, K) boolean membership.
        within: (n, K) the sets chosen from, which both sides must know; None for all arms. Nobody
            can check that for a policy from outside this package, so it pays K bits for `within`.
    """

    kind = "arm subset"

    def __init__(self, values: ArrayLike, within: ArrayLike | None = None) -> None:
        shapes = "an arm subset and `within` are boolean arrays (agents, arms)"
        self.values = _array(values, bool, (2,), shapes)
        self.within = None if within is None else _array(within, bool, (2,), shapes)
        known = np.ones_like(self.values) if self.within is None else self.within
        if known.shape != self.values.shape or np.any(self.values & ~known):
            raise UserError("an arm subset must lie inside of `within`, which has the same shape")
        pairs = zip(known.sum(axis=1).tolist(), self.values.sum(axis=1).tolist(), strict=True)
        lengths = [2 * (c + 1).bit_length() - 1 + bits_for(math.comb(n, c)) for n, c in pairs]
        self.bits = read_only(np.array(lengths, dtype=int))


class Symbol(Payload):
    """Symbols from the alphabet 0..n−1: ⌈log2 n⌉ bits for one; d of them are one symbol out of n^d,
    ⌈d·log2 n⌉ bits.

    Args:
        values: (agents,) or (agents, d) integers.
        among: n, the size of the alphabet, known to both sides.
    """

    kind = "symbol"

    def __init__(self, values: ArrayLike, among: int) -> None:
        self.values = _array(values, int, (1, 2), "symbols are integers (agents,) or (agents, d)")
        self.among = whole(among, "among, the size of the alphabet,")
        indices(self.values, self.among, "symbol")
        self.bits = bits_for(self.among ** math.prod(self.values.shape[1:]))


class Quantised(Payload):
    """Real numbers rounded to a grid that both sides know: ⌈log2 size⌉ bits for one, ⌈d·log2 size⌉
    for d of them.

    `values` holds what arrives: grid points. A proof that uses them needs to know on which side of
    the true number they lie, so the direction is always stated, and a number beyond the grid is an
    error unless clipping is asked for.

    Args:
        values: (agents,) or (agents, d) numbers.
        grid: (size,) the points, strictly increasing.
        rounding: "up" (the least grid point not below the number), "down", or "nearest" (the lower
            one on a tie).
        clip: send numbers beyond an end of the grid as that end. Rounded "up", a number above the
            grid then arrives as a smaller one; rounded "down", a number below the grid as a larger
            one.
    """

    kind = "quantised"

    def __init__(
        self,
        values: ArrayLike,
        grid: ArrayLike,
        rounding: Literal["up", "down", "nearest"],
        clip: bool = False,
    ) -> None:
        self.grid = increasing(grid, "grid")
        low, high = self.grid[[0, -1]]
        shapes = "quantised numbers have shape (agents,) or (agents, d)"
        exact = _array(values, float, (1, 2), shapes)
        if clip:
            exact = exact.clip(low, high)
        if not np.all((exact >= low) & (exact <= high)):
            raise UserError(
                f"a number is nan, or outside the grid from {low:.6g} to {high:.6g}; use a "
                "wider grid, or clip=True to send numbers beyond an end as that end"
            )
        # Found by comparison, not by arithmetic: a grid point is sent as itself, and no rounding
        # error flips a side.
        up = self.grid[np.searchsorted(self.grid, exact, side="left")]
        down = self.grid[np.searchsorted(self.grid, exact, side="right") - 1]
        rounded = {"up": up, "down": down, "nearest": np.where(up - exact < exact - down, up, down)}
        self.values = read_only(rounded[check_choice("rounding", rounding, tuple(rounded))])
        self.rounding = rounding
        self.bits = bits_for(self.grid.size ** math.prod(exact.shape[1:]))


#: What can be sent: the arguments of each payload, what it carries, what it costs per agent.
TABLE = (
    (ArmIndex, "values, among", "an arm of a set that both sides know", "⌈log2 |set|⌉ bits"),
    (ArmSet, "values", "any set of arms", "K bits"),
    (ArmSet, "values, at_most=m", "a set of at most m arms", "⌈log2 Σ_{i≤m} C(K, i)⌉ bits"),
    (
        ArmSubset,
        "values",
        "a set of c arms, c not known before",
        "⌈log2 C(K, c)⌉ + 2⌊log2(c + 1)⌋ + 1 bits",
    ),
    (Flag, "values", "yes or no", "1 bit"),
    (Symbol, "values, among=n", "d whole numbers in 0..n−1", "⌈d·log2 n⌉ bits"),
    (
        Quantised,
        "values, grid, rounding",
        "d numbers rounded to a grid that both sides know",
        "⌈d·log2 |grid|⌉ bits",
    ),
    (Reals, "values", "d real numbers", "d reals, c_r each"),
)


def as_made(payload: Any) -> Payload:
    """`payload` built again from its content, so that its form and price are the constructor's.

    `TypeError` for types that are not in `TABLE`: subclasses could carry more than they pay for.
    """
    kind = type(payload)
    if kind not in [row[0] for row in TABLE]:
        known = [f"{one.__name__}({form}): {what}, {price}" for one, form, what, price in TABLE]
        raise TypeError(
            f"a message is a payload, e.g. ArmIndex(arms, among=problem.n_arms), got "
            f"{kind.__name__}. The payloads, which cannot be subclassed, are: {'; '.join(known)}"
        )
    content = {name: it for name, it in vars(payload).items() if name not in ("bits", "reals")}
    made: Payload = kind(**content)
    return made


def alphabet(payload: Payload) -> list[object]:
    """What both sides must know before anything is pulled, the same for every agent."""
    known = [getattr(payload, name, None) for name in ("among", "at_most", "grid")]
    return [payload.kind, *[np.asarray(one).tolist() for one in known]]


def _array(values: ArrayLike, dtype: type, axes: Shape, expected: str) -> Array:
    """A read-only array of booleans, integers or real numbers with one of these numbers of axes."""
    array = np.asarray(values)
    kinds = {bool: "b", int: "iu", float: "biuf"}[dtype]
    if array.dtype.kind not in kinds or array.ndim not in axes:
        raise UserError(f"{expected}, got {array.dtype} of shape {array.shape}")
    # Booleans of one bit each, since an array made by a cast may hold other bytes.
    return read_only(array.view(np.uint8) != 0 if dtype is bool else array.astype(dtype))
