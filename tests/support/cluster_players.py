"""Players for the tests of the Dask backend."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
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
