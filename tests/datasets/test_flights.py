"""Flights: real counts that ship with the package."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.datasets import Flights, flights


def test_counts() -> None:
    data = flights.load()
    assert len(data.destinations) == 32
    assert data.flights.shape == data.on_time.shape == (32, 3)
    assert (data.flights >= 200).all()
    assert (data.on_time <= data.flights).all()
    assert int(data.flights.sum()) == 226_230
    # Atlanta, by hand: 3,602 of 5,022 flights from Newark were on time.
    assert data.rates[data.destinations.index("ATL"), 0] == pytest.approx(3602 / 5022)
    assert np.bincount(data.clusters).tolist() == [7, 7, 18]


def test_clusters_satisfy_the_assumption() -> None:
    instance = Flights()(np.random.default_rng(0))
    data = flights.load()
    for m in range(3):
        own = data.clusters == m
        assert instance.means[m] == pytest.approx(
            data.on_time[own].sum(0) / data.flights[own].sum(0)
        )
    assert instance.best_arms.tolist() == [0, 1, 2]
    assert 0.024 < instance.eta < 0.025
    assert sorted(np.bincount(instance.clusters).tolist()) == [7, 7, 18]


def test_every_destination_for_itself() -> None:
    env = gym.make("ClusteredBAI-Flights-v0", truth="agents")
    _, info = env.reset(seed=1)
    assert (info["n_clusters"], info["eta"], info["eta1"]) == (0, 0.0, 0.0)  # not told
    truth = env.unwrapped.truth  # type: ignore[attr-defined]
    assert sorted(truth.clusters.tolist()) == list(range(32))
    assert truth.means == pytest.approx(flights.load().rates)


def test_settings() -> None:
    with pytest.raises(ValueError, match="truth must be"):
        Flights(truth="guess")
    row = cbg.play("naive", "ClusteredBAI-Flights-v0", seed=2)
    assert row["outcome"] == "solved"
