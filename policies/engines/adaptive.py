"""The loop of engines that choose how often to pull each arm from what they have seen.

An engine is a rule that plans the next batch. Everything that its guarantee rests on is here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.federation import Block
from clustered_bandit_gym.policies.engines.registry import Found
from clustered_bandit_gym.policies.sequential.cells import PLAIN, At, Cells, block_cells
from clustered_bandit_gym.policies.sequential.paired import PairedWalks, all_close
from clustered_bandit_gym.policies.sequential.scales import Scales

#: plan(counts, gaps, level) -> times. counts: (r, k) pulls so far; gaps: (r, k) distance to the
#: best average in units of σ, at least `precision`, inf for an arm that is out; level: nats
#: asked for, which plans for a single batch need; times: (r, k) or (r, 1) wanted pulls, at least
#: one of every arm that is left: few pulls in each batch gather hardly any evidence.
Plan = Callable[[Floats, Floats, float], Floats]

#: Cells of the (agents, arms, arms) table of walks at most; larger blocks are played in parts.
MOST_CELLS = 2**22


def leading_cells(gaps: Floats) -> At:
    """(r, 1) rows and columns of the smallest gaps, those of the leaders."""
    return np.arange(len(gaps))[:, None], gaps.argmin(axis=1, keepdims=True)


def pulls_left(counts: Floats, gaps: Floats) -> Floats:
    """(r, 1) pulls so far of the arms that are left."""
    return counts.sum(axis=1, keepdims=True, where=np.isfinite(gaps))


def adaptive(
    block: Block,
    arms: Ints,
    gamma: float,
    precision: float | None = None,
    *,
    plan: Plan,
    walks_of: type[PairedWalks] = PairedWalks,
) -> Found:
    """Pull the batches that `plan` asks for; drop an arm once the leader is shown to be better.

    Evidence comes from paired differences (`sequential.paired`): every batch pulls every arm that
    is left. With `precision` it ends once every arm left is shown less than `precision` worse than
    every other one. Where rewards are told to have finitely many values in an interval, each level
    is split over three tests of the same pair: 0.3 for the walk, 0.21 for mixtures of the two arms'
    averages and 0.49 for bets (both `sequential.cells`). Proof in docs/engines.md, whatever the
    plan.

    See `Engine` for arguments and result.
    """
    n = len(block)
    k = arms.size
    active = np.ones((n, k), dtype=bool)
    if k == 1 or precision == np.inf:
        return active, np.zeros((n, k))
    part = max(1, MOST_CELLS // k**2) if walks_of is PairedWalks else n
    if n > part:
        results = [
            adaptive(block.part(rows), arms, gamma, precision, plan=plan, walks_of=walks_of)
            for rows in np.split(np.arange(n), range(part, n, part))
        ]
        active, estimates = map(np.concatenate, zip(*results, strict=True))
        return active, estimates
    width = (precision or 0.0) / block.problem.sigma
    events = (2 if width else 1) * (k - 1)
    nats = -np.log(min(gamma / events, 0.5))
    # Tuned to gaps of σ/20: they take 2·nats/gap² pulls.
    cells = block_cells(block, k, Scales(800 * nats, np.exp(-nats)))
    walks = walks_of(cells)
    tests: list[tuple[PairedWalks | Cells, float]] = [(walks, nats)]
    if cells.bets:  # walks have the weight PLAIN, bets the rest
        tests = [(walks, nats - np.log(PLAIN)), (cells, nats - np.log(1 - PLAIN))]
    running = np.arange(n)
    # Before this many pulls only gaps beyond about 3σ could show.
    times = np.full((n, k), ceil(nats / 2))
    while running.size:
        i, column = np.nonzero(times)
        cells.pull(block, running[i], column, times[i, column], arms[column])
        walks.add(running, times)
        left = active[running]
        means = np.where(left, cells.mean[running], -np.inf)
        leader = means.argmax(axis=1)
        for test, level in tests:
            left &= ~test.shows_worse(running, leader, 0.0, level, left)
        active[running] = left
        done = left.sum(axis=1) == 1
        if width:
            for test, level in tests:
                done |= all_close(test, running, left, width, level, means)
        running = running[~done]
        left = left[~done]
        means = means[~done]
        gaps = np.where(left, means.max(axis=1, keepdims=True) - means, np.inf)
        # Smaller gaps need not be resolved; the leader's own zero marks it.
        gaps = np.maximum(gaps, width * (gaps > 0))
        wanted = plan(cells.n[running], gaps, nats)
        times = np.where(left, np.maximum(np.rint(wanted), 1), 0).astype(int)
    return active, cells.mean * block.problem.sigma
