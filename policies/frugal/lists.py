"""Agents find their arm in the list of all clusters' best arms."""

from __future__ import annotations

from functools import partial
from math import log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Payload
from clustered_bandit_gym.policies.frugal.memory import empty_cells, top_up
from clustered_bandit_gym.policies.frugal.references import (
    ABOVE,
    References,
    own_references,
    which_side,
)
from clustered_bandit_gym.policies.frugal.search import stand_out
from clustered_bandit_gym.policies.frugal.settings import Levels


def accept(block: Block, arms: Ints, levels: Levels, number: int) -> Ints:
    """(n,) the agent's arm among `arms`, the best arms of all clusters.

    The leader is accepted when it is shown less than η worse than every other arm of the list. At an
    agent of cluster j the best arms of other clusters are at least η worse than that of j
    (Assumption 1): accepting one of them takes one false claim.
    """
    eta, look, level = levels.eta, levels.settings.look, levels.agent(number)
    cells = empty_cells(block, levels, arms.size, gap=2.0)
    top_up(block, cells, np.full(cells.n.shape, 2.0), arms)
    answer = np.zeros(len(block), dtype=np.int64)
    todo = np.arange(len(block))
    while todo.size:
        i = np.arange(todo.size)
        n, mean, variance = cells.n[todo], cells.mean[todo], cells.variance()[todo]
        leader = mean.argmax(axis=1)
        answer[todo] = leader
        open_ = np.ones(mean.shape, dtype=bool)
        open_[i, leader] = False
        open_ &= ~cells.shows_worse(todo, leader, eta, level, open_)
        need = accept_pulls(mean, variance, leader, level + cells.slack, eta, open_)
        step = np.clip(0.7 * (need - n), np.maximum(look * n, 1), n)
        goal = np.where(open_, n + step, 0)
        n_leader = n[i, leader]
        goal_leader = np.minimum(np.sqrt((goal**2).sum(axis=1)), 2 * n_leader + 1)
        goal[n > 2 * n_leader[:, None] + 1] = 0  # these wait for the leader
        goal[i, leader] = goal_leader
        go_on = open_.any(axis=1)
        full = np.zeros(cells.n.shape)
        full[todo[go_on]] = goal[go_on]
        todo = todo[go_on]
        top_up(block, cells, full, arms)
    return arms[answer]


def accept_pulls(
    mean: Floats, variance: Floats, leader: Ints, level: float, eta: float, open_: np.ndarray
) -> Floats:
    """(n, M) pulls of each arm with which `leader` (n,) is expected to be accepted.

    The leader has √M' times the pulls of each of M' others: that makes the sum least.
    """
    i = np.arange(leader.size)
    margin = np.maximum(mean[i, leader][:, None] - mean, 0) + eta
    others = np.sqrt(np.maximum(open_.sum(axis=1, keepdims=True), 1))
    return np.asarray(2 * level * (variance + variance[i, leader][:, None] / others) / margin**2)


def _members(best: Ints, n_arms: int) -> ArmSet:
    return ArmSet(np.isin(np.arange(n_arms), best), at_most=best.size)


def find_in_list(block: Block, members: np.ndarray, levels: Levels, number: int) -> Payload:
    arms = np.flatnonzero(members[0])
    return ArmIndex(accept(block, arms, levels, number), among=arms)


def by_list(federation: Federation, best: Ints, levels: Levels, arms: Ints, number: int) -> None:
    """Agents without an arm (−1) find it in the list of best arms; fills in `arms` (N,)."""
    rest = np.flatnonzero(arms < 0)
    if rest.size:
        program = partial(find_in_list, levels=levels, number=number)
        with federation.phase("classify"):
            down = _members(best, federation.problem.n_arms)
            arms[rest] = federation.local(rest, program, down=down, n_arms=best.size)


def find_high(
    block: Block, members: np.ndarray, gap: Floats, reach: Ints, place: Ints, ref: References
) -> Payload:
    """As `find_in_list`, if the best means of all clusters are about equal.

    The number of the threshold is η below all of them: an arm of the list above it is the best.
    """
    arms = np.flatnonzero(members[0])
    nothing = np.zeros((len(block), arms.size))
    column = stand_out(block, arms, nothing, nothing + log(arms.size) + 2.0, ref.levels)
    answer = arms[column]
    rest = np.flatnonzero(which_side(block, answer, gap, reach, place, ref) != ABOVE)
    if rest.size:
        answer[rest] = accept(block.part(rest), arms, ref.levels, 2)
    return ArmIndex(answer, among=arms)


def by_height(
    federation: Federation, reps: Ints, best: Ints, name: str, ref: References, arms: Ints
) -> bool:
    """As `by_list`, with one number more: η below the best means. False if these differ too much."""
    eta, rest = ref.levels.eta, np.flatnonzero(arms < 0)
    nearly = 0.8 * eta
    with federation.phase("references"):
        low, high = own_references(federation, reps, best, name, ref, nearly)
    number = float(high.max()) - eta
    sent = ref.threshold(number, number + eta, rest.size)
    if sent is None or sent[0].values.min(initial=eta) < nearly or low.min() < number + eta / 2:
        return False
    with federation.phase("classify"):
        down = (_members(best, federation.problem.n_arms), *sent)
        program = partial(find_high, ref=ref)
        arms[rest] = federation.local(rest, program, down=down, n_arms=best.size)
    return True
