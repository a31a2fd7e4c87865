"""Track-and-stop: pull in the proportions that are optimal for the estimated means; stop on a likelihood ratio."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.sequential.boundaries import radius, tuned_rho
from clustered_bandit_gym.policies.sequential.gaussian import pair_reaches
from clustered_bandit_gym.policies.sequential.running_means import Tally
from clustered_bandit_gym.policies.sequential.scales import Scales

#: An agent's total number of pulls grows by this factor at a time.
GROWTH = 1.15
#: The tests are tuned for gaps of this many σ when no precision is asked for; they are valid whatever the gaps are.
TUNED_GAP = 0.1

#: Steps of bisection for the shares: exact to 2^-24, far better than the estimated gaps that they come from.
BISECTIONS = 24


def optimal_shares(gaps: Floats) -> Floats:
    """Proportions of pulls that identify the best arm fastest, for unit Gaussian arms (Garivier and Kaufmann 2016).

    With x_a the share of arm a relative to the best arm's, all rivals are equally hard to rule out when
    Δ_a² x_a/(1 + x_a) is the same for all, and the total is smallest where Σ_a x_a² = 1.

    Args:
        gaps: (n, k) distance to the best mean; 0 at the best arm, the first such counts; inf for an arm not played.

    Returns:
        (n, k) shares, rows sum to one.
    """
    rows = np.arange(gaps.shape[0])
    leader = gaps.argmin(axis=1)
    squares = np.maximum(gaps, 1e-12) ** 2
    squares[rows, leader] = np.inf
    ratio = squares / squares.min(axis=1, keepdims=True)  # ≥ 1, and 1 at the closest rival

    def relative(u: Floats) -> Floats:
        return u[:, None] / (ratio - u[:, None])

    low, high = np.zeros(rows.size), np.ones(rows.size)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        over = (relative(middle) ** 2).sum(axis=1) > 1
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    shares = relative(low)
    shares[rows, leader] = 1.0
    return shares / shares.sum(axis=1, keepdims=True)


def track_and_stop(
    block: Block, arms: Ints, gamma: Any, precision: float | None = None
) -> tuple[np.ndarray, Floats]:
    """Track the optimal proportions, stop when the leader's generalised likelihood ratio against every rival is large.

    A wrong leader a is returned only if the evidence that a beats the best arm ever passes ln((|A| − 1)/γ): |A| − 1
    pairs at level γ/(|A| − 1) (`gaussian.pair_reaches`: sub-Gaussian rewards, proved; the popular ln((1 + ln t)/γ) is
    not). With `precision`, half of γ goes to these tests and half to intervals for all means; the arms not beaten are
    returned once their intervals together are narrower than `precision`.

    Where the support of rewards is told, the same pairs are tested by bets (`sequential.cells`), e-processes under
    every law in the interval for which a is not better. In place of intervals every arm left has to be shown less than
    `precision` worse than every other one: for an arm that far below the best this is false, |A| − 1 pairs at level
    γ/(2(|A| − 1)).

    See `Engine` for arguments and result.
    """
    budget = np.broadcast_to(gamma, len(block)) / (1 if precision is None else 2)
    alpha = np.minimum(budget / max(1, arms.size - 1), 0.5)
    alpha_each = np.minimum(budget / arms.size, 0.5)
    width = TUNED_GAP if precision is None else precision / block.problem.sigma
    rho = tuned_rho(8 * np.log(1 / alpha) / width**2, alpha)
    active = np.ones((len(block), arms.size), dtype=np.bool_)
    running = np.arange(len(block) if arms.size > 1 and np.isfinite(width) else 0)
    if not running.size:
        return active, np.zeros(active.shape)
    level = np.log(1 / alpha)
    tally = Tally(block, arms, Scales.around(float(level.max()) * 8 / width**2, float(alpha.min())))
    rows, columns = np.nonzero(active)
    tally.pull(rows, columns, int(max(1, np.ceil(level.min() / 2))))
    while running.size:
        here = np.arange(running.size)
        counts, means = tally.counts[running], tally.means[running]
        leader = means.argmax(axis=1)
        top, top_count = means[here, leader][:, None], counts[here, leader][:, None]
        if tally.bounded:
            left = ~tally.worse(running, leader, level[running], np.ones(means.shape, dtype=bool))
        else:
            left = np.ones(means.shape, dtype=bool)
            i, arm = np.nonzero(means < top)
            each = rho[running[i]]
            behind = means[i, leader[i]] - means[i, arm]
            left[i, arm] = ~pair_reaches(
                level[running[i]], behind, counts[i, arm], top_count[i, 0], each, each
            )
        left[here, leader] = True
        active[running] = left
        done = left.sum(axis=1) == 1
        if precision is not None and tally.bounded:
            done |= tally.all_close(running, left, width, level[running])
        elif precision is not None:
            reach = radius(counts, alpha_each[running][:, None], rho[running][:, None])
            highest = np.where(left, means + reach, -np.inf).max(axis=1)
            done |= highest - np.where(left, means - reach, np.inf).min(axis=1) < width
        on = ~done
        running = running[on]
        if running.size:
            gaps = (top - means)[on]
            if precision is not None:
                # Gaps below the precision need not be resolved; the leader's own zero marks it.
                gaps = np.where(gaps > 0, np.maximum(gaps, width), gaps)
            rows, columns, times = _batch(tally.counts[running], gaps)
            tally.pull(running[rows], columns, times)
    return active, tally.estimates


def _batch(counts: Floats, gaps: Floats) -> tuple[Ints, Ints, Ints]:
    """The next pulls: towards the optimal shares of a total `GROWTH` times as large, and no arm below √total − |A|/2.

    Returns:
        rows, columns, times: the cells to pull and how often.
    """
    total = np.ceil(counts.sum(axis=1) * GROWTH)
    target = optimal_shares(gaps) * total[:, None]
    forced = np.sqrt(total) - counts.shape[1] / 2
    short = np.maximum(target, forced[:, None]) - counts
    # The arms behind their share get the whole batch, in proportion to what they lack.
    short = np.maximum(short, 0)
    scale = np.minimum(1, (total - counts.sum(axis=1)) / np.maximum(short.sum(axis=1), 1))
    times = np.ceil(short * scale[:, None]).astype(np.int64)
    rows, columns = np.nonzero(times)
    return rows, columns, times[rows, columns]
