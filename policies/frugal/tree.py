"""A tree of tests that leads agents to their clusters: each node splits clusters in two by one arm.

Any tree is valid; rough means only choose a cheap one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from operator import itemgetter

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import Payload, Quantised, Symbol
from clustered_bandit_gym.policies.frugal.distinct import RoughMeans
from clustered_bandit_gym.policies.frugal.references import References, ends, measure, which_side


@dataclass(frozen=True)
class Node:
    """Clusters `lower` give less than clusters `upper` on arm `arm` of a sketch, by about `gap`."""

    arm: int
    lower: list[int]
    upper: list[int]
    gap: float

    def between(self, low: Floats, high: Floats) -> tuple[float, float]:
        """The highest reference of the lower clusters, the lowest one of the upper; (M, d) each."""
        return float(high[self.lower, self.arm].max()), float(low[self.upper, self.arm].min())


def cheapest_tree(rough: RoughMeans) -> tuple[float, list[Node]]:
    """The nodes, from the root down, of the tree that takes fewest pulls, and that number.

    Pulls are in units of one pull's variance, summed over one agent of each cluster; a message
    counts as four. Half a standard deviation is taken off every gap.
    """
    margin = 0.5 * rough.deviation * np.sqrt(2 / rough.pulls)

    @cache
    def best(clusters: tuple[int, ...]) -> tuple[float, list[Node]]:
        if len(clusters) == 1:
            return 0.0, []
        found: tuple[float, list[Node]] = float("inf"), []
        for arm in range(margin.size):
            order = sorted(clusters, key=lambda x: rough.mean[x, arm])
            gaps = np.diff(rough.mean[order, arm]) - margin[arm]
            for i in np.flatnonzero(gaps > 0):
                cost = len(clusters) * ((rough.deviation / gaps[i]) ** 2 + 4)
                if cost < found[0]:
                    node = Node(arm, order[: i + 1], order[i + 1 :], float(gaps[i]))
                    parts = [best(tuple(sorted(part))) for part in (node.lower, node.upper)]
                    cost += parts[0][0] + parts[1][0]
                    found = min(
                        found, (cost, [node, *parts[0][1], *parts[1][1]]), key=itemgetter(0)
                    )
        return found

    return best(tuple(range(rough.mean.shape[0])))


def choose_tree(rough: RoughMeans, ref: References) -> list[Node]:
    """The nodes of a tree, if it is expected to take far fewer pulls than the list; or nothing."""
    levels, p = ref.levels, ref.levels.problem
    _, tree = cheapest_tree(rough)
    used = rough.mean[:, [node.arm for node in tree]]
    if np.any((used < ref.grid[0]) | (used > ref.grid[-1])):
        return []
    loss = (1 + ref.ratio**-0.5) ** 2 if ref.bounded else 1 + 1 / ref.ratio
    made = ref.ratio * levels.m / p.n_agents
    of_tree = sum(
        loss * (len(node.lower + node.upper) / levels.m + made) * (rough.deviation / node.gap) ** 2
        for node in tree
    )
    # In the list the arm is told from M − 1 others, whose best arms are 2η worse for a guess.
    others = levels.m - 1
    of_list = (others**0.5 + 1) ** 2 * (rough.deviation / (3 * levels.eta)) ** 2
    return tree if of_list > levels.settings.dearer * of_tree else []


def tree_references(
    federation: Federation, reps: Ints, tree: list[Node], arms: Ints, name: str, ref: References
) -> tuple[Floats, Floats] | None:
    """Ends (M, d) of references with which every node has a threshold; None if that fails twice."""
    m = reps.size
    low, high = np.zeros((m, arms.size)), np.zeros((m, arms.size))
    places = np.unique([node.arm for node in tree])
    for part in (0.9, 0.6, 0.4):
        gap = [min(part * node.gap for node in tree if node.arm == place) for place in places]
        order = Quantised(np.tile(gap, (m, 1)), ref.gaps, "down", clip=True)
        if order.values.min() < ref.levels.eta / 2:
            return None
        down = Symbol(np.tile(arms[places], (m, 1)), among=federation.problem.n_arms), order
        got = federation.local(reps, partial(measure, name=name, ref=ref), down=down)
        low[:, places], high[:, places] = ends(got)
        # Agents must not take references for better than they are.
        served = dict(zip(places, order.values[0] * (0.2 if ref.bounded else 1.0), strict=True))
        sent = [ref.threshold(*node.between(low, high), 1) for node in tree]
        if all(s and s[1].values[0] >= served[t.arm] for s, t in zip(sent, tree, strict=True)):
            return low, high
    return None


def answer_node(
    block: Block, place: Ints, number: Floats, gap: Floats, arms: Ints, ref: References
) -> Payload:
    """0 below, 1 above, 2 neither."""
    above, below = which_side(block, arms[place], number, gap, ref)
    return Symbol(np.where(below, 0, 2 - above), among=2 if ref.bounded else 3)


def by_tree(
    federation: Federation, reps: Ints, tree: list[Node], arms: Ints, name: str, ref: References
) -> Ints:
    """(N,) clusters of the agents, −1 for those that are unsure."""
    labels = np.full(federation.problem.n_agents, -1)
    with federation.phase("references"):
        found = tree_references(federation, reps, tree, arms, name, ref)
    if found is not None:
        inside = np.ones((labels.size, reps.size), dtype=bool)  # clusters that an agent may be of
        for node in tree:
            both = np.isin(np.arange(reps.size), node.lower + node.upper)
            agents = np.flatnonzero((inside == both).all(axis=1))
            agents = np.setdiff1d(agents, reps)
            sent = ref.threshold(*node.between(*found), agents.size)
            assert sent is not None
            down = (Symbol(np.full(agents.size, node.arm), among=arms.size), *sent)
            program = partial(answer_node, arms=arms, ref=ref)
            with federation.phase("classify"):
                side = federation.local(agents, program, down=down, n_arms=1)
            if agents.size:
                inside[np.ix_(agents[side != 1], node.upper)] = False
                inside[np.ix_(agents[side != 0], node.lower)] = False
        sure = inside.sum(axis=1) == 1
        labels[sure] = inside[sure].argmax(axis=1)
    labels[reps] = np.arange(reps.size)
    return labels
