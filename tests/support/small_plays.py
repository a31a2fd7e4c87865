"""Small plays for tests of the game."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym import Federation, Gaussian, Instance, Problem
from clustered_bandit_gym.generators import PaperSmall


def small(n_agents: int = 6, seed: int = 0, **settings: Any) -> Federation:
    instance = PaperSmall(n_agents)(np.random.default_rng(1))
    return Federation(instance, Problem.of(instance, 0.1), seed, **settings)


def noiseless(clusters: list[int] | None = None, **settings: Any) -> Federation:
    """Averages are the means, so results can be compared digit by digit."""
    means = [[0.9, 0.1, 0.2], [0.0, 0.8, 0.3]]
    instance = Instance(means, [0, 1, 1, 0] if clusters is None else clusters, Gaussian(0.0))
    return Federation(instance, Problem.of(instance, 0.1), 0, **settings)
