"""A tree of tests between clusters: each node splits a set of clusters in two by one arm. Any tree is valid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clustered_bandit_gym._types import Floats


@dataclass(frozen=True)
class Node:
    """Clusters `lower` give less than clusters `upper` on the arm at `place`.

    Attributes:
        gap: the estimated difference between the two.
        left, right: what follows for the lower and the upper ones: a node, or the one cluster.
    """

    place: int
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


def grow(rough: Floats, margin: float, message: float) -> Node | int | None:
    """The tree that takes fewest pulls of equally many agents of each cluster, by means `rough` (clusters, arms).

    Args:
        margin: taken off every gap for the noise of `rough`.
        message: a node's message costs as much as a test of this gap.

    Returns:
        None where some clusters are not told apart by any arm.
    """
    memo: dict[tuple[int, ...], tuple[Node | int | None, float]] = {}
    arms = range(rough.shape[1])

    def best(clusters: tuple[int, ...]) -> tuple[Node | int | None, float]:
        if len(clusters) == 1:
            return clusters[0], 0.0
        if clusters in memo:
            return memo[clusters]
        found: tuple[Node | int | None, float] = (None, float("inf"))
        for p in arms:
            order = sorted(clusters, key=lambda x: rough[x, p])
            for i in range(1, len(order)):
                gap = float(rough[order[i], p] - rough[order[i - 1], p]) - margin
                if gap <= 0:
                    continue
                here = len(clusters) * (1 / gap**2 + 1 / message**2)
                if here >= found[1]:
                    continue
                lower, upper = tuple(sorted(order[:i])), tuple(sorted(order[i:]))
                (left, cost_left), (right, cost_right) = best(lower), best(upper)
                if left is None or right is None:
                    continue
                if here + cost_left + cost_right < found[1]:
                    found = Node(p, lower, upper, gap, left, right), here + cost_left + cost_right
        memo[clusters] = found
        return found

    return best(tuple(range(rough.shape[0])))[0]
