from __future__ import annotations

from itertools import combinations
from math import ceil, comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustered_bandit_gym import Federation, Instance, Problem
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.ledger import Ledger
from clustered_bandit_gym.game.payloads import (
    ArmIndex,
    ArmSet,
    ArmSubset,
    Flag,
    Payload,
    Quantised,
    Reals,
    Symbol,
    bits_for,
    count_bits,
)

ENTRY = st.tuples(
    st.sampled_from(["explore", "identify"]),
    st.sampled_from(["up", "down"]),
    st.sampled_from(["arm", "real", "flag"]),
    st.lists(st.integers(0, 50), max_size=8),
    st.integers(0, 40),
    st.integers(0, 3),
)


@given(st.integers(1, 2**40))
def test_bits_for(size: int) -> None:
    bits = bits_for(size)
    assert 2**bits >= size
    assert bits == 0 or 2 ** (bits - 1) < size
    if size < 2**20:
        assert bits == ceil(log2(size))


@given(st.integers(1, 9), st.integers(0, 10))
def test_bits_of_sets_by_counting_them(n_arms: int, at_most: int) -> None:
    count = sum(1 for size in range(at_most + 1) for _ in combinations(range(n_arms), size))
    members = np.zeros((2, n_arms), dtype=bool)
    assert ArmSet(members, at_most).bits == ceil(log2(count))
    assert ArmSet(members).bits == n_arms


@given(st.lists(ENTRY, max_size=20), st.floats(0, 10), st.floats(0, 100))
def test_totals_are_sums_of_messages(entries: list, c_b: float, c_r: float) -> None:
    ledger, single = Ledger(c_b, c_r, itemise=True), Ledger(c_b, c_r)
    for phase, direction, kind, agents, bits, reals in entries:
        ledger.record(phase, direction, kind, np.array(agents, dtype=int), bits, reals)
        for agent in agents:
            single.record(phase, direction, kind, np.array([agent]), bits, reals)
    assert single.totals == ledger.totals, "a batch is the same as its messages one by one"
    messages = list(ledger.messages())
    assert [m.agent for m in messages] == [agent for entry in entries for agent in entry[3]]
    for direction in ("up", "down", None):
        for phase in ("explore", "identify", None):
            mine = [
                m for m in messages if direction in (None, m.direction) and phase in (None, m.phase)
            ]
            assert ledger.bits(direction, phase) == sum(m.bits for m in mine)
            assert ledger.reals(direction, phase) == sum(m.reals for m in mine)
    expected = sum(c_b * m.bits + c_r * m.reals for m in messages)
    assert ledger.cost == pytest.approx(expected)
    assert sum(ledger.by_phase().values()) == pytest.approx(expected)
    summary = ledger.summary()
    assert summary["bits_up"] + summary["bits_down"] == ledger.bits()
    assert summary["reals_up"] + summary["reals_down"] == ledger.reals()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 63)), min_size=1, max_size=30))
def test_bits_of_each_message_may_differ(rows: list[tuple[int, int]]) -> None:
    agents, bits = np.array(rows).T
    ledger = Ledger(itemise=True)
    ledger.record("play", "down", "order", agents, bits, 0)
    assert ledger.bits() == sum(b for _, b in rows)
    assert [(m.agent, m.bits) for m in ledger.messages()] == rows


def test_defaults_and_small_memory() -> None:
    ledger = Ledger()
    everybody = np.arange(10**6)
    for _ in range(100):
        ledger.record("play", "up", "real", everybody, 0, 1)
        ledger.record("play", "down", "flag", everybody, 1, 0)
    assert (ledger.c_b, ledger.c_r) == (1, 32)
    assert ledger.cost == 100 * 10**6 * 33
    assert len(ledger.totals) == 2
    with pytest.raises(ValueError, match="itemise=True"):
        next(ledger.messages())


