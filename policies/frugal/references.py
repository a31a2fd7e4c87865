"""References: what representatives report of a few arms, for agents to be compared with. They also show that
representatives are distinct.

All numbers come from streams of pulls whose arms and lengths are fixed before they start. Where a stream does not
suffice, a longer one follows that starts from zero pulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import (
    ArmIndex,
    ArmSet,
    ArmSubset,
    Flag,
    Payload,
    Quantised,
    Reals,
    Symbol,
)
from clustered_bandit_gym.policies.frugal.best_arms import Stuck
from clustered_bandit_gym.policies.frugal.budget import STREAMS
from clustered_bandit_gym.policies.frugal.duels import Work
from clustered_bandit_gym.policies.frugal.levels import Tests
from clustered_bandit_gym.policies.frugal.messages import bound_and_gap, lower_edge, upper_edge
from clustered_bandit_gym.policies.frugal.sides import UNUSED
from clustered_bandit_gym.policies.frugal.sketch import Protocol
from clustered_bandit_gym.policies.frugal.tree import Node, grow
from clustered_bandit_gym.policies.frugal.trial import Trial
from clustered_bandit_gym.policies.sequential.cells import BettingCells, make_cells
from clustered_bandit_gym.policies.sequential.gaussian import pair

#: Numbers of pulls that can be ordered: 32·2^(c/4). Rounding up costs at most 19%, and 128 of them take 7 bits.
SIZES = np.ceil(32.0 * 2 ** (np.arange(128) / 4)).astype(np.int64)
#: Rough means have this many steps between the least and the largest one, or over the support where it is told:
#: rounding adds less than their own noise.
ROUGH, ROUGH_SUPPORT = 64, 128
#: Pulls of an arm before its average counts as a rough mean. With 32 the ratings family takes 30% more pulls, 128
#: changes little. Inside a told support, in units of the pulls of a sketch: with 2 coins take 20% fewer pulls, but
#: MovieLens-like ratings 18% more and 30% more communication.
ROUGH_PULLS, ROUGH_FACTOR = 64, 4
#: Standard deviations taken off a difference of rough means (one inside a told support), since the largest of many
#: noisy differences is exaggerated. From 0.37 to 0.67 pulls change by 1%.
MARGIN = 0.5
#: Standard deviation of ratings over the one that the support allows, roughly. For plans; from 0.3 to 0.53 nothing
#: changes.
RATING = 0.4
#: Representatives whose rough means differ by no more than this many standard deviations, and one, look alike: for two
#: of one cluster a larger difference has probability 4e-8 on each arm. From 3.4 to 6 nothing changes.
ALIKE = 4.5
#: A lower bound on a mean is sent as one of 2048 numbers, evenly spread over the support; its distance to the upper
#: bound as one of 32 parts of the support, each 19% above the one before, down to 1/220 of it.
STEPS, WIDTHS = 2048, 1.19 ** -np.arange(31.0, -1, -1)
#: A best arm's mean elsewhere is sent as its distance below the own best, in eighths of η. The first symbol: unknown.
BELOW = np.concatenate([[-1.0], np.arange(31) / 8])
#: The second stream of a reference has this many times the pulls of the first, which is 8 steps of SIZES: a distance
#: that was overestimated by a factor of 2 is then told. For guesses it has at least twice those of the own best arm.
MORE, FURTHER, MORE_OWN = 4, 8, 2
#: References have this many times the pulls that the estimated distances ask for, since estimates err. 0.94 and 1.66
#: change pulls by 1%.
SPARE = 1.25
#: Bounds on means must leave this part of a planned distance. With 0.1 nothing changes, with 0.4 second streams become
#: more frequent (coins take 16% ± 14 more pulls).
BOUNDS_LEFT = 0.2


# --- programs at representatives --------------------------------------------------------------------------------------


def rough_means(
    block: Block, _: np.ndarray, tests: Tests, protocol: Protocol
) -> tuple[Payload, ...]:
    """Averages of the protocol's arms in the tests so far, coarsely: for the plan of a tree only."""
    cells = Work.load(block, tests).cells
    lack = ROUGH_PULLS - cells.n[:, protocol.arms]
    row, place = np.nonzero(lack > 0)
    if row.size:
        cells.pull(block, row, protocol.arms[place], lack[row, place].astype(np.int64))
    mean = cells.mean[:, protocol.arms]
    low, high = mean.min(axis=1), mean.max(axis=1)
    place = np.round((mean - low[:, None]) / np.maximum(high - low, 1e-300)[:, None] * (ROUGH - 1))
    return Symbol(place.astype(np.int64), among=ROUGH), Reals(np.stack([low, high], axis=1))


