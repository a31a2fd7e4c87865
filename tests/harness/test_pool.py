"""Processes: rows do not depend on them, users' code reaches them, a lost run leaves nothing
behind.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cluster_players import NO_DASK
from harness_players import QUICK, TINY, Duck, Empirical, Fails, Stepper

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.play import Task, Work
from clustered_bandit_gym.harness.run import count_jobs, run
from clustered_bandit_gym.harness.settings import Cell

PLAYERS: list[Any] = ["naive", "bai-cl++", Empirical(3), Stepper(1), Duck(10), Fails(0.5)]


def rows(**how: Any) -> pd.DataFrame:
    return cbg.evaluate(PLAYERS, **QUICK, trials=6, **how).trials.drop(columns="seconds")


def test_jobs_give_identical_rows() -> None:
    one = rows(n_jobs=1)
    assert set(one["outcome"]) >= {"solved", "wrong", "error"}
    pd.testing.assert_frame_equal(one, rows(n_jobs=2))


@pytest.mark.skipif(bool(NO_DASK), reason=NO_DASK)
def test_dask_gives_identical_rows() -> None:
    pytest.importorskip("distributed")
    from distributed import Client, LocalCluster

    one = rows(n_jobs=1)
    # Threads instead of processes start faster, and are the harder case: workers that share a
    # process.
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        pd.testing.assert_frame_equal(
            one, rows(n_jobs=2, backend="dask", address=cluster.scheduler_address)
        )


def test_a_class_of_this_function_reaches_the_workers() -> None:
    times = 17

    class Local(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            federation.pull(0, 0, times)
            return np.full(federation.problem.n_agents, os.getpid() % 2)

    board = cbg.evaluate(Local(), TINY, trials=4, n_jobs=2, progress=False)
    assert board.trials["pulls"].tolist() == [17] * 4


def test_an_instance_reaches_the_workers() -> None:
    instance = cbg.generators.PaperSmall(n_agents=200_000)(
        np.random.default_rng(0)
    )  # large: mapped, not copied
    board = cbg.evaluate(
        Empirical(1),
        "ClusteredBAI-v0",
        instance=instance,
        trials=2,
        n_jobs=2,
        progress=False,
        bound=False,
    )
    assert board.trials["pulls"].tolist() == [2_000_000] * 2


def test_what_cannot_travel_is_told() -> None:
    class Holds(cbg.Policy):
        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __deepcopy__(self, memo: Any) -> Holds:
            return self

        def solve(self, federation: cbg.Federation) -> np.ndarray:
            raise NotImplementedError

    with pytest.raises(ValueError, match="use n_jobs=1"):
        cbg.evaluate(Holds(), TINY, trials=2, n_jobs=2, progress=False)


def test_rows_come_as_they_end() -> None:
    """A trial that is done is kept while others still run."""

    class Sleeps(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            time.sleep(0.01 if federation.rng.random() < 0.5 else 0.5)
            return np.zeros(federation.problem.n_agents, dtype=int)

    work = Work([Cell(TINY)], [("sleeps", Sleeps())], seed=3, bound=False)
    arrived = []
    for task, row in run(work, [Task(0, 0, trial) for trial in range(8)], n_jobs=2):
        arrived.append((task.trial, row["seconds"]))
    assert sorted(trial for trial, _ in arrived) == list(range(8))
    assert [trial for trial, _ in arrived] != sorted(trial for trial, _ in arrived)


@pytest.mark.parametrize(("given", "count"), [(1, 1), (3, 3), (-1, None)])
def test_count_jobs(given: int, count: int | None) -> None:
    assert count_jobs(given) == (count or count_jobs(-1)) >= 1
