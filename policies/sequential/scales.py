"""One mixture that is tight over many decades of pulls: a grid of ρ with weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.policies.sequential.boundaries import tuned_rho

#: A scale is used from this many times its ρ on, and the next is `RATIO` times larger. At the levels
#: of interest n/ρ from 20 to 640 is within a nat of the best ρ, so one of them always is.
FROM = 20.0
RATIO = 32.0


class Scales:
    """A geometric grid of ρ, fixed before the data, with weights that sum to at most one.

    The weighted average of e-processes is an e-process, and each term is below it: at any time any
    of them may be used at the price of its weight.

    Half of the weight is tuned to n pulls at level α, a quarter each to fewer and to more. The j-th
    scale away from the centre gets a share 1/(j(j + 1)); below it scales go down to one pull.

    Attributes:
        rho: (L,) increasing by a constant factor.
        weight: (L,) positive, sum at most 1.
    """

    def __init__(self, n: float, alpha: float) -> None:
        below = int(np.ceil(np.log(max(n, 1.0)) / np.log(RATIO)))
        level = np.arange(-below, 9)
        away = np.maximum(np.abs(level), 1.0)
        self.weight = np.where(level == 0, 0.5, 0.25 / (away * (away + 1)))
        self.rho: Floats = tuned_rho(n, alpha) * RATIO ** level.astype(float)

    def at(self, n: Any) -> tuple[Floats, Floats]:
        """ρ and the logarithm of its weight, at the scale that suits n > 0 pulls."""
        steps = np.log(n / (FROM * self.rho[0])) / np.log(RATIO)
        level = np.clip(steps, 0, self.rho.size - 1).astype(int)
        return self.rho[level], np.log(self.weight)[level]
