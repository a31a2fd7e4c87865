"""Random numbers of the agents."""

from __future__ import annotations

import numpy as np
from scipy import stats

import clustered_bandit_gym as cbg
from clustered_bandit_gym.game.seeds import splitmix


def test_splitmix_is_splitmix64() -> None:
    """Against the sequence of the published reference implementation for the seed 1234567."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert splitmix(np.array([1234567], dtype=np.uint64), np.array([0]), 4).tolist() == [expected]
    assert splitmix(np.array([1234567], dtype=np.uint64), np.array([2]), 2).tolist() == [
        expected[2:]
    ]


def test_numbers_of_an_agent_do_not_depend_on_its_block() -> None:
    instance = cbg.Instance([[0.0, 1.0]], np.zeros(6, dtype=int))
    drawn = []
    for size in (None, 1, 4):
        federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=5)
        federation.block_size = size
        federation.local([4, 2], lambda block: cbg.Reals(block.random(3)))
        drawn.append(federation.local(federation.agents, lambda block: cbg.Reals(block.random(2))))
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], drawn[2])
    assert np.unique(drawn[0]).size == 12


def test_numbers_are_uniform_and_agents_independent() -> None:
    """False alarms below 1e-9 for each test."""
    instance = cbg.Instance([[0.0, 1.0]], np.zeros(2000, dtype=int))
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=1, c_r=64)
    numbers = federation.local(federation.agents, lambda block: cbg.Reals(block.random(50)))
    assert stats.kstest(numbers.ravel(), "uniform").pvalue > 1e-9
    assert (
        stats.kstest(numbers.mean(axis=1), "norm", args=(0.5, (1 / 12 / 50) ** 0.5)).pvalue > 1e-9
    )
    products = ((numbers[1:] - 0.5) * (numbers[:-1] - 0.5)).ravel()
    assert abs(products.sum()) < 6.2 * (products.size / 144) ** 0.5
