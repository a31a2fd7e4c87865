"""Agents that represent nobody find their arm: in the list of best arms, by a height, or by a tree.

The list needs no numbers. Height and tree compare an arm with thresholds made from references: with
bounded rewards intervals that hold a mean at a representative, otherwise averages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.game.federation import Block, FederationView
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Payload, Quantised, Reals, Symbol
from clustered_bandit_gym.policies.frugal.discover import RoughMeans, float32_error, stand_out
from clustered_bandit_gym.policies.frugal.settings import SETTINGS, Levels, recall, top_up
from clustered_bandit_gym.policies.sequential.boundaries import tuned_rho
from clustered_bandit_gym.policies.sequential.cells import BettingCells, leader_pulls

#: Bets serve differences down to this part of the interval: any mean is half of it or more away from
#: one of two numbers, where the smallest bet wins more than it loses whatever the variance.
FINEST = 1e-3


# References: means at representatives, from which thresholds for agents are made.
class References:
    """Sizes of references, and what agents may assume of them.

    The average R of n pulls of a mean μ has the e-process exp(½ñ(R − μ)²)/√(1 + n/ρ), with ρ fixed
    and ñ = n²/(n + ρ). Agents assume `worth(gap)` ≤ ñ instead of ñ, and pay `price` ≥ ½ln(1 + n/ρ)
    for it: they never claim more evidence than that. If `bounded`, references are intervals, and
    there is nothing to pay.
    """

    def __init__(self, levels: Levels, bounded: bool) -> None:
        p = levels.problem
        eta = levels.eta
        agents = p.n_agents / levels.m
        self.levels = levels
        self.bounded = bounded
        low, high = (bounded and p.support) or (-6 * p.sigma, 6 * p.sigma)
        self.low = low
        self.high = high
        self.rho = 0.0
        self.price = 0.0
        # Pulls of a reference over those of an agent: about what makes the sum of pulls least.
        if bounded:
            self.ratio = max(4.0, (1.3 * agents) ** (2 / 3))
        else:
            self.ratio = max(4.0, agents**0.5)
            self.rho = min(32.0, self.pulls(eta) / 16)
            self.price = 0.5 * log(1 + (self.pulls(eta / 2) + 1) / self.rho)
        self.least = max(eta / 2, FINEST * (high - low) if bounded else 0.0)
        # Differences that references are made for, thresholds, and ends of intervals.
        self.gaps = np.geomspace(eta / 2, max(eta, (high - low) / 2), SETTINGS.codes // 2)
        self.fine = np.linspace(low, high, 2045)
        self.grid = self.fine[::4]

    def pulls(self, gap: Any, variance: Any = np.inf) -> Any:
        """Pulls of a reference for differences of `gap`."""
        sigma = self.levels.problem.sigma
        level = self.levels.agent + 3  # mixing costs about 3 nats
        noise = np.minimum(variance + sigma * gap / 3, sigma**2)
        return np.maximum(self.ratio * 2 * level * noise / gap**2, 2 * self.rho)

    def worth(self, gap: Floats) -> Floats:
        """At most ñ of an average that was made for differences of `gap` or smaller ones."""
        n = np.floor(self.pulls(gap))
        return n * n / (n + self.rho)

    def threshold(self, low: float, high: float, least: float, n: int) -> tuple[Payload, ...]:
        """For n agents: a threshold ≥ `low`, and at most the distance from it to `high`.

        Nothing if it cannot be sent (with averages, |low| > 6σ), or the distance is below `least`.
        """
        if not self.low <= low <= self.high:
            return ()
        threshold = Quantised(np.full(n, low), self.grid, "up")
        distance = high - threshold.values[0]
        # Rounding errors: threshold + gap must not exceed `high`.
        distance -= 1e-9 * distance + 1e-15 * abs(high)
        gap = self.gaps[self.gaps <= distance].max(initial=0.0)
        if gap < max(least, self.least):
            return ()
        return threshold, Quantised(np.full(n, gap), self.gaps, "nearest")


def order_references(
    federation: FederationView, reps: Ints, arms: Ints, gap: Floats | float, ref: References
) -> tuple[Floats, Floats, Floats]:
    """Have all representatives make references for `arms` (M, u) to differences `gap`, one number
    or (u,).

    Returns lower and upper ends (M, u), and the least differences to use them for. Averages serve
    no smaller ones than those that they were made for. Intervals do, but tests take long.
    """
    served = Quantised(np.broadcast_to(gap, arms.shape), ref.gaps, "down", clip=True)
    down = Symbol(arms, among=federation.problem.n_arms), served
    with federation.phase("references"):
        got = federation.local(reps, partial(measure, ref=ref), down=down)
    if ref.bounded:
        return (*got, 0.2 * served.values)
    off = float32_error(got)
    return got - off, got + off, served.values


def measure(
    block: Block, arms: Ints, gap: Floats, ref: References
) -> Payload | tuple[Payload, ...]:
    """References for `arms` (n, u) to differences `gap` (n, u): averages, or ends of intervals.

    Averages come from pulls made for them. Intervals hold at all times, so all pulls since the
    agent was chosen count.
    """
    name = ref.levels.name + ("" if ref.bounded else " reference")
    at = np.arange(len(block))[:, None], arms
    cells = recall(block, ref.levels, name)
    goal = np.zeros(cells.n.shape)
    goal[at] = ref.pulls(gap, cells.variance()[at])
    top_up(block, cells, goal)
    block.save(name, cells.memory)
    if not isinstance(cells, BettingCells):
        return Reals(cells.mean[at])
    low, high = cells.interval(ref.levels.bound)
    # An end may miss that of the support, where the grid ends, by a rounding error.
    down = Quantised(low[at], ref.fine, "down", clip=True)
    return down, Quantised(high[at], ref.fine, "up", clip=True)


def which_side(
    block: Block, arm: Ints, threshold: Floats, gap: Floats, ref: References, level: float
) -> Ints:
    """(n,) 1 if the mean of `arm` is shown above `threshold`, 0 if below `threshold + gap`, 2 if neither.

    With averages it may end with neither; with intervals it goes on until one is shown.
    """
    level += ref.price
    cells = recall(block, ref.levels, columns=1)
    plan = 2 * level * (block.problem.sigma / gap) ** 2
    rho = tuned_rho(plan * (1 + 1 / ref.ratio), exp(-level))
    limit = np.inf if ref.bounded else SETTINGS.patience * (plan + 1)
    times = np.ceil((0.06 if ref.bounded else 0.45) * plan)
    todo = np.arange(len(block))
    while todo.size:
        cells.pull(block, todo, 0 * todo, times[todo].astype(np.int64), arm[todo])
        n = cells.n[:, 0]
        up = cells.mean[:, 0] >= threshold + gap / 2
        bound = np.where(up, threshold, threshold + gap)
        evidence = cells.side(bound, up, ref.worth(gap), rho)
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
    goal = np.full(cells.n.shape, 2.0)
    while goal.any():
        top_up(block, cells, goal, arms)
        leader = cells.mean.argmax(axis=1)
        left = leader[:, None] != np.arange(arms.size)
        left &= ~cells.shows_worse(rows, leader, levels.eta, level, left)
        goal = np.where(left, (1 + SETTINGS.look) * cells.n, 0.0)
        n_leader = cells.n[rows, leader]
        most = leader_pulls(goal)
        goal[cells.n > 2 * n_leader[:, None]] = 0  # these wait for the leader
        goal[rows, leader] = np.minimum(most, 2 * n_leader)
    return arms[leader]


def find_in_list(
    block: Block, members: Bools, *height: Floats, ref: References, level: float
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
        answer = stand_out(block, arms, log(arms.size) + 2, ref.levels)
        threshold, gap = height
        side = which_side(block, answer, threshold, gap, ref, ref.levels.height)
        rest = np.flatnonzero(side != 1)
    if rest.size:
        answer[rest] = accept(block.part(rest), arms, ref.levels, level)
    return ArmIndex(answer, among=arms)


def find_height(
    federation: FederationView, reps: Ints, best: Ints, ref: References, n: int
) -> tuple[Payload, ...]:
    """For n agents: a threshold η below the highest best mean, or nothing if best means differ too
    much."""
    eta = ref.levels.eta
    if eta < ref.least:
        return ()
    low, high, least = order_references(federation, reps, best[:, None], 0.8 * eta, ref)
    height = float(high.max()) - eta
    about_equal = low.min() >= height + eta / 2
    return ref.threshold(height, height + eta, least.max(), n) if about_equal else ()


# A tree of tests, each of which splits clusters in two by one arm.
@dataclass(frozen=True)
class Node:
    """Clusters `lower` give less than clusters `upper` on arm `arm` of a sketch, by about `gap`."""

    arm: int
    lower: Ints
    upper: Ints
    gap: float


def choose_tree(rough: RoughMeans, ref: References) -> list[Node]:
    """The nodes of a tree: each, then those of its lower, then those of its upper clusters.

    None at all if the list is forecast to take less than 0.7 times the tree's pulls, with many
    clusters, and if only representatives play.
    """
    m = ref.levels.m
    n_agents = ref.levels.problem.n_agents
    if m > SETTINGS.few or m == n_agents:
        return []
    # Thresholds can be sent for these arms.
    inside = ((ref.low < rough.mean) & (rough.mean < ref.high)).all(axis=0)
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
    loss = (1 + ref.ratio**-0.5) ** 2 if ref.bounded else 1 + 1 / ref.ratio
    made = ref.ratio * m / n_agents
    pulls = [((x.lower.size + x.upper.size) / m + made) / x.gap**2 for x in tree]
    # In the list the arm is told from M − 1 others, whose best arms are 2η worse for a guess.
    of_list = (((m - 1) ** 0.5 + 1) / (3 * ref.levels.eta)) ** 2
    return tree if of_list > 0.7 * loss * sum(pulls) else []


def tree_references(
    federation: FederationView, reps: Ints, tree: list[Node], ref: References
) -> list[tuple[float, float, float]]:
    """What `ref.threshold` takes, for each node; nothing if references do not suffice."""
    used, column = np.unique([node.arm for node in tree], return_inverse=True)
    gap = np.full(used.size, np.inf)
    np.minimum.at(gap, column, [node.gap for node in tree])
    arms = np.tile(ref.levels.sketch[used], (reps.size, 1))
    for part in (0.9, 0.6, 0.4):
        if part * gap.min() < ref.least:
            break
        low, high, least = order_references(federation, reps, arms, part * gap, ref)
        ends = [
            (high[node.lower, at].max(), low[node.upper, at].min(), least[0, at])
            for node, at in zip(tree, column, strict=True)
        ]
        if all(ref.threshold(*one, 1) for one in ends):
            return ends
    return []


def by_tree(federation: FederationView, reps: Ints, tree: list[Node], ref: References) -> Ints:
    """(N,) clusters of the agents, −1 for those that are unsure."""
    arms = ref.levels.sketch
    m = reps.size
    possible = np.ones((federation.problem.n_agents, m), dtype=bool)
    possible[reps] = np.eye(m, dtype=bool)

    def which(block: Block, place: Ints, threshold: Floats, gap: Floats) -> Payload:
        """0 below, 1 above, 2 neither."""
        side = which_side(block, arms[place], threshold, gap, ref, ref.levels.agent)
        return Symbol(side, among=2 if ref.bounded else 3)

    found = tree_references(federation, reps, tree, ref)
    for node, ends in zip(tree, found, strict=False):
        # Those that were led here may be of all clusters of the node, the others of none.
        agents = np.flatnonzero(possible[:, node.lower[0]] & possible[:, node.upper[0]])
        if agents.size:
            place = Symbol(np.full(agents.size, node.arm), among=arms.size)
            down = place, *ref.threshold(*ends, agents.size)
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
    p = federation.problem
    ref = References(levels, p.support is not None and federation.reward_values is not None)
    arms = np.full(p.n_agents, -1)
    arms[reps] = best
    tree = choose_tree(rough, ref) if rough else []
    if tree:
        labels = by_tree(federation, reps, tree, ref)
        arms = np.where(labels >= 0, best[labels], -1)
    rest = np.flatnonzero(arms < 0)
    if rest.size:
        height = () if rough else find_height(federation, reps, best, ref, rest.size)
        level = levels.agent_again if tree else levels.agent
        program = partial(find_in_list, ref=ref, level=level)
        members = np.isin(federation.arms, best)
        down = (ArmSet(members, at_most=best.size), *height)
        with federation.phase("classify"):
            arms[rest] = federation.local(rest, program, down=down, n_arms=best.size)
    return arms