@pytest.mark.parametrize(
    ("payload", "bits", "reals", "rows"),
    [
        (ArmIndex([0, 9, 3], among=10), 4, 0, [0, 9, 3]),
        (ArmIndex([5, 7, 5], among=[7, 5, 5]), 1, 0, [5, 7, 5]),
        (ArmIndex(np.int64(4), among=8), 3, 0, [4, 4, 4]),
        (ArmIndex([0, 0, 0], among=1), 0, 0, [0, 0, 0]),
        (ArmSet(np.eye(3, dtype=bool)), 3, 0, np.eye(3, dtype=bool).tolist()),
        (ArmSet(np.array([True, False]), at_most=1), 2, 0, [[True, False]] * 3),
        (Reals([1.0, 2.0, 3.0]), 0, 1, [1, 2, 3]),
        (Reals(np.ones((3, 2))), 0, 2, [[1, 1]] * 3),
        (Reals(4.0), 0, 1, [4, 4, 4]),
        (Flag([True, False, True]), 1, 0, [True, False, True]),
        (Flag(False), 1, 0, [False] * 3),
        (Symbol([0, 2, 4], among=5), 3, 0, [0, 2, 4]),
        (Symbol([0, 0, 0], among=1), 0, 0, [0, 0, 0]),
        (Symbol([[0, 2], [1, 1], [2, 0]], among=3), 4, 0, [[0, 2], [1, 1], [2, 0]]),
        (Quantised([0.1, 0.5, 0.9], [0, 0.5, 1], "up"), 2, 0, [0.5, 0.5, 1]),
        (Quantised([0.1, 0.5, 0.9], [0, 0.5, 1], "down"), 2, 0, [0, 0.5, 0.5]),
        (Quantised([0.25, 0.3, 0.9], [0, 0.5, 1], "nearest"), 2, 0, [0, 0.5, 1]),
        (Quantised([-3.0, 0.2, 7.0], [0, 0.5, 1], "up", clip=True), 2, 0, [0, 0.5, 1]),
        (Quantised(np.full((3, 5), 0.4), [0, 0.5, 1], "down"), 8, 0, [[0] * 5] * 3),
    ],
)
def test_payloads(payload: Payload, bits: int, reals: int, rows: list) -> None:
    assert (payload.bits, payload.reals) == (bits, reals)
    assert payload.rows(3).tolist() == rows


@pytest.mark.parametrize(
    "make",
    [
        lambda: ArmIndex([0, 10], among=10),
        lambda: ArmIndex([-1], among=10),
        lambda: ArmIndex([3], among=[1, 2]),
        lambda: ArmIndex([0.5], among=10),
        lambda: ArmIndex([0], among=0),
        lambda: ArmIndex([0], among=[]),
        lambda: ArmSet([[0, 1]]),
        lambda: ArmSet(np.ones((1, 4), dtype=bool), at_most=3),
        lambda: ArmSet(np.zeros((1, 4), dtype=bool), at_most=-1),
        lambda: Reals(np.zeros((2, 2, 2))),
        lambda: Reals(["a"]),
        lambda: Flag([0, 1]),
        lambda: Flag(np.ones((2, 2), dtype=bool)),
        lambda: Reals([1.0, 2.0]).rows(3),
        lambda: ArmSet(np.ones((2, 4), dtype=bool)).rows(3),
        lambda: Symbol([0, 5], among=5),
        lambda: Symbol([-1], among=5),
        lambda: Symbol([0.5], among=5),
        lambda: Symbol(3, among=5),
        lambda: Symbol([0], among=0),
        lambda: Symbol(np.zeros((2, 2, 2), dtype=int), among=5),
        lambda: Quantised([1.5], [0, 1], "up"),
        lambda: Quantised([-0.5], [0, 1], "down"),
        lambda: Quantised([np.nan], [0, 1], "down", clip=True),
        lambda: Quantised([0.5], [1, 0], "up"),
        lambda: Quantised([0.5], [0, 0], "up"),
        lambda: Quantised([0.5], [], "up"),
        lambda: Quantised([0.5], [0, np.inf], "up"),
        lambda: Quantised([0.5], [0, 1], "around"),
        lambda: Quantised(0.5, [0, 1], "up"),
        lambda: ArmSubset([[0, 1]]),
        lambda: ArmSubset(np.array([True])),
        lambda: ArmSubset(np.array([[True, False]]), within=np.array([[False, True]])),
        lambda: ArmSubset(np.array([[True, False]]), within=np.array([True, True])),
        lambda: Ledger(c_b=-1.0),
        lambda: Ledger(c_r=np.inf),
    ],
)
def test_bad_payloads_and_prices(make: object) -> None:
    with pytest.raises(ValueError):
        make()


