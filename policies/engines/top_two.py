"""Top-two sampling: the leader, and the challenger that is cheapest to be mistaken about.

EB-TCI: empirical best leader, transport cost with improved exploration, β = 1/2.

The challenger is the arm j that minimises Δ_j²/(2(1/N_leader + 1/N_j)) + ln N_j (Jourdan,
Degenne and Kaufmann 2023, arXiv:2305.16041; Jourdan et al. 2022, arXiv:2206.05979). Adapted:
pulls come in batches, in which the rule is followed with the averages of the last one; arms
shown to be worse are not pulled any more; the stopping rule is that of `adaptive`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.policies.engines.adaptive import adaptive, leading_cells, pulls_left

#: A batch is planned in this many steps, each with one challenger, or with as many of the best ones
#: as it takes that every arm could be one in a batch.
STEPS = 16


def _plan(counts: Floats, gaps: Floats, level: float) -> Floats:
    """(r, k) the next batch, a tenth of the pulls of the arms that are left: half of each step to
    the leader, half to its challengers."""
    top = leading_cells(gaps)
    challengers = -(-counts.shape[1] // STEPS)
    # 1.1 - 1: a tenth but for its last digit, on which kept rows depend.
    step = (1.1 - 1) * pulls_left(counts, gaps) / STEPS
    planned = counts.copy()
    for _ in range(STEPS):
        cost = gaps**2 / (2 * (1 / planned[top] + 1 / planned)) + np.log(planned)
        cost[top] = np.inf
        cheapest = cost.argpartition(challengers - 1, axis=1)[:, :challengers]
        planned[top] += step / 2
        planned[top[0], cheapest] += step / (2 * challengers)
    return planned - counts


top_two = partial(adaptive, plan=_plan)
