"""Observations as one flat vector of numbers in [−1, 1], for libraries without composite spaces."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from clustered_bandit_gym._types import Floats, Ints

#: Features of each (agent, arm) cell. The last compares with the best other arm of the agent.
CELL = ("log pulls", "mean in sigmas", "standard error in sigmas", "lead in standard errors")


def box_space(n_agents: int, n_arms: int) -> spaces.Box:
    """The space of `box_features` for one play."""
    return spaces.Box(-1, 1, (n_agents * n_arms * len(CELL) + 1,), np.float32)


def box_features(pulls: Ints, means: Floats, sigma: Floats | float, time: Floats) -> np.ndarray:
    """(E, N·K·4 + 1) float32 in [−1, 1] of E plays, from `pulls` and `means` (E, N, K).

    Four features of each cell, agent by agent (`CELL`), then `time` (E,), the used share of `max_pulls`. They do not
    change when all means shift, or when means and `sigma` are scaled together. Cells without pulls have mean and lead 0.
    """
    pulled = pulls > 0
    total = np.maximum(pulls.sum(axis=(1, 2)), 1)
    average = (pulls * means).sum(axis=(1, 2)) / total
    variance = 1 / np.maximum(pulls, 1)  # of a cell's mean, in σ²
    cells = np.zeros((*pulls.shape, len(CELL)), dtype=np.float32)
    cells[..., 0] = np.minimum(np.log1p(pulls) / 6, 1)
    cells[..., 1] = np.where(pulled, (means - average[:, None, None]) / (4 * sigma), 0)
    cells[..., 2] = 1 / np.sqrt(1 + pulls)
    if pulls.shape[2] > 1:
        known = np.where(pulled, means, -np.inf)
        rank = np.argsort(known, axis=2)
        best, second = rank[..., -1:], rank[..., -2:-1]
        rival = np.where(np.arange(pulls.shape[2]) == best, second, best)
        both = pulled & np.take_along_axis(pulled, rival, axis=2)
        lead = means - np.take_along_axis(means, rival, axis=2)
        spread = sigma * np.sqrt(variance + np.take_along_axis(variance, rival, axis=2))
        cells[..., 3] = np.where(both, lead / (4 * spread), 0)
    flat = np.clip(cells, -1, 1, out=cells).reshape(len(pulls), -1)
    return np.concatenate([flat, time[:, None].astype(np.float32)], axis=1)
