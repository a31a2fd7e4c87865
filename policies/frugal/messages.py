"""Numbers that go down to many agents, in few bits: a bound and the distance to the next one."""

from __future__ import annotations

from math import ceil

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.game.ledger import Payload, Quantised, Reals, Symbol
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.frugal.spending import FRUGAL, Spending
from clustered_bandit_gym.policies.sequential.betting import BETS, RATIO, TOP

#: The least and the largest distance, in units of σ; the least one is at most this many η. 128 distances between them
#: are 5% apart.
GAP_LEAST, GAP_MOST, GAP_LEAST_ETA = 0.02, 9.8, 0.5
#: Bounds are like floating-point numbers of either sign between these powers of two. Steps between two of them for the
#: bound of a list: an agent gets one message in all then, so it may be precise.
POWERS, LIST_STEPS = (-4, 4), 1024
#: Distances inside a told support: the first ones step by step, then by factors, up to this part of the support. In the
#: middle of the least one even the smallest bet must win in the long run: by a quarter of it at the largest variance,
#: and twice that.
SUPPORT_GAP_MOST, SUPPORT_GAP_LEAST = 0.25, 2 * 0.25 * TOP / RATIO ** (BETS - 1)
#: A rounded bound that leaves less than this part of a distance is sent as a real number instead. With 0.95
#: communication grows by 5% to 26%, as reals become frequent; 0.7 changes nothing.
ENOUGH = 0.85


def bound_grid(problem: Problem, bounded: bool, spending: Spending) -> Floats:
    """What a bound is rounded to: known to everybody. One less than a power of two, so that a code is left over."""
    if bounded:
        assert problem.support is not None
        return np.linspace(*problem.support, spending.support_steps + 1)[
            :-1
        ]  # nothing is above the last one
    steps = spending.bound_steps
    size = (2.0 ** np.arange(*POWERS)[:, None] * (1 + np.arange(steps) / steps)).ravel()
    return problem.sigma * np.concatenate([-size[-3::-1], [0.0], size])


def gap_grid(problem: Problem, bounded: bool, spending: Spending) -> Floats:
    """What a distance is rounded to."""
    if bounded:
        assert problem.support is not None
        step = (problem.support[1] - problem.support[0]) / spending.support_steps
        most, count = SUPPORT_GAP_MOST * spending.support_steps, spending.support_gaps
        first = max(2, ceil(SUPPORT_GAP_LEAST * spending.support_steps))
        even = np.arange(float(first), first + count // 2)
        return step * np.append(even, np.geomspace(even[-1], most, count - even.size + 1)[1:])
    least = (
        GAP_LEAST
        if problem.eta is None
        else min(GAP_LEAST, GAP_LEAST_ETA * problem.eta / problem.sigma)
    )
    return problem.sigma * np.geomspace(least, GAP_MOST, spending.gaps)


def bound_and_gap(
    problem: Problem, low: Floats, high: Floats, bounded: bool, spending: Spending = FRUGAL
) -> tuple[Payload, ...] | None:
    """Payloads for `low` (n,), rounded up, and `high − low` > 0, rounded down: so that what arrives lies between them.

    The bound is a grid point or, after a code that is left over for it, a real number; inside a told support it always
    is a grid point. None where a distance is too small to be sent.
    """
    grid, gaps = bound_grid(problem, bounded, spending), gap_grid(problem, bounded, spending)
    inside = (low >= grid[0]) & (low <= grid[-1])
    near = np.where(inside, Quantised(low, grid, "up", clip=True).values, np.inf)
    coarse = bounded or bool(
        np.all(inside) and np.all(high - near >= np.maximum(ENOUGH * (high - low), gaps[0]))
    )
    if bounded and not np.all(inside):
        return None
    bound: Payload = Quantised(low, grid, "up") if coarse else Reals(upper_edge(low))
    left = high - bound.values
    if np.any(left < gaps[0]):
        return None
    distance = Quantised(left, gaps, "down", clip=True)
    escape = Symbol(np.full(low.shape, grid.size), among=grid.size + 1)
    return (bound, distance) if coarse else (bound, distance, escape)


def upper_edge(sent: Floats) -> Floats:
    """At least the numbers that were sent as reals and arrived as `sent`: in single precision, one part in 2²⁴ off."""
    return sent + (np.abs(sent) * 2.0**-23 + 2.0**-126)


def lower_edge(sent: Floats) -> Floats:
    """At most the numbers that were sent as reals."""
    return sent - (np.abs(sent) * 2.0**-23 + 2.0**-126)
