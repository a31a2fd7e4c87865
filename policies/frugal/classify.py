"""Agents that represent nobody find their arm: in the list of best arms, by a height, or by a tree.

The list needs no numbers. Height and tree compare an arm with thresholds made from references: with
bounded rewards intervals that hold a mean at a representative, otherwise averages.
"""

from __future__ import annotations

from functools import partial
from math import exp, log
from typing import NamedTuple

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.game.federation import Answer, Block, FederationView
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Payload, Quantised, Reals, Symbol
from clustered_bandit_gym.policies.frugal.discover import RoughMeans, float32_error, stand_out
from clustered_bandit_gym.policies.frugal.settings import SETTINGS, Levels, recall, top_up
from clustered_bandit_gym.policies.sequential.boundaries import tuned_rho
from clustered_bandit_gym.policies.sequential.cells import (
    BettingCells,
    leader_pulls,
    not_shown_worse,
)


# References: means at representatives, from which thresholds for agents are made.
def order_references(
    federation: FederationView, reps: Ints, arms: Ints, gap: Floats | float, levels: Levels
) -> tuple[Floats, Floats, Floats]:
    """Have all representatives make references for `arms` (M, u) to differences `gap`, one number
    or (u,).

    Returns lower and upper ends (M, u), and the least differences to use them for. Averages serve
    no smaller ones than those that they were made for. Intervals do, but tests take long.
    """
    served = Quantised(np.broadcast_to(gap, arms.shape), levels.gaps, "down", clip=True)
    down = Symbol(arms, among=federation.problem.n_arms), served
    with federation.phase("references"):
        got = federation.local(reps, partial(measure, levels=levels), down=down)
    if levels.bounded:
        return (*got, 0.2 * served.values)
    off = float32_error(got)
    return got - off, got + off, served.values


def measure(block: Block, arms: Ints, gap: Floats, levels: Levels) -> Answer:
    """References for `arms` (n, u) to differences `gap` (n, u): averages, or ends of intervals.

    Averages come from pulls made for them. Intervals hold at all times, so all pulls since the
    agent was chosen count.
    """
    name = levels.name + ("" if levels.bounded else " reference")
    at = np.arange(len(block))[:, None], arms
    cells = recall(block, levels, name)
    goal = np.zeros_like(cells.n)
    goal[at] = levels.pulls(gap, cells.variance()[at])
    top_up(block, cells, goal)
    block.save(name, cells.memory)
    if not isinstance(cells, BettingCells):
        return Reals(cells.mean[at])
    low, high = cells.interval(levels.bound)
    # An end may miss that of the support, where the grid ends, by a rounding error.
    down = Quantised(low[at], levels.fine, "down", clip=True)
    return down, Quantised(high[at], levels.fine, "up", clip=True)


def which_side(
    block: Block, arm: Ints, threshold: Floats, gap: Floats, levels: Levels, level: float
) -> Ints:
    """(n,) 1 if the mean of `arm` is shown above `threshold`, 0 if below `threshold + gap`, 2 if neither.

    With averages it may end with neither; with intervals it goes on until one is shown.
    """
    level += levels.price
    cells = recall(block, levels, columns=1)
    plan = 2 * level * (block.problem.sigma / gap) ** 2
    rho = tuned_rho(plan * (1 + 1 / levels.ratio), exp(-level))
    limit = np.inf if levels.bounded else SETTINGS.patience * (plan + 1)
    times = np.ceil((0.06 if levels.bounded else 0.45) * plan)
    todo = np.arange(len(block))
    while todo.size:
        cells.pull(block, todo, 0 * todo, times[todo].astype(int), arm[todo])
        n = cells.n[:, 0]
        up = cells.mean[:, 0] >= threshold + gap / 2
        bound = np.where(up, threshold, threshold + gap)
        evidence = cells.side(bound, up, levels.worth(gap), rho)
        side = np.where(evidence >= level, up, 2)
        times = np.ceil(SETTINGS.look / 2 * n)
        todo = np.flatnonzero((side == 2) & (n <= limit))
    return side


