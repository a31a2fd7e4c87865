"""The cells of the suites. A suite never changes: tests compute its digest.

A cell of v2 has several instances, which are shipped as data, so that no other version of NumPy or
SciPy can change them. Trials are spread over them. v1 is kept for verifying old submissions: its
cells have one instance each, drawn by a seed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import numpy as np

from clustered_bandit_gym._types import Floats, Values
from clustered_bandit_gym.datasets.suite_v2 import Fresh, Shipped, choice, shipped
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.harness.settings import Cell

#: Budget of a trial in pulls; in the Gymnasium loop, one pull a step, the limit is time.
MAX_PULLS = 10**15
MAX_STEPS = 20_000
#: A cell whose first trials all end without an answer is given up: the others are not played.
GIVE_UP = 3
DIGESTS = {
    "v1": "4736acfa443f5ab8a34bf3986725a324856b97dd7c897951515acfa3099298b6",
    "v2": "d3585e7a3d4a9086d46469e7aa5bd0037d5a965af920d5d4b99e8a48c22c7aed",
}
#: Tracks of v2, with the heading under which the board shows them.
TRACKS = {
    "told": "everything told",
    "untold": "nothing told, or not everything",
    "bounded": "real and bounded data",
    "relaxed": "beyond Assumption 1",
    "small-delta": "small δ",
}


@dataclass(frozen=True)
class SuiteCell:
    """One cell of a suite.

    Attributes:
        name: identifies the cell in rows and on the board.
        probes: what the cell is for, in one line.
        tags: groups of cells; the board shows how ranks depend on each of them.
        track: one of `TRACKS`; "" in v1.
        env_id, kwargs: the environment that is played; `kwargs` holds δ and what is told.
        trials, quick: trials of a full and of a quick run; a quick run leaves out cells with 0.
        seed: root seed of the trials.
        family: v2: from what the instances were drawn, for the record and for fresh ones.
        bounds: v2: lower bound on the expected pulls, one per instance.
    """

    name: str
    probes: str
    tags: list[str]
    kwargs: Values
    trials: int
    quick: int
    env_id: str = "ClusteredBAI-v0"
    track: str = ""
    seed: int = 1
    family: Values = field(default_factory=dict)
    bounds: list[float] = field(default_factory=list)

    @property
    def delta(self) -> float:
        return float(self.kwargs["delta"])

    @property
    def gated(self) -> bool:
        """Whether trials can show that the error rate is at most δ, so that solved means PASS."""
        return self.track != "small-delta"

    def count(self, quick: bool) -> int:
        """Trials of a full or quick run."""
        return self.quick if quick else self.trials

    def setting(self, stepper: bool = False, secret: int | None = None) -> Cell:
        """The environment that is played; `stepper` for players of the Gymnasium loop.

        `secret`: on fresh instances, drawn with this seed, instead of the shipped ones.
        """
        keywords = self.kwargs | {"max_pulls": MAX_STEPS if stepper else MAX_PULLS}
        if secret is not None:
            keywords["generator"] = Fresh(self.family, secret)
        elif self.track:
            keywords["generator"] = Shipped(self.name)
        return Cell(self.env_id, keywords)

    @property
    def instances(self) -> list[Instance]:
        """v2: the instances that the trials play."""
        return shipped(self.name)

    def bounds_of(self, trials: Iterable[int]) -> Floats:
        """(n,) lower bound on the expected pulls on the instance of each trial."""
        return np.array([self.bounds[_instance_number(self.seed, t)] for t in trials])


@cache  # a board asks for every trial of every submission, several times
def _instance_number(seed: int, trial: int) -> int:
    """Which of the shipped instances a trial plays."""
    return choice(np.random.default_rng(trial_seeds(seed, trial).instance))


@cache
def cells_of(suite: str) -> dict[str, SuiteCell]:
    """The cells of "v1" or "v2" by name."""
    text = files("clustered_bandit_gym.suite").joinpath(f"{suite}.json").read_text("utf-8")
    return {entry["name"]: SuiteCell(**entry) for entry in json.loads(text)}


def played_cells(suite: str, quick: bool) -> list[SuiteCell]:
    """The cells of a full or quick run."""
    return [cell for cell in cells_of(suite).values() if cell.count(quick)]
