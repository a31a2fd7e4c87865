"""Successive elimination on cumulative samples, with a mixture for each pair of arms.

All arms that are left are pulled equally often. After n pulls each, the difference of two averages
times n/2 is a walk with variance n/2 (`sequential.paired`, σ = 1): one average per arm is all that
has to be kept. The stopping rule is that of `adaptive`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.policies.engines.adaptive import adaptive
from clustered_bandit_gym.policies.sequential.cells import Cells
from clustered_bandit_gym.policies.sequential.paired import PairedWalks, shows_drift


class EqualWalks(PairedWalks):
    """The walks of all pairs of arms that were pulled equally often, as `PairedWalks` has them."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    def add(self, rows: Ints, times: Ints) -> None:
        """Nothing to add: the walks follow from the averages."""

    def shows_worse(self, rows: Ints, arm: Ints, shift: float, level: float, among: Bools) -> Bools:
        at = (rows[:, None], arm[:, None])
        half = self._cells.n[at] / 2
        behind = np.where(among, shift + (self._cells.mean[at] - self._cells.mean[rows]), 0.0)
        return shows_drift(half * behind, half, level)


def _plan(counts: Floats, gaps: Floats, level: float) -> Floats:
    """(r, 1) a tenth more of every arm that is left: one is dropped at most that much too late."""
    n = counts.max(axis=1, keepdims=True)
    return np.ceil(n * 1.1) - n


mixture = partial(adaptive, plan=_plan, walks_of=EqualWalks)