# The list of all best arms, with or without a height.
def accept(block: Block, arms: Ints, levels: Levels, level: float) -> Ints:
    """(n,) the agent's arm among `arms`, the best arms of all clusters.

    The leader is accepted when it is shown less than η worse than every other arm of the list. At
    an agent of cluster j the best arms of other clusters are at least η worse than that of j
    (Assumption 1): accepting one of them takes one false claim.
    """
    cells = recall(block, levels, columns=arms.size, gap=2.0)
    rows = np.arange(len(block))
    goal = np.full_like(cells.n, 2)
    everything = goal > 0
    while goal.any():
        top_up(block, cells, goal, arms)
        leader = cells.mean.argmax(axis=1)
        open_ = not_shown_worse(cells, rows, leader, levels.eta, level, everything)
        goal = np.where(open_, (1 + SETTINGS.look) * cells.n, 0.0)
        n_leader = cells.n[rows, leader]
        most = leader_pulls(goal)
        goal[cells.n > 2 * n_leader[:, None]] = 0  # these wait for the leader
        goal[rows, leader] = np.minimum(most, 2 * n_leader)
    return arms[leader]


def find_in_list(
    block: Block, members: Bools, *height: Floats, levels: Levels, level: float
) -> Payload:
    """An agent's arm in the list `members` (n, K).

    With a `height`, a threshold (n,) η below the highest best mean and the distance to that: an arm
    above it is the best. One arm is tested, chosen from other pulls. Agents that do not show it use
    the list.
    """
    arms = np.flatnonzero(members[0])
    rest = np.arange(len(block))
    answer = np.zeros_like(rest)
    if height:
        answer = stand_out(block, arms, log(arms.size) + 2, levels)
        threshold, gap = height
        side = which_side(block, answer, threshold, gap, levels, levels.height)
        rest = np.flatnonzero(side != 1)
    if rest.size:
        answer[rest] = accept(block.part(rest), arms, levels, level)
    return ArmIndex(answer, among=arms)


def find_height(
    federation: FederationView, reps: Ints, best: Ints, levels: Levels, n: int
) -> tuple[Payload, ...]:
    """For n agents: a threshold η below the highest best mean; nothing if best means differ much."""
    eta = levels.eta
    if eta < levels.least:
        return ()
    low, high, least = order_references(federation, reps, best[:, None], 0.8 * eta, levels)
    height = high.max() - eta
    about_equal = low.min() >= height + eta / 2
    return levels.threshold(height, height + eta, least.max(), n) if about_equal else ()


# A tree of tests, each of which splits clusters in two by one arm.
class Node(NamedTuple):
    """Clusters `lower` give less than clusters `upper` on arm `arm` of a sketch, by about `gap`."""

    arm: int
    lower: Ints
    upper: Ints
    gap: float


def choose_tree(rough: RoughMeans, levels: Levels) -> list[Node]:
    """The nodes of a tree: each, then those of its lower, then those of its upper clusters.

    None at all if the list is forecast to take less than 0.7 times the tree's pulls, with many
    clusters, and if only representatives play.
    """
    m = levels.m
    n_agents = levels.problem.n_agents
    if m > SETTINGS.few or m == n_agents:
        return []
    # Thresholds can be sent for these arms.
    inside = ((levels.low < rough.mean) & (rough.mean < levels.high)).all(axis=0)
    error = np.where(inside, rough.error / 2, np.inf)

    def grow(clusters: Ints) -> list[Node]:
        if clusters.size == 1:
            return []
        means = rough.mean[clusters]
        # The arm and the cut with the largest gap, less half a standard deviation.
        gaps = (np.diff(np.sort(means, axis=0), axis=0) - error).T
        arm, cut = map(int, np.unravel_index(gaps.argmax(), gaps.shape))
        ranked = means[:, arm].argsort(kind="stable")
        lower, upper = np.split(clusters[ranked], [cut + 1])
        return [Node(arm, lower, upper, gaps[arm, cut]), *grow(lower), *grow(upper)]

    tree = grow(np.arange(m))
    if min(node.gap for node in tree) <= 0:
        return []
    # Pulls per agent in units of 2·level: an agent's, and its part of those for references.
    loss = (1 + levels.ratio**-0.5) ** 2 if levels.bounded else 1 + 1 / levels.ratio
    made = levels.ratio * m / n_agents
    pulls = [((x.lower.size + x.upper.size) / m + made) / x.gap**2 for x in tree]
    # In the list the arm is told from M − 1 others, whose best arms are 2η worse for a guess.
    of_list = (((m - 1) ** 0.5 + 1) / (3 * levels.eta)) ** 2
    return tree if of_list > 0.7 * loss * sum(pulls) else []


