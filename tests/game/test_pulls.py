"""Pulls: their law, their counts and their bills."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from small_plays import noiseless, small

from clustered_bandit_gym import (
    Bernoulli,
    Block,
    BudgetExceeded,
    Categorical,
    Federation,
    Flag,
    Instance,
    Problem,
    Reals,
)
from clustered_bandit_gym.game.pulls import MAX_PULLS, MAX_TIMES
from clustered_bandit_gym.generators import RandomFamily

ALARM = 1e-10


@settings(deadline=None)
@given(st.data())
def test_counts_and_bills_of_central_pulls(data: st.DataObject) -> None:
    """Random shapes that broadcast, against a plain loop over the rows."""
    federation = small()
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=0, max_size=3)))

    def array(low: int, high: int) -> Any:
        mine = shape[data.draw(st.integers(0, len(shape))) :]
        mine = tuple(data.draw(st.sampled_from([1, size])) for size in mine)
        cells = data.draw(
            st.lists(
                st.integers(low, high), min_size=int(np.prod(mine)), max_size=int(np.prod(mine))
            )
        )
        return np.array(cells, dtype=np.int64).reshape(mine)

    per_agent: Counter[int] = Counter()
    bits = rows = 0
    for _ in range(2):
        agents, arms, times = array(0, 5), array(0, 9), array(1, 10**6)
        averages = federation.pull(agents, arms, times)
        each = np.broadcast(agents, arms, times)
        assert averages.shape == each.shape
        for agent, _, n in each:
            per_agent[int(agent)] += int(n)
            length = int(n).bit_length()
            bits += 4 + (length - 1) + 2 * (length.bit_length() - 1) + 1  # Elias δ
            rows += 1
    assert federation.pulls_per_agent.tolist() == [per_agent[i] for i in range(6)]
    assert federation.pulls == sum(per_agent.values())
    assert federation.pulls_by_phase == {"play": federation.pulls}
    assert federation.ledger.summary() == {
        "cost": bits + 32 * rows,
        "bits_up": 0,
        "bits_down": bits,
        "reals_up": rows,
        "reals_down": 0,
    }
    assert federation.rounds == 2


def test_pulls_come_from_the_right_cells() -> None:
    federation = noiseless()
    assert federation.pull([0, 1, 2, 3], [0, 1, 2, 1]).tolist() == [0.9, 0.8, 0.3, 0.1]
    assert federation.pull(2, 1).item() == 0.8
    assert federation.pull([[0], [1]], [0, 2], 5).tolist() == [[0.9, 0.2], [0.0, 0.3]]

    def program(block: Block) -> Reals:
        assert block.pull([1], [0]).tolist() == [0.0 if block.agents[1] in (1, 2) else 0.9]
        assert block.part([1]).pull_grid(2).shape == (1, 3)
        return Reals(block.pull_grid(3))

    sent = np.float32([[0.9, 0.1, 0.2], [0.0, 0.8, 0.3]])  # reals travel in 32 bits
    assert federation.local([3, 1], program).tolist() == sent.tolist()


def test_pulls_have_the_law_of_their_cell() -> None:
    """10^4 averages of 25 pulls by an agent, centrally and locally, against the normal law (KS, false alarm 1e-10)."""
    federation = small()
    mean = federation._instance.means[federation._instance.clusters[4], 7]
    central = federation.pull(np.full(10_000, 4), 7, 25)
    local = federation.local(
        [4], lambda block: Reals(block.pull(np.zeros(10_000, int), 7, 25)[None, :])
    )
    for averages in (central, local[0]):
        assert stats.kstest((averages - mean) * 5, "norm").pvalue > ALARM


def test_one_pull_at_a_time_is_the_same_law() -> None:
    instance = RandomFamily(rewards="categorical")(np.random.default_rng(5))
    federation = Federation(instance, Problem.of(instance, 0.1), 3)
    ones = np.array([federation.single(2, 4) for _ in range(20_000)])
    batch = federation.pull(np.full(20_000, 2), 4)
    assert stats.ks_2samp(ones, batch, method="asymp").pvalue > ALARM
    assert federation.pulls == 40_000
    assert federation.pulls_per_agent.tolist() == [0, 0, 40_000] + [0] * 9


def test_stepwise_pulls_go_through_the_step() -> None:
    federation = small()
    calls: list[tuple[int, int]] = []

    def step(agent: int, arm: int) -> float:
        calls.append((agent, arm))
        return float(len(calls))

    with federation.stepping(step):
        averages = federation.local(
            [2, 5], lambda block: Reals(block.pull([[0], [1]], [[3, 4]], [[2], [1]]))
        )
    assert calls == [(2, 3), (2, 3), (2, 4), (2, 4), (5, 3), (5, 4)]
    assert averages.tolist() == [[1.5, 3.5], [5.0, 6.0]]


def test_no_rows_cost_nothing() -> None:
    federation = small()
    assert federation.pull([], []).shape == (0,)
    assert federation.pull(np.zeros((0, 3), int), [1, 2, 3], 5).shape == (0, 3)
    assert federation.local([], lambda block: Flag(True)) is None
    assert (federation.pulls, federation.rounds, federation.ledger.cost) == (0, 0, 0)


def test_budget_is_checked_before_drawing() -> None:
    federation, twin = small(max_pulls=100), small(max_pulls=100)
    federation.pull(0, 0, 60)
    twin.pull(0, 0, 60)
    before = federation.ledger.summary()
    for refused in (
        lambda: federation.pull(0, 0, 41),
        lambda: federation.pull([0, 1, 2], 0, 14),
        lambda: federation.pull([0, 1], 0, [40, 1]),
        lambda: federation.local([0, 1], lambda block: Reals(block.pull_grid(3))),
        lambda: federation.pull(0, 0, 10**18),
        lambda: federation.pull(0, 0, 10**30),
        lambda: federation.pull(np.zeros(2**12, int), 0, MAX_TIMES),
        lambda: federation.pull(np.zeros(2**12, int), 0, np.full(2**12, MAX_TIMES)),
    ):
        with pytest.raises(BudgetExceeded):
            refused()
    assert federation.pulls == 60
    assert federation.ledger.summary() == before
    assert federation.pulls_per_agent.sum() == 60
    assert federation.pull(0, 0, 40) == twin.pull(0, 0, 40), "a refused pull used up randomness"
    with pytest.raises(BudgetExceeded, match="100 pulls made"):
        federation.single(0, 0)


def test_counts_never_overflow() -> None:
    federation = small()
    for _ in range(MAX_PULLS // (MAX_TIMES * 300) + 1):
        with (
            pytest.raises(BudgetExceeded)
            if federation.pulls > MAX_PULLS - 300 * MAX_TIMES
            else _nothing()
        ):
            federation.pull(np.zeros(300, int), 0, np.full(300, MAX_TIMES))
    assert 0 < federation.pulls <= MAX_PULLS
    assert federation.pulls == federation.pulls_per_agent[0]
    assert federation.ledger.bits("down") == federation.ledger.totals[
        "play", "down", "order"
    ].messages * (4 + 64)


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("agents", "arms", "times", "message"),
    [
        ([6], [0], 1, "agent 6 is out of range: agents run from 0 to 5"),
        ([-1], [0], 1, "agent -1 is out of range"),
        ([0], [10], 1, "arm 10 is out of range: arms run from 0 to 9"),
        ([0], [-1], 1, "arm -1 is out of range"),
        ([0.0], [0], 1, "integers"),
        ([0], [0.0], 1, "integers"),
        ([True], [0], 1, "integers"),
        ([0], [0], 0, "times must be whole numbers >= 1"),
        ([0], [0], [-3], "times must be whole numbers >= 1"),
        ([0], [0], 2.0, "whole numbers"),
        ([0], [0], [1.5], "whole numbers"),
        ([0], [0], True, "whole numbers"),
        ([0, 1], [0, 1, 2], 1, "shape mismatch|broadcast"),
    ],
)
def test_bad_pulls(agents: list, arms: list, times: Any, message: str) -> None:
    federation = small()

    def program(block: Block) -> Flag:
        block.pull(agents, arms, times)
        return Flag(True)

    with pytest.raises(ValueError, match=message):
        federation.pull(agents, arms, times)
    with pytest.raises(ValueError, match=message.replace("agent", "row")):
        federation.local(federation.agents, program)
    assert (federation.pulls, federation.ledger.cost, federation.rounds) == (0, 0, 0)


def test_counts_at_agents() -> None:
    instance = Instance([[0.9, 0.1], [0.1, 0.8]], [0, 1, 1], Bernoulli())
    federation = Federation(instance, Problem.of(instance, 0.1), seed=3)

    def program(block: Block) -> Reals:
        assert block.values is not None
        assert block.values.tolist() == [0.0, 1.0]
        counts = block.pull_counts(np.arange(len(block))[:, None], np.arange(2)[None, :], 1000)
        assert (counts.sum(axis=2) == 1000).all()
        return Reals(counts[:, :, 1] / 1000)

    shares = federation.local(federation.agents, program)
    assert federation.pulls == 6000
    assert federation.pulls_per_agent.tolist() == [2000] * 3
    # Hoeffding: off by 0.15 after 1000 pulls with probability 2·exp(−45).
    np.testing.assert_allclose(shares, instance.means[instance.clusters], atol=0.15)
    gaussian = Instance(instance.means, [0, 1, 1])
    with pytest.raises(ValueError, match="cannot be counted"):
        Federation(gaussian, Problem.of(gaussian, 0.1)).local(
            [0], lambda block: block.pull_counts([0], [0], 2)
        )


def test_counts_on_the_centres_orders() -> None:
    laws = np.array([[[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]], [[0.6, 0.2, 0.2], [0.0, 0.9, 0.1]]])
    instance = Instance(None, [0, 1], Categorical([-1.0, 0.5, 2.0], laws))
    for strict in (False, True):
        federation = Federation(instance, Problem.of(instance, 0.1), seed=3)
        centre = federation.view(strict)
        counts = centre.pull_counts([0, 0, 1], [0, 1, 1], [40, 3, 1])
        assert counts.sum(axis=1).tolist() == [40, 3, 1]
        assert counts[1, 2] == 0
        assert federation.pulls == 44
        # C(42, 2) = 861, C(5, 2) = 10 and C(3, 2) = 3 possible answers; the order is that of `pull`.
        assert (federation.ledger.bits("up"), federation.ledger.reals()) == (10 + 4 + 2, 0)
        other = Federation(instance, Problem.of(instance, 0.1), seed=3)
        other.pull([0, 0, 1], [0, 1, 1], [40, 3, 1])
        assert federation.ledger.bits("down") == other.ledger.bits("down")
        assert (federation.rounds, federation.ledger.summary()["reals_up"]) == (1, 0)
        grid = centre.pull_counts(np.arange(2)[:, None], np.arange(2)[None, :], 7)
        assert grid.shape == (2, 2, 3)
        assert federation.ledger.bits("up") == 16 + 4 * 6  # C(9, 2) = 36
    gaussian = Instance(instance.means, [0, 1])
    with pytest.raises(ValueError, match="cannot be counted"):
        Federation(gaussian, Problem.of(gaussian, 0.1)).pull_counts([0], [0], 2)


def test_counts_one_pull_at_a_time() -> None:
    instance = Instance(
        None, [0], Categorical([-1.0, 0.5, 2.0], np.array([[[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]]]))
    )
    federation = Federation(instance, Problem.of(instance, 0.1), seed=3)
    counts: list[np.ndarray] = []
    with federation.stepping(federation.single):
        federation.local(
            [0], lambda block: counts.append(block.pull_counts([0, 0], [0, 1], [40, 3]))
        )
    assert counts[0].shape == (2, 3)
    assert counts[0].sum(axis=1).tolist() == [40, 3]
    assert counts[0][1, 2] == 0
    assert federation.pulls == 43
