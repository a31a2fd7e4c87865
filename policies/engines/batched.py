"""Few batches: each is as large as the estimates say that the rest of the search takes.

A first batch estimates the means; the next ones follow the optimal proportions for the estimates
(Opt-BBAI: Jin, Yang, Tang, Xiao and Xu 2024, arXiv:2310.14129). Adapted: if a batch does not
decide, the next one is planned in the same way, and grows by a factor between 1.5 and 6; the
stopping rule is that of `adaptive`. For agents that are asked in rounds, a day's traffic at a time.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.policies.engines.adaptive import adaptive, leading_cells, pulls_left
from clustered_bandit_gym.policies.engines.track_and_stop import exploring_shares


def _plan(counts: Floats, gaps: Floats, level: float) -> Floats:
    """(r, k) the next batch: enough to decide if the averages were the means."""
    top = leading_cells(gaps)
    shares = exploring_shares(gaps)
    error = np.sqrt(1 / counts + 1 / counts[top])
    # Nats that one pull in these shares is worth against each rival, for gaps that are a standard
    # error larger: a batch that is too small costs a round, one that is too large costs pulls.
    worth = (gaps + error) ** 2 / (2 * (1 / shares[top] + 1 / np.maximum(shares, 1e-12)))
    worth[top] = np.inf
    # Mixing and bad luck cost about 4 nats.
    needed = (level + 4.0) / np.maximum(worth.min(axis=1, keepdims=True), 1e-12)
    total = pulls_left(counts, gaps)
    return shares * np.clip(needed - total, 0.5 * total, 5.0 * total)


batched = partial(adaptive, plan=_plan)
