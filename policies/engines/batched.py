"""Few batches: each is as large as the estimates say that the rest of the search takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.engines.adaptive import adaptive
from clustered_bandit_gym.policies.engines.track_and_stop import exploring_shares

#: A batch multiplies an agent's pulls by one of these, at the least and at the most.
LEAST_GROWTH = 1.5
MOST_GROWTH = 6.0
#: Nats beyond the level for which a batch is planned: what mixing and bad luck cost.
RESERVE = 4.0
#: A batch is planned for gaps that are this many standard errors larger than estimated: a batch
#: that is too small costs a round, one that is too large costs pulls.
OPTIMISM = 1.0


def batched(
    block: Block, arms: Ints, gamma: Any, precision: float | None = None
) -> tuple[np.ndarray, Floats]:
    """Opt-BBAI's idea (Jin, Yang, Tang, Xiao and Xu 2024, arXiv:2310.14129): a handful of batches.

    A first batch estimates the means; the next ones follow the optimal proportions for the
    estimates, and are as large as these say is needed. Adapted: if a batch does not decide, the
    next one is planned in the same way, and grows by a factor between 1.5 and 6; the stopping rule
    is that of `adaptive`. For agents that are asked in rounds, a day's traffic at a time, say. See
    `Engine` for arguments and result.
    """
    return adaptive(block, arms, gamma, precision, _plan)


def _plan(counts: Floats, gaps: Floats, level: Floats) -> Floats:
    """(r, k) the next batch: enough to decide if the averages were the means."""
    rows = np.arange(counts.shape[0])
    left = np.isfinite(gaps)
    leader = gaps.argmin(axis=1)
    shares = exploring_shares(gaps)
    error = np.sqrt(1 / counts + 1 / counts[rows, leader][:, None])
    lead_share = shares[rows, leader][:, None]
    # Nats that one pull in these shares is worth against each rival.
    worth = (gaps + OPTIMISM * error) ** 2 / (2 * (1 / lead_share + 1 / np.maximum(shares, 1e-12)))
    worth[~left] = np.inf
    worth[rows, leader] = np.inf
    needed = (level + RESERVE) / np.maximum(worth.min(axis=1), 1e-12)
    total = np.where(left, counts, 0.0).sum(axis=1)
    batch = np.clip(needed - total, (LEAST_GROWTH - 1) * total, (MOST_GROWTH - 1) * total)
    return shares * batch[:, None]