def rough_ratings(block: Block, _: np.ndarray, pulls: int, protocol: Protocol) -> Payload:
    """The same inside a told support, before the tests: the agent's sketch and `pulls` more of each arm."""
    assert protocol.problem.support is not None
    low, high = protocol.problem.support
    mean, before = block.load("sketch"), block.load("sketch pulls")[:, None]
    more = block.pull(np.arange(len(block))[:, None], protocol.arms[None, :], pulls)
    mean = mean + (more - mean) * (pulls / (before + pulls))
    return Symbol(
        np.round((mean - low) / (high - low) * (ROUGH_SUPPORT - 1)).astype(np.int64),
        among=ROUGH_SUPPORT,
    )


def measure(
    block: Block, members: np.ndarray, size: np.ndarray, arms: Ints, trial: Trial
) -> Payload | tuple[Payload, ...]:
    """New streams of some of `arms` (d,): members (n, d) the same for all, SIZES[size] (n, u) pulls of each.

    Returns the averages; for bounded rewards, lower and upper bounds on the means, rounded outwards.
    """
    p, n = block.problem, len(block)
    chosen = arms[np.flatnonzero(members[0])]
    cells = make_cells(p, block.values if trial.bounded else None, UNUSED, (n, chosen.size))
    row, place = (index.ravel() for index in np.indices((n, chosen.size)))
    cells.pull(block, row, place, SIZES[size].ravel(), chosen[place])
    if not trial.bounded:
        return Reals(cells.mean)
    assert isinstance(cells, BettingCells)
    assert p.support is not None
    low, high = cells.interval(trial.budget.bound(chosen.size))
    bound = Quantised(low, np.linspace(*p.support, STEPS), "down", clip=True)
    return bound, Quantised(
        high - bound.values, (p.support[1] - p.support[0]) * WIDTHS, "up", clip=True
    )


def own_average(block: Block, own: np.ndarray, trial: Trial) -> Payload:
    """The exact average of fresh pulls of the agent's own best arm (n,). The agent keeps it, too."""
    top = block.pull(np.arange(len(block)), own, trial.wide.reference_size)
    block.save("top", top)
    return Reals(top)


def below_own(block: Block, members: np.ndarray, trial: Trial, times: int) -> Payload:
    """`times` pulls of each arm of a list, (n, K) booleans: how far the averages are below `own_average`, rounded
    down."""
    p, arms = block.problem, np.flatnonzero(members[0])
    assert p.eta is not None
    mean = block.pull(np.arange(len(block))[:, None], arms[None, :], times)
    return Quantised(block.load("top")[:, None] - mean, p.eta * BELOW, "down", clip=True)


# --- the centre -------------------------------------------------------------------------------------------------------


@dataclass
class TreeReferences:
    """A tree of tests, and what its nodes compare with.

    Attributes:
        tree: the root.
        lower, upper: (M, d) for each representative and protocol arm two bounds on its mean, or an average, twice.
        pulls: (d,) pulls of each arm that these are made from.
    """

    tree: Node
    lower: Floats
    upper: Floats
    pulls: Ints

    def between(self, node: Node, trial: Trial) -> tuple[float, float]:
        """The highest reference of a node's lower clusters, and the lowest one of its upper clusters, or less."""
        low, high = (
            self.upper[list(node.lower), node.place],
            self.lower[list(node.upper), node.place],
        )
        bottom, top = float(upper_edge(low.max())), float(lower_edge(high.min()))
        return bottom, top if trial.bounded else min(
            top, bottom + trial.widest(int(self.pulls[node.place]))
        )

    def serve(self, node: Node, gap: Floats, trial: Trial) -> bool:
        """Whether averages have the pulls that agents take for granted when they are told a distance of `gap`."""
        return trial.bounded or bool(self.pulls[node.place] >= trial.reference_pulls(gap).max())


def plan_tree(federation: Federation, reps: Ints, tests: Tests, protocol: Protocol) -> Node:
    """A tree by averages of the tests so far; raises `Stuck`."""
    places, ends = federation.local(
        reps, partial(rough_means, tests=tests, protocol=protocol), down=Flag(True)
    )
    rough = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * places / (ROUGH - 1)
    sigma = protocol.problem.sigma
    tree = grow(rough, MARGIN * sigma * sqrt(2 / ROUGH_PULLS), 0.5 * sigma)
    if not isinstance(tree, Node):
        raise Stuck("no tree tells the representatives apart")
    return tree


def plan_tree_of_ratings(
    federation: Federation, reps: Ints, protocol: Protocol, stage: int
) -> Node | None:
    """A tree inside a told support, before the tests; None where two agents look alike: they may be of one cluster."""
    support = protocol.problem.support
    assert support is not None
    pulls = protocol.pulls(stage)
    program = partial(rough_ratings, pulls=(ROUGH_FACTOR - 1) * pulls, protocol=protocol)
    places = federation.local(reps, program, down=Flag(False), n_arms=protocol.arms.size)
    rough = support[0] + (support[1] - support[0]) * places / (ROUGH_SUPPORT - 1)
    sigma = RATING * protocol.problem.sigma
    noise = sigma * sqrt(2 / (ROUGH_FACTOR * pulls))
    tree = grow(rough, noise, 0.5 * sigma)
    if not isinstance(tree, Node) or min(node.gap for node in tree.nodes()) < ALIKE * noise:
        return None
    return tree


