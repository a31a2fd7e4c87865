"""Numbers that go down to many agents, in few bits: a bound and the distance to the next one."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.game.ledger import Flag, Payload, Quantised, Reals
from clustered_bandit_gym.game.problem import Problem

#: Distances: so many numbers, each this factor above the one before; the least in units of the scale of rewards.
GAPS, GAP_RATIO, GAP_LEAST = 64, 1.1, 0.02
#: Numbers of either sign like floating-point ones: powers of two, and steps between them.
POWERS, STEPS = (-4, 4), 32
#: Bounds inside a told support are one of so many numbers, evenly spread, and distances of so many.
SUPPORT_STEPS, SUPPORT_GAPS, SUPPORT_RATIO = 256, 16, 1.25
#: A rounded bound that leaves less than this part of a distance is sent as a real number instead.
ENOUGH = 0.85


def bound_grid(problem: Problem, bounded: bool) -> Floats:
    """What a bound is rounded to: known to everybody."""
    if bounded:
        assert problem.support is not None
        return np.linspace(*problem.support, SUPPORT_STEPS)
    size = (2.0 ** np.arange(*POWERS)[:, None] * (1 + np.arange(STEPS) / STEPS)).ravel()
    return problem.sigma * np.concatenate([-size[-2::-1], [0.0], size])


def gap_grid(problem: Problem, bounded: bool) -> Floats:
    """What a distance is rounded to."""
    if bounded:
        assert problem.support is not None
        least = 2 * (problem.support[1] - problem.support[0]) / SUPPORT_STEPS
        return least * SUPPORT_RATIO ** np.arange(float(SUPPORT_GAPS))
    return problem.sigma * GAP_LEAST * GAP_RATIO ** np.arange(float(GAPS))


def bound_and_gap(problem: Problem, low: Floats, high: Floats, bounded: bool) -> tuple[Payload, ...] | None:
    """Payloads for `low` (n,), rounded up, and `high − low` > 0, rounded down: so that what arrives lies between them.

    A bit says whether the bound is a grid point or a real number; inside a told support it always is a grid point. None
    where a distance is too small to be sent.
    """
    grid, gaps = bound_grid(problem, bounded), gap_grid(problem, bounded)
    inside = (low >= grid[0]) & (low <= grid[-1])
    near = np.where(inside, Quantised(low, grid, "up", clip=True).values, np.inf)
    coarse = bounded or bool(np.all(inside) and np.all(high - near >= np.maximum(ENOUGH * (high - low), gaps[0])))
    bound: Payload = Quantised(low, grid, "up") if coarse else Reals(low)
    left = high - bound.values
    if np.any(left < gaps[0]):
        return None
    distance = Quantised(left, gaps, "down", clip=True)
    return (bound, distance) if bounded else (bound, distance, Flag(np.full(low.shape, coarse)))
