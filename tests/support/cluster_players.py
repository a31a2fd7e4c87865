"""Players for the tests of the Dask backend."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness_players import TINY, Empirical
from machine import lacks

import clustered_bandit_gym as cbg

NO_DASK = lacks("Dask")


class Paced(cbg.Policy):
    """Takes its time, so that processes can be killed at work; leaves the id of its process in a folder."""

    def __init__(self, folder: str, seconds: float = 0.1) -> None:
        self.folder, self.seconds = folder, seconds

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        Path(self.folder, str(os.getpid())).touch()
        time.sleep(self.seconds)
        federation.pull(federation.agents, 0, 10)
        return federation.rng.integers(3, size=federation.problem.n_agents)


class Exits(cbg.Policy):
    """Ends its process in every trial whose own random number is below 0.3."""

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        if federation.rng.random() < 0.3:
            os._exit(3)
        return np.zeros(federation.problem.n_agents, dtype=int)


def content(trials: pd.DataFrame) -> pd.DataFrame:
    """What every run of the same trials must agree on."""
    return trials.drop(columns=["seconds", "attempts"])


def check_own_processes(backend: str) -> None:
    """Without an address the backend starts processes; a trial that ends its process costs no other trial."""
    how: dict[str, Any] = {"trials": 4, "seed": 1, "progress": False}
    trials = cbg.evaluate([Exits(), Empirical(3)], TINY, n_jobs=1, backend=backend, **how).trials
    assert (trials["outcome"] == "crash").tolist() == [False, False, True, False] + 4 * [False]
    alone = cbg.evaluate(Empirical(3), TINY, **how).trials
    pd.testing.assert_frame_equal(content(trials[4:].reset_index(drop=True)), content(alone))
