"""The paper's successive elimination as an engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.paper.elimination import eliminate, separating_rounds


def elimination(
    block: Block, arms: Ints, gamma: Any, precision: float | None = None
) -> tuple[np.ndarray, Floats]:
    """SE(A, γ, R): fresh samples in every round (Even-Dar, Mannor and Mansour 2002).

    R is ∞ without `precision`, else the number of rounds after which arms that far below the best
    are gone.
    """
    return eliminate(
        block, arms, gamma, None if precision is None else separating_rounds(precision)
    )
