"""Agents find their arm in the list of all clusters' best arms."""

from __future__ import annotations

from functools import partial
from math import log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Payload, Quantised, Symbol
from clustered_bandit_gym.policies.frugal.discover import stand_out
from clustered_bandit_gym.policies.frugal.memory import empty_cells, top_up
from clustered_bandit_gym.policies.frugal.references import References, ends, measure, which_side
from clustered_bandit_gym.policies.frugal.settings import Levels


def accept(block: Block, arms: Ints, levels: Levels, number: int) -> Ints:
    """(n,) the agent's arm among `arms`, the best arms of all clusters.

    The leader is accepted when it is shown less than η worse than every other arm of the list. At
    an agent of cluster j the best arms of other clusters are at least η worse than that of j
    (Assumption 1): accepting one of them takes one false claim.
    """
    look, level = levels.settings.look, levels.agent(number)
    cells = empty_cells(block, levels, arms.size, gap=2.0)
    top_up(block, cells, np.full(cells.n.shape, 2.0), arms)
    answer = np.zeros(len(block), dtype=np.int64)
    todo = np.arange(len(block))
    while todo.size:
        leader = cells.mean[todo].argmax(axis=1)
        answer[todo] = leader
        open_ = leader[:, None] != np.arange(arms.size)
        open_ &= ~cells.shows_worse(todo, leader, levels.eta, level, open_)
        go_on = open_.any(axis=1)
        todo, leader, open_ = todo[go_on], leader[go_on], open_[go_on]
        goal = np.zeros(cells.n.shape)
        goal[todo] = np.where(open_, (1 + look) * cells.n[todo], 0)
        # √Σn² pulls of the leader make the sum of all pulls least. Arms far ahead of it wait.
        n_leader = cells.n[todo, leader]
        most = np.minimum(np.sqrt((goal[todo] ** 2).sum(axis=1)), 2 * n_leader)
        goal[cells.n > 2 * cells.n[np.arange(len(block)), answer][:, None]] = 0
        goal[todo, leader] = most
        top_up(block, cells, goal, arms)
    return arms[answer]


def as_list(best: Ints, n_arms: int) -> ArmSet:
    return ArmSet(np.isin(np.arange(n_arms), best), at_most=best.size)


def find_in_list(block: Block, members: np.ndarray, levels: Levels, number: int) -> Payload:
    arms = np.flatnonzero(members[0])
    return ArmIndex(accept(block, arms, levels, number), among=arms)


def find_high(
    block: Block, members: np.ndarray, number: Floats, gap: Floats, ref: References
) -> Payload:
    """As `find_in_list`, if the best means of all clusters are about equal.

    `number` (n,) is η below all of them: an arm of the list above it is the best.
    """
    arms = np.flatnonzero(members[0])
    nothing = np.zeros((len(block), arms.size))
    answer = arms[stand_out(block, arms, nothing, nothing + log(arms.size) + 2.0, ref.levels)]
    above, _ = which_side(block, answer, number, gap, ref)
    rest = np.flatnonzero(~above)
    if rest.size:
        answer[rest] = accept(block.part(rest), arms, ref.levels, 2)
    return ArmIndex(answer, among=arms)


def by_list(federation: Federation, best: Ints, levels: Levels, arms: Ints, number: int) -> None:
    """Agents without an arm (−1) find it in the list of best arms; fills in `arms` (N,)."""
    rest = np.flatnonzero(arms < 0)
    program = partial(find_in_list, levels=levels, number=number)
    if rest.size:
        with federation.phase("classify"):
            down = as_list(best, federation.problem.n_arms)
            arms[rest] = federation.local(rest, program, down=down, n_arms=best.size)


def by_height(
    federation: Federation, reps: Ints, best: Ints, name: str, ref: References, arms: Ints
) -> None:
    """As `by_list`, with one number more: η below the best means. Not if these differ too much."""
    k, eta, rest = federation.problem.n_arms, ref.levels.eta, np.flatnonzero(arms < 0)
    made_for = Quantised(np.full((reps.size, 1), 0.8 * eta), ref.gaps, "down", clip=True)
    with federation.phase("references"):
        down = Symbol(best[:, None], among=k), made_for
        low, high = ends(federation.local(reps, partial(measure, name=name, ref=ref), down=down))
    number = float(high.max()) - eta
    sent = ref.threshold(number, number + eta, rest.size)
    if sent is None or low.min() < number + eta / 2:
        return
    if rest.size and sent[1].values[0] >= made_for.values[0]:
        with federation.phase("classify"):
            program = partial(find_high, ref=ref)
            told = (as_list(best, k), *sent)
            arms[rest] = federation.local(rest, program, down=told, n_arms=best.size)