@given(st.integers(1, 12), st.data())
def test_sparse_sets_cost_what_a_prefix_free_code_of_them_takes(
    n_arms: int, data: st.DataObject
) -> None:
    within = np.array(
        [data.draw(st.lists(st.booleans(), min_size=n_arms, max_size=n_arms)) for _ in range(3)]
    )
    chosen = within & np.array(
        [data.draw(st.lists(st.booleans(), min_size=n_arms, max_size=n_arms)) for _ in range(3)]
    )
    bits = ArmSubset(chosen, within=within).bits
    for row in range(3):
        size, count = int(within[row].sum()), int(chosen[row].sum())
        choices = sum(1 for _ in combinations(range(size), count))
        gamma = len(bin(count + 1)[2:]) * 2 - 1
        assert bits[row] == gamma + ceil(log2(choices))
    # Kraft: all subsets of one set fit into one prefix-free code.
    size = int(within[0].sum())
    lengths = [
        2 * ((c + 1).bit_length() - 1) + 1 + ceil(log2(comb(size, c))) for c in range(size + 1)
    ]
    assert sum(comb(size, c) * 2.0**-length for c, length in enumerate(lengths)) <= 1


def test_messages_of_different_lengths_are_billed_one_by_one() -> None:
    ledger = Ledger(itemise=True)
    sets = ArmSubset(np.array([[False] * 8, [True] + [False] * 7]))
    ledger.record("play", "up", sets.kind, np.array([4, 7]), sets.bits, sets.reals)
    assert [(m.agent, m.bits) for m in ledger.messages()] == [(4, 1), (7, 3 + 3)]
    assert ledger.bits("up") == 7


@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=20),
    st.integers(2, 300),
    st.sampled_from(["up", "down"]),
)
def test_rounding_keeps_its_side(numbers: list[float], size: int, rounding: str) -> None:
    grid = np.linspace(-50, 50, size)
    got = Quantised(numbers, grid, rounding).values
    assert np.isin(got, grid).all()
    error = got - numbers if rounding == "up" else numbers - got
    assert (error >= 0).all()
    assert (error < 100 / (size - 1) + 1e-9).all()
    assert np.array_equal(Quantised(grid, grid, rounding).values, grid), (
        "a grid point is sent as itself"
    )


def elias_delta(n: int) -> str:
    """The code word: the length of n in binary in Elias γ, then n without its leading 1."""
    binary = bin(n)[2:]
    length = bin(len(binary))[2:]
    return "0" * (len(length) - 1) + length + binary[1:]


def decoded(stream: str) -> tuple[int, str]:
    zeros = stream.index("1")
    length = int(stream[zeros : 2 * zeros + 1], 2)
    rest = stream[2 * zeros + 1 :]
    return int("1" + rest[: length - 1], 2), rest[length - 1 :]


def test_the_number_of_pulls_in_an_order_can_be_decoded() -> None:
    """The bill is the length of a code word that a reader can cut off a stream without knowing where it ends."""
    numbers = [
        1,
        2,
        3,
        4,
        7,
        8,
        15,
        16,
        255,
        256,
        10**6,
        2**31 - 1,
        2**31,
        10**12 + 7,
        2**53 - 1,
        2**53,
    ]
    stream = "".join(map(elias_delta, numbers))
    found = []
    while stream:
        number, stream = decoded(stream)
        found.append(number)
    assert found == numbers
    lengths = [len(elias_delta(n)) for n in numbers]
    assert [count_bits(n) for n in numbers] == lengths
    assert count_bits(np.array(numbers)).tolist() == lengths
    assert (count_bits(1), count_bits(2), count_bits(10**6)) == (1, 4, 28)


def test_an_order_is_billed_with_its_number_of_pulls() -> None:
    instance = Instance([[1.0, 0.5, 0.2], [0.1, 1.0, 0.3]], [0, 1, 1])
    federation = Federation(instance, Problem.of(instance, 0.1), 0)
    federation.pull([0, 1], [2, 0], 1)
    assert federation.ledger.bits("down") == 2 * (2 + 1)
    federation.pull([0, 1, 2], [2, 0, 1], [1, 2, 1000])
    assert federation.ledger.bits("down") == 6 + 3 * 2 + 1 + 4 + (9 + 6 + 1)
    assert federation.ledger.reals("up") == 5


@pytest.mark.parametrize("size", [1, 100, 20_000])
def test_reals_that_cannot_be_sent(size: int) -> None:
    """Few numbers and many are checked in different ways; the last one is the bad one."""
    values = np.linspace(-1.0, 1.0, size)
    ledger = Ledger()
    assert np.array_equal(ledger.as_sent(values), values.astype(np.float32))
    for bad, message in ((np.nan, "NaN"), (1e39, "single precision"), (-1e39, "single precision")):
        values[-1] = bad
        with pytest.raises(UserError, match=message):
            ledger.as_sent(values)
    values[-1] = np.inf
    assert np.isposinf(ledger.as_sent(values)[-1])
    assert Ledger(c_r=64).as_sent(np.array([1e300]))[0] == 1e300
