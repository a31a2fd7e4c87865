"""Numbers that go down to many agents, in few bits: a bound and the distance to the next one."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.game.ledger import Payload, Quantised, Reals, Symbol
from clustered_bandit_gym.game.problem import Problem

#: Distances: so many numbers, each this factor above the one before; the least in units of the scale of rewards.
GAPS, GAP_RATIO, GAP_LEAST = 128, 1.05, 0.02
#: Numbers of either sign like floating-point ones: powers of two, and steps between them.
POWERS, STEPS, FINE_STEPS = (-4, 4), 32, 1024
#: Bounds inside a told support are one of so many numbers, evenly spread, and distances are so many steps between them.
SUPPORT_STEPS = 257
SUPPORT_GAPS = np.array([2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 21, 28, 40, 64])
#: A rounded bound that leaves less than this part of a distance is sent as a real number instead.
ENOUGH = 0.85


def bound_grid(problem: Problem, bounded: bool, steps: int = STEPS) -> Floats:
    """What a bound is rounded to: known to everybody. One less than a power of two, so that a code is left over."""
    if bounded:
        assert problem.support is not None
        return np.linspace(*problem.support, SUPPORT_STEPS)[:-1]  # nothing is above the last one
    size = (2.0 ** np.arange(*POWERS)[:, None] * (1 + np.arange(steps) / steps)).ravel()
    return problem.sigma * np.concatenate([-size[-3::-1], [0.0], size])


def gap_grid(problem: Problem, bounded: bool) -> Floats:
    """What a distance is rounded to."""
    if bounded:
        assert problem.support is not None
        return (problem.support[1] - problem.support[0]) / (SUPPORT_STEPS - 1) * SUPPORT_GAPS
    return problem.sigma * GAP_LEAST * GAP_RATIO ** np.arange(float(GAPS))


def bound_and_gap(
    problem: Problem, low: Floats, high: Floats, bounded: bool, steps: int = STEPS
) -> tuple[Payload, ...] | None:
    """Payloads for `low` (n,), rounded up, and `high − low` > 0, rounded down: so that what arrives lies between them.

    The bound is a grid point or, after a code that is left over for it, a real number; inside a told support it always
    is a grid point. None where a distance is too small to be sent.
    """
    grid, gaps = bound_grid(problem, bounded, steps), gap_grid(problem, bounded)
    inside = (low >= grid[0]) & (low <= grid[-1])
    near = np.where(inside, Quantised(low, grid, "up", clip=True).values, np.inf)
    coarse = bounded or bool(np.all(inside) and np.all(high - near >= np.maximum(ENOUGH * (high - low), gaps[0])))
    if bounded and not np.all(inside):
        return None
    bound: Payload = Quantised(low, grid, "up") if coarse else Reals(low)
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
