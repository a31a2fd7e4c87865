"""Agents find their arm in the list of all clusters' best arms."""

from __future__ import annotations

from functools import partial
from math import log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Payload
from clustered_bandit_gym.policies.frugal.discover import stand_out
from clustered_bandit_gym.policies.frugal.memory import recall, top_up
from clustered_bandit_gym.policies.frugal.references import References, order, which_side
from clustered_bandit_gym.policies.frugal.settings import Levels


def accept(block: Block, arms: Ints, levels: Levels, level: float) -> Ints:
    """(n,) the agent's arm among `arms`, the best arms of all clusters.

    The leader is accepted when it is shown less than η worse than every other arm of the list. At
    an agent of cluster j the best arms of other clusters are at least η worse than that of j
    (Assumption 1): accepting one of them takes one false claim.
    """
    cells = recall(block, levels, arms.size, gap=2.0)
    rows = np.arange(len(block))
    goal = np.full(cells.n.shape, 2.0)
    while goal.any():
        top_up(block, cells, goal, arms)
        leader = cells.mean.argmax(axis=1)
        left = leader[:, None] != np.arange(arms.size)
        left &= ~cells.shows_worse(rows, leader, levels.eta, level, left)
        goal = np.where(left, (1 + levels.settings.look) * cells.n, 0.0)
        # √Σn² pulls of the leader make the sum of all pulls least. Arms far ahead of it wait.
        n_leader = cells.n[rows, leader]
        most = np.sqrt((goal**2).sum(axis=1))
        goal[cells.n > 2 * n_leader[:, None]] = 0
        goal[rows, leader] = np.minimum(most, 2 * n_leader)
    return arms[leader]


def find_in_list(block: Block, members: np.ndarray, ref: References, level: float) -> Payload:
    """An agent's arm in the list `members` (n, K)."""
    arms = np.flatnonzero(members[0])
    return ArmIndex(accept(block, arms, ref.levels, level), among=arms)


def find_high(
    block: Block, members: np.ndarray, number: Floats, gap: Floats, ref: References, level: float
) -> Payload:
    """As `find_in_list`. `number` (n,) is η below all best means: an arm above it is the best.

    `level` is for the list, which is used if no arm is shown above the number.
    """
    arms = np.flatnonzero(members[0])
    lead = np.full((len(block), arms.size), log(arms.size) + 2)
    answer = arms[stand_out(block, arms, lead, ref.levels)]
    rest = np.flatnonzero(which_side(block, answer, number, gap, ref) != 1)
    if rest.size:
        answer[rest] = accept(block.part(rest), arms, ref.levels, level)
    return ArmIndex(answer, among=arms)


def height(
    federation: Federation, reps: Ints, best: Ints, ref: References, n: int
) -> tuple[Payload, Payload] | None:
    """For n agents: the number that is η below the best means; None if these differ too much."""
    eta = ref.levels.eta
    gap = np.full((reps.size, 1), 0.8 * eta)
    low, high, least = order(federation, reps, best[:, None], gap, ref)
    number = float(high.max()) - eta
    about_equal = low.min() >= number + eta / 2
    return ref.threshold(number, number + eta, least.max(), n) if about_equal else None


def by_list(
    federation: Federation,
    agents: Ints,
    best: Ints,
    ref: References,
    number: tuple[Payload, Payload] | None,
    again: bool,
) -> Ints:
    """The arms of `agents` (n,), found in the list of `best` arms (M,), with the `number` if any.

    `again`: they have tried before, in a tree.
    """
    first = number is None and not again
    level = ref.levels.agent if first else ref.levels.agent_again
    program = partial(find_high if number else find_in_list, ref=ref, level=level)
    members = np.isin(np.arange(federation.problem.n_arms), best)
    down = (ArmSet(members, at_most=best.size), *(number or ()))
    with federation.phase("classify"):
        return federation.local(agents, program, down=down, n_arms=best.size)