def tree_references(
    federation: FederationView, reps: Ints, tree: list[Node], levels: Levels
) -> list[tuple[float, float, float]]:
    """What `levels.threshold` takes, for each node; nothing if references do not suffice."""
    used, column = np.unique([node.arm for node in tree], return_inverse=True)
    gap = np.full(used.size, np.inf)
    np.minimum.at(gap, column, [node.gap for node in tree])
    arms = np.tile(levels.sketch[used], (reps.size, 1))
    for part in (0.9, 0.6, 0.4):
        if part * gap.min() < levels.least:
            break
        low, high, least = order_references(federation, reps, arms, part * gap, levels)
        ends = [
            (high[node.lower, at].max(), low[node.upper, at].min(), least[0, at])
            for node, at in zip(tree, column, strict=True)
        ]
        if all(levels.threshold(*one, 1) for one in ends):
            return ends
    return []


def by_tree(federation: FederationView, reps: Ints, tree: list[Node], levels: Levels) -> Ints:
    """(N,) clusters of the agents, −1 for those that are unsure."""
    possible = np.ones((federation.problem.n_agents, reps.size), dtype=bool)
    possible[reps] = np.eye(reps.size, dtype=bool)

    def which(block: Block, place: Ints, threshold: Floats, gap: Floats) -> Payload:
        """0 below, 1 above, 2 neither."""
        arm = levels.sketch[place]
        side = which_side(block, arm, threshold, gap, levels, levels.agent)
        return Symbol(side, among=2 if levels.bounded else 3)

    found = tree_references(federation, reps, tree, levels)
    for node, ends in zip(tree, found, strict=False):
        # Those that were led here may be of all clusters of the node, the others of none.
        agents = np.flatnonzero(possible[:, node.lower[0]] & possible[:, node.upper[0]])
        if agents.size:
            place = Symbol(np.full(agents.size, node.arm), among=levels.sketch.size)
            down = place, *levels.threshold(*ends, agents.size)
            with federation.phase("classify"):
                side = federation.local(agents, which, down=down, n_arms=1)
            possible[np.ix_(agents[side != 0], node.lower)] = False
            possible[np.ix_(agents[side != 1], node.upper)] = False
    return np.where(possible.sum(axis=1) == 1, possible.argmax(axis=1), -1)


def find_arms(
    federation: FederationView, reps: Ints, best: Ints, rough: RoughMeans | None, levels: Levels
) -> Ints:
    """(N,) the best arms of all agents, where those of the representatives are `best` (M,).

    If a tree is chosen, the list is for those that it leaves unsure; after a search (`rough` is
    None) the list may come with a height.
    """
    arms = np.full(federation.problem.n_agents, -1)
    arms[reps] = best
    tree = choose_tree(rough, levels) if rough else []
    if tree:
        labels = by_tree(federation, reps, tree, levels)
        arms = np.where(labels >= 0, best[labels], -1)
    rest = np.flatnonzero(arms < 0)
    if rest.size:
        height = () if rough else find_height(federation, reps, best, levels, rest.size)
        level = levels.agent_again if tree else levels.agent
        program = partial(find_in_list, levels=levels, level=level)
        down = (ArmSet(np.isin(federation.arms, best), at_most=best.size), *height)
        with federation.phase("classify"):
            arms[rest] = federation.local(rest, program, down=down, n_arms=best.size)
    return arms
