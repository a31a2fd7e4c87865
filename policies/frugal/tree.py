"""A tree of tests that leads agents to their clusters: each node splits clusters in two by one arm.

Any tree is valid; rough means only choose a cheap one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import Payload, Symbol
from clustered_bandit_gym.policies.frugal.discover import RoughMeans, sketch_arms
from clustered_bandit_gym.policies.frugal.references import References, order, which_side


@dataclass(frozen=True)
class Node:
    """Clusters `lower` give less than clusters `upper` on arm `arm` of a sketch, by about `gap`."""

    arm: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    gap: float

    def between(self, low: Floats, high: Floats, least: Floats) -> tuple[float, float, float]:
        """The highest reference of the lower clusters, the lowest one of the upper, the least gap."""
        top, bottom = high[self.lower, self.arm].max(), low[self.upper, self.arm].min()
        return top, bottom, least[0, self.arm]


def choose_tree(rough: RoughMeans, ref: References) -> list[Node]:
    """The nodes of a tree, from the root down, if it is forecast to take fewer pulls than the list.

    Nodes have arms and cuts with large gaps, half a standard deviation taken off.
    """
    m = ref.levels.m
    margin = 0.5 * rough.deviation * np.sqrt(2 / rough.pulls)
    inside = (np.abs(rough.mean - ref.middle) < ref.reach).all(axis=0)  # thresholds can be sent

    def grow(clusters: tuple[int, ...]) -> list[Node]:
        if len(clusters) == 1:
            return []
        found = []
        for arm in np.flatnonzero(inside):
            ranked = sorted(clusters, key=rough.mean[:, arm].__getitem__)
            gaps = np.diff(rough.mean[ranked, arm]) - margin[arm]
            cut = int(gaps.argmax()) + 1
            found.append(Node(arm, tuple(ranked[:cut]), tuple(ranked[cut:]), gaps[cut - 1]))
        # Even cuts make the tree less deep.
        node = max(found, key=lambda x: x.gap * min(len(x.lower), len(x.upper)) ** 0.5)
        return [node, *grow(node.lower), *grow(node.upper)]

    tree = grow(tuple(range(m))) if inside.any() else []
    if not tree or min(node.gap for node in tree) <= 0:
        return []
    # Pulls per agent in units of 2·level: an agent's, and its part of those for references.
    loss = (1 + ref.ratio**-0.5) ** 2 if ref.bounded else 1 + 1 / ref.ratio
    made = ref.ratio * m / ref.levels.problem.n_agents
    pulls = [(len(x.lower + x.upper) / m + made) / x.gap**2 for x in tree]
    # In the list the arm is told from M − 1 others, whose best arms are 2η worse for a guess.
    of_list = (((m - 1) ** 0.5 + 1) / (3 * ref.levels.eta)) ** 2
    return tree if of_list > ref.levels.settings.dearer * loss * sum(pulls) else []


def tree_references(
    federation: Federation, reps: Ints, tree: list[Node], ref: References
) -> list[tuple[float, float, float]]:
    """Numbers for `ref.threshold` at each node, from references of the representatives; or nothing."""
    arms = sketch_arms(ref.levels)
    low, high, least = np.zeros((3, reps.size, arms.size))
    used = np.unique([node.arm for node in tree])
    gap = [min(node.gap for node in tree if node.arm == arm) for arm in used]
    for part in (0.9, 0.6, 0.4):
        asked = np.tile(part * np.array(gap), (reps.size, 1))
        if asked.min() < ref.gaps[0]:
            break
        places = np.tile(arms[used], (reps.size, 1))
        got = order(federation, reps, places, asked, ref)
        low[:, used], high[:, used], least[:, used] = got
        ends = [node.between(low, high, least) for node in tree]
        if all(ref.threshold(*one, 1) for one in ends):
            return ends
    return []


def answer_node(block: Block, place: Ints, number: Floats, gap: Floats, ref: References) -> Payload:
    """0 below, 1 above, 2 neither."""
    side = which_side(block, sketch_arms(ref.levels)[place], number, gap, ref)
    return Symbol(side, among=2 if ref.bounded else 3)


def by_tree(federation: Federation, reps: Ints, tree: list[Node], ref: References) -> Ints:
    """(N,) clusters of the agents, −1 for those that are unsure."""
    n, d = federation.problem.n_agents, sketch_arms(ref.levels).size
    labels = np.full(n, -1)
    # The agents that may be of just these clusters.
    agents = {frozenset(range(reps.size)): np.setdiff1d(np.arange(n), reps)}
    found = tree_references(federation, reps, tree, ref)
    for node, ends in zip(tree, found, strict=False):
        here = agents[frozenset(node.lower + node.upper)]
        down = Symbol(np.full(here.size, node.arm), among=d), *ref.threshold(*ends, here.size)
        side = here
        if here.size:
            with federation.phase("classify"):
                side = federation.local(here, partial(answer_node, ref=ref), down=down, n_arms=1)
        for answer, clusters in enumerate((node.lower, node.upper)):
            agents[frozenset(clusters)] = here[side == answer]
            if len(clusters) == 1:
                labels[here[side == answer]] = clusters[0]
    labels[reps] = np.arange(reps.size)
    return labels