def tree_references(
    federation: Federation, reps: Ints, tree: Node, protocol: Protocol, trial: Trial
) -> TreeReferences:
    """What the nodes of a tree compare with. Every two representatives are shown distinct at the node where they
    part."""
    m, d = reps.size, protocol.arms.size
    found = TreeReferences(
        tree, np.full((m, d), np.nan), np.full((m, d), np.nan), np.zeros(d, dtype=np.int64)
    )
    gap = np.full(d, np.inf)
    for node in tree.nodes():
        gap[node.place] = min(gap[node.place], node.gap)
    wanted = np.isfinite(gap)
    size = _size(SPARE * trial.reference_pulls(np.where(wanted, gap, 1.0)))
    for _ in range(STREAMS):
        down = (
            ArmSubset(np.tile(wanted, (m, 1))),
            Symbol(np.tile(size[wanted], (m, 1)), among=SIZES.size),
        )
        got = federation.local(
            reps, partial(measure, arms=protocol.arms, trial=trial), down=down, n_arms=d
        )
        found.lower[:, wanted] = got[0] if trial.bounded else got
        found.upper[:, wanted] = got[0] + got[1] if trial.bounded else got
        found.pulls[wanted] = SIZES[size[wanted]]
        wanted = np.zeros(d, dtype=bool)
        for node in tree.nodes():
            if not _parted(node, found, trial):
                wanted[node.place] = True
        if not wanted.any():
            return found
        size = np.minimum(size + FURTHER, SIZES.size - 1)
    raise Stuck("representatives that cannot be told apart")


def _size(pulls: Floats) -> Ints:
    return np.minimum(np.searchsorted(SIZES, pulls), SIZES.size - 1)


def _parted(node: Node, found: TreeReferences, trial: Trial) -> bool:
    """Whether every lower representative is shown to differ from every upper one, by enough for agents to use it."""
    low, high = found.between(node, trial)
    if high <= low:
        return False
    sent = bound_and_gap(
        trial.problem, np.array([low]), np.array([high]), trial.bounded, trial.spending
    )
    if sent is None or not found.serve(node, sent[1].values, trial):
        return False
    if trial.bounded:
        return high - low >= BOUNDS_LEFT * node.gap
    n = float(found.pulls[node.place])
    return bool(_distinct(np.array(high - low), n, n, trial))


def _distinct(ahead: Floats, n_a: float, n_b: float, trial: Trial) -> np.ndarray:
    """Whether averages of n_a and n_b pulls that differ by `ahead` show that the means differ in this direction."""
    level = trial.budget.distinct()
    return pair(ahead / trial.problem.sigma, n_a, n_b, n_a / level, n_b / level) >= level


@dataclass(frozen=True)
class BestReferences:
    """What guesses are compared with.

    Attributes:
        top: (M,) averages of representatives' own best arms, of as many pulls as `Trial.wide` says.
        high: (M, M), entry (y, x): at least the average of arm k_x at y; inf where it is unknown, −inf for y = x.
        second: (M,) whether column x comes from the second stream: at least as many pulls as `Trial.wide` says.
    """

    top: Floats
    high: Floats
    second: np.ndarray


def best_references(federation: Federation, reps: Ints, best: Ints, trial: Trial) -> BestReferences:
    """Averages of all best arms at all representatives. They are shown distinct."""
    p, m = trial.problem, reps.size
    top = federation.local(
        reps, partial(own_average, trial=trial), down=ArmIndex(best, among=p.n_arms)
    )
    high = np.full((m, m), np.inf)
    shown = np.eye(m, dtype=bool)
    wanted: np.ndarray = np.ones(m, dtype=bool)
    own = trial.wide.reference_size
    for stream, times in enumerate(
        (trial.reference_size, max(MORE * trial.reference_size, MORE_OWN * own))
    ):
        columns = np.flatnonzero(wanted)[np.argsort(best[wanted])]
        members = np.zeros(p.n_arms, dtype=bool)
        members[best[columns]] = True
        program = partial(below_own, trial=trial, times=times)
        below = federation.local(reps, program, down=ArmSet(members, at_most=m))
        high[:, columns] = np.where(below < 0, np.inf, upper_edge(top)[:, None] - below)
        np.fill_diagonal(high, -np.inf)
        ahead = np.where(np.isfinite(high), np.maximum(lower_edge(top) - high, 0), 0)
        shown[:, columns] |= _distinct(ahead[:, columns], times, own, trial)
        twins = ~(shown | shown.T)
        if not twins.any():
            return BestReferences(top, high, wanted & (stream > 0))
        wanted = np.asarray(twins.any(axis=0))
    raise Stuck("representatives that cannot be told apart")
