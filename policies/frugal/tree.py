"""A tree of tests that leads agents to their clusters: each node splits clusters in two by one arm.

Any tree is valid; rough means only choose a cheap one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import (
    ArmIndex,
    ArmSet,
    ArmSubset,
    Payload,
    Quantised,
    Symbol,
)
from clustered_bandit_gym.policies.frugal.distinct import RoughMeans
from clustered_bandit_gym.policies.frugal.lists import accept_pulls
from clustered_bandit_gym.policies.frugal.memory import recall
from clustered_bandit_gym.policies.frugal.references import (
    ABOVE,
    BELOW,
    References,
    measure,
    read,
    which_side,
)
from clustered_bandit_gym.policies.frugal.settings import Levels


@dataclass(frozen=True)
class Node:
    """Clusters `lower` give less than clusters `upper` on arm `arm` of a sketch, by about `gap`."""

    arm: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    gap: float
    left: Node | int
    right: Node | int

    def nodes(self) -> Iterator[Node]:
        yield self
        for child in (self.left, self.right):
            if isinstance(child, Node):
                yield from child.nodes()

    def ends(self, low: Floats, high: Floats) -> tuple[float, float]:
        """The highest reference of the lower clusters, the lowest one of the upper; (M, d) each."""
        lower, upper = high[list(self.lower), self.arm], low[list(self.upper), self.arm]
        return float(lower.max()), float(upper.min())


def grow(rough: RoughMeans) -> Node | int | None:
    """The tree that takes fewest pulls if clusters are of one size; None if there is none.

    Half a standard deviation is taken off every gap. A message counts as four pulls.
    """
    margin = 0.5 * rough.deviation * np.sqrt(2 / rough.pulls)
    memo: dict[tuple[int, ...], tuple[Node | int | None, float]] = {}

    def best(clusters: tuple[int, ...]) -> tuple[Node | int | None, float]:
        if len(clusters) == 1:
            return clusters[0], 0.0
        if clusters in memo:
            return memo[clusters]
        found: tuple[Node | int | None, float] = (None, float("inf"))
        for arm in range(margin.size):
            order = sorted(clusters, key=lambda x: rough.mean[x, arm])
            values = rough.mean[order, arm]
            for i in range(1, len(order)):
                gap = float(values[i] - values[i - 1] - margin[arm])
                if gap <= 0:
                    continue
                cost = len(clusters) * ((rough.deviation / gap) ** 2 + 4)
                if cost >= found[1]:
                    continue
                lower, upper = tuple(sorted(order[:i])), tuple(sorted(order[i:]))
                left, cost_left = best(lower)
                right, cost_right = best(upper)
                cost += cost_left + cost_right
                if left is not None and right is not None and cost < found[1]:
                    found = Node(arm, lower, upper, gap, left, right), cost
        memo[clusters] = found
        return found

    return best(tuple(range(rough.mean.shape[0])))[0]


def list_cost(block: Block, members: np.ndarray, own: Ints, name: str, levels: Levels) -> Payload:
    """Pulls that an agent of this cluster would take to find its arm in the list."""
    arms = np.flatnonzero(members[0])
    cells = recall(block, name, levels, block.problem.n_arms)
    mean, variance = cells.mean[:, arms], cells.variance()[:, arms]
    leader = np.searchsorted(arms, own)
    level = levels.agent(1) + cells.slack
    open_ = np.ones(mean.shape, dtype=bool)
    open_[np.arange(own.size), leader] = False
    each = np.where(open_, accept_pulls(mean, variance, leader, level, levels.eta, open_), 0)
    cost = each.sum(axis=1) + np.sqrt((each**2).sum(axis=1))
    return Quantised(cost, 1.4 ** np.arange(levels.settings.codes), "nearest", clip=True)


def choose_tree(
    federation: Federation, reps: Ints, best: Ints, rough: RoughMeans, name: str, ref: References
) -> Node | None:
    """A tree, if it is expected to take far fewer pulls than the list."""
    levels, k = ref.levels, federation.problem.n_arms
    tree = grow(rough)
    if not isinstance(tree, Node):
        return None
    members = ArmSet(np.isin(np.arange(k), best), at_most=best.size)
    program = partial(list_cost, name=name, levels=levels)
    costs = federation.local(reps, program, down=(members, ArmIndex(best, among=k)))
    loss = (1 + ref.ratio**-0.5) ** 2 if ref.bounded else 1 + 1 / ref.ratio
    unit = 2 * (levels.agent(1) + levels.settings.slack) * loss * rough.deviation**2
    references = ref.ratio * levels.m / levels.problem.n_agents
    cost = 0.0
    for node in tree.nodes():
        agents = len(node.lower + node.upper) / levels.m
        cost += (agents + references) * unit / node.gap**2
    return tree if costs.mean() > levels.settings.dearer * cost else None


def _measure(
    block: Block, members: np.ndarray, gap: Floats, name: str, ref: References
) -> tuple[Payload, ...]:
    arms = np.tile(np.flatnonzero(members[0]), (len(block), 1))
    return measure(block, arms, gap, name, ref)


def tree_references(
    federation: Federation, reps: Ints, tree: Node, arms: Ints, name: str, ref: References
) -> tuple[Floats, Floats] | None:
    """Ends (M, d) of references for all nodes; None if two attempts do not suffice."""
    m, d, k = reps.size, arms.size, federation.problem.n_arms
    wanted = np.full(d, np.inf)
    for node in tree.nodes():
        wanted[node.arm] = min(wanted[node.arm], 0.9 * node.gap)
    served = np.full(d, np.inf)
    low, high = np.full((m, d), np.nan), np.full((m, d), np.nan)
    sketched = np.isin(np.arange(k), arms)
    for _ in range(4):
        places = np.flatnonzero(np.isfinite(wanted))
        members = np.isin(np.arange(k), arms[places])
        order = Quantised(np.tile(wanted[places], (m, 1)), ref.gaps, "down", clip=True)
        served[places] = order.values[0]
        if served.min() < ref.least and not ref.bounded:
            return None
        down = (ArmSubset(np.tile(members, (m, 1)), within=np.tile(sketched, (m, 1))), order)
        got = federation.local(reps, partial(_measure, name=name, ref=ref), down=down)
        low[:, places], high[:, places] = read(got)
        wanted[:] = np.inf
        for node in tree.nodes():
            bottom, top = node.ends(low, high)
            gap = served[node.arm]
            sent = ref.threshold(bottom, top, 1)
            if ref.bounded:
                fits = sent is not None and top - bottom >= 0.2 * gap
                smaller = gap / 2
            else:
                fits = sent is not None and float(sent[0].values[0]) >= gap * (1 - 1e-9)
                smaller = 0.9 * max(min(top - bottom, gap), gap / 3)
            if not fits:
                wanted[node.arm] = min(wanted[node.arm], smaller)
        if np.isinf(wanted).all():
            return low, high
    return None


def answer_node(
    block: Block, place: Ints, *threshold: np.ndarray, arms: Ints, ref: References
) -> Payload:
    side = which_side(block, arms[place], *threshold, ref=ref)  # type: ignore[misc]
    return Symbol(side, among=2 if ref.bounded else 3)


def by_tree(
    federation: Federation, reps: Ints, tree: Node, arms: Ints, name: str, ref: References
) -> Ints:
    """(N,) clusters of the agents, −1 for those that are unsure."""
    labels = np.full(federation.problem.n_agents, -1)
    labels[reps] = np.arange(reps.size)
    with federation.phase("references"):
        found = tree_references(federation, reps, tree, arms, name, ref)
    if found is None:
        return labels
    queue: list[tuple[Node | int, Ints]] = [(tree, np.flatnonzero(labels < 0))]
    while queue:
        node, agents = queue.pop()
        if isinstance(node, int):
            labels[agents] = node
        elif agents.size:
            sent = ref.threshold(*node.ends(*found), agents.size)
            assert sent is not None
            down = (Symbol(np.full(agents.size, node.arm), among=arms.size), *sent)
            program = partial(answer_node, arms=arms, ref=ref)
            with federation.phase("classify"):
                side = federation.local(agents, program, down=down, n_arms=1)
            queue += [(node.left, agents[side == BELOW]), (node.right, agents[side == ABOVE])]
    return labels
