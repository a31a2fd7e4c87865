"""References: what representatives report of a few arms, for agents to be compared with. They also show that
representatives are distinct.

All numbers come from streams of pulls that start after the arms were chosen. A stream is looked at after n pulls and,
if these do not suffice, once more after at most 4n: the e-processes made from it hold at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import ArmIndex, ArmSet, ArmSubset, Payload, Quantised, Reals, Symbol
from clustered_bandit_gym.policies.frugal.assign import MORE, REFERENCE_RHO, UNUSED, Trial
from clustered_bandit_gym.policies.frugal.best_arms import Stuck
from clustered_bandit_gym.policies.frugal.facts import Tests, Work
from clustered_bandit_gym.policies.frugal.sketch import Protocol
from clustered_bandit_gym.policies.frugal.tree import Node, grow
from clustered_bandit_gym.policies.sequential.cells import BettingCells, make_cells
from clustered_bandit_gym.policies.sequential.gaussian import pair

#: Numbers of pulls that can be ordered: 32·2^(c/4).
SIZES = np.ceil(32.0 * 2 ** (np.arange(128) / 4)).astype(np.int64)
#: Rough means: symbols of one of so many steps between the least and the largest.
ROUGH = 64
#: Bounds on means are sent as one of so many numbers, evenly spread over the support.
STEPS = 256
#: A best arm's mean elsewhere is sent as how far below the own best it is, in eighths of η. The first symbol: unknown.
BELOW = np.concatenate([[-1.0], np.arange(31) / 8])
#: Looks at references. The second comes after `MORE` times the pulls of the first, or (`FURTHER` steps of SIZES more)
#: a little less.
STAGES, FURTHER = 2, 6
#: What agents are told of a distance is at least this part of it.
SENT = 0.75
#: Bounds on means must leave this part of a distance that was planned with.
BOUNDS_LEFT = 0.2


# --- programs at representatives --------------------------------------------------------------------------------------


def rough_means(block: Block, tests: Tests, protocol: Protocol) -> tuple[Payload, ...]:
    """Averages of the protocol's arms in the tests so far, coarsely: for the plan of a tree only."""
    cells = Work.load(block, tests).cells
    lack = protocol.enough - cells.n[:, protocol.arms]
    row, place = np.nonzero(lack > 0)
    if row.size:
        cells.pull(block, row, protocol.arms[place], lack[row, place].astype(np.int64))
    mean = cells.mean[:, protocol.arms]
    if protocol.bounded:
        assert protocol.problem.support is not None
        low, high = np.broadcast_to(np.array(protocol.problem.support), (len(block), 2)).T
    else:
        low, high = mean.min(axis=1), mean.max(axis=1)
    place = np.round((mean - low[:, None]) / np.maximum(high - low, 1e-300)[:, None] * (ROUGH - 1))
    symbols = Symbol(place.astype(np.int64), among=ROUGH)
    return (symbols,) if protocol.bounded else (symbols, Reals(np.stack([low, high], axis=1)))


def measure(
    block: Block, members: np.ndarray, size: np.ndarray, arms: Ints, trial: Trial, stage: int
) -> Payload | tuple[Payload, ...]:
    """Pulls for references of some of `arms` (d,): members (n, d) the same for all, SIZES[size] (n, u) more of each.

    Returns the averages of the streams so far, exactly; for bounded rewards, lower and upper bounds on the means,
    rounded outwards.
    """
    p, n = block.problem, len(block)
    chosen = np.flatnonzero(members[0])
    memory = (n, arms.size) if stage == 1 else block.load("references")
    cells = make_cells(p, block.values if trial.bounded else None, UNUSED, memory)
    row, place = (index.ravel() for index in np.meshgrid(np.arange(n), chosen, indexing="ij"))
    cells.pull(block, row, place, SIZES[size].ravel(), arms[place])
    block.save("references", cells.memory)
    if not trial.bounded:
        return Reals(cells.mean[:, chosen])
    assert isinstance(cells, BettingCells)
    assert p.support is not None
    low, high = cells.interval(trial.budget.bound(arms.size))
    grid = np.linspace(*p.support, STEPS)
    return Quantised(low[:, chosen], grid, "down", True), Quantised(high[:, chosen], grid, "up", True)


def own_average(block: Block, own: np.ndarray, trial: Trial) -> Payload:
    """Fresh pulls of the agent's own best arm (n,): their exact average. It is kept, too."""
    top = block.pull(np.arange(len(block)), own, trial.reference_size)
    block.save("top", top)
    return Reals(top)


def below_own(block: Block, members: np.ndarray, trial: Trial, stage: int) -> Payload:
    """Pulls of the arms of a list, (n, K) booleans: how far each average is below `own_average`, rounded down."""
    p, n = block.problem, len(block)
    assert p.eta is not None
    arms = np.flatnonzero(members[0])
    memory = (n, p.n_arms) if stage == 1 else block.load("elsewhere")
    cells = make_cells(p, None, UNUSED, memory)
    row, arm = (index.ravel() for index in np.meshgrid(np.arange(n), arms, indexing="ij"))
    cells.pull(block, row, arm, np.full(row.size, trial.reference_size * (1 if stage == 1 else MORE - 1)))
    block.save("elsewhere", cells.memory)
    return Quantised(block.load("top")[:, None] - cells.mean[:, arms], p.eta * BELOW, "down", clip=True)


# --- the centre -------------------------------------------------------------------------------------------------------


@dataclass
class TreeReferences:
    """A tree of tests, and what its nodes compare with.

    Attributes:
        tree: the root, or the only cluster.
        lower, upper: (M, d) for each representative and protocol arm two bounds on its mean, or an average, twice.
        pulls: (d,) pulls of each arm that these are made from.
    """

    tree: Node | int
    lower: Floats
    upper: Floats
    pulls: Ints

    def between(self, node: Node) -> tuple[float, float]:
        """The highest reference of a node's lower clusters, and the lowest one of its upper clusters."""
        low, high = self.upper[list(node.lower), node.place], self.lower[list(node.upper), node.place]
        return float(low.max()), float(high.min())

    def serve(self, node: Node, gap: Floats, trial: Trial) -> bool:
        """Whether averages are worth what agents take for granted when they are told a distance of `gap`."""
        return trial.bounded or bool(self.pulls[node.place] >= trial.reference_pulls(gap).max())


def tree_references(
    federation: Federation, reps: Ints, tests: Tests, protocol: Protocol, trial: Trial
) -> TreeReferences:
    """A tree of tests on the protocol's arms. Every two representatives are shown distinct at the node where they
    part."""
    rough = _rough(federation, reps, tests, protocol)
    sigma = trial.problem.sigma * (0.4 if trial.bounded else 1.0)
    tree = grow(rough, float(sigma * np.sqrt(2 / protocol.enough)), 0.5 * sigma)
    if tree is None:
        raise Stuck("no tree tells the representatives apart")
    m, d = rough.shape
    found = TreeReferences(tree, np.full((m, d), np.nan), np.full((m, d), np.nan), np.zeros(d, dtype=np.int64))
    if isinstance(tree, int):
        return found
    gap = np.full(d, np.inf)
    for node in tree.nodes():
        gap[node.place] = min(gap[node.place], node.gap)
    wanted = np.isfinite(gap)
    size = _size(trial.reference_pulls(SENT * np.where(wanted, gap, 1.0)))
    for stage in range(1, STAGES + 1):
        down = ArmSubset(np.tile(wanted, (m, 1))), Symbol(np.tile(size[wanted], (m, 1)), among=SIZES.size)
        program = partial(measure, arms=protocol.arms, trial=trial, stage=stage)
        got = federation.local(reps, program, down=down, n_arms=d)
        found.lower[:, wanted], found.upper[:, wanted] = got if trial.bounded else (got, got)
        found.pulls[wanted] += SIZES[size[wanted]]
        if stage == 1:
            first = found.pulls.copy()
        wanted = np.zeros(d, dtype=bool)
        for node in tree.nodes():
            if not _parted(node, found, trial, REFERENCE_RHO * first[node.place]):
                wanted[node.place] = True
        if not wanted.any():
            return found
        size = np.minimum(size + FURTHER, SIZES.size - 1)
    raise Stuck("representatives that cannot be told apart")


def _rough(federation: Federation, reps: Ints, tests: Tests, protocol: Protocol) -> Floats:
    """(M, d) rough means of the protocol's arms, for the plan of a tree only."""
    got = federation.local(reps, partial(rough_means, tests=tests, protocol=protocol))
    ends: Floats = got[1] if len(got) > 1 else np.array([tests.problem.support] * reps.size, dtype=np.float64)
    return ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * got[0] / (ROUGH - 1)


def _size(pulls: Floats) -> Ints:
    return np.minimum(np.searchsorted(SIZES, pulls), SIZES.size - 1)


def _parted(node: Node, found: TreeReferences, trial: Trial, rho: float) -> bool:
    """Whether every lower representative is shown to differ from every upper one, by enough for agents to use it."""
    low, high = found.between(node)
    if high <= low:
        return False
    if trial.bounded:
        return high - low >= BOUNDS_LEFT * node.gap
    n = float(found.pulls[node.place])
    shown = bool(pair((high - low) / trial.problem.sigma, n, n, rho) >= trial.budget.distinct())
    return shown and found.serve(node, np.array(SENT * (high - low)), trial)


def best_references(federation: Federation, reps: Ints, best: Ints, trial: Trial) -> tuple[Floats, Floats]:
    """(M,) the averages of representatives' best arms, and (M, M), entry (y, x): at least that of arm k_x at y, inf
    where it is unknown, −inf for y = x. All representatives are shown distinct."""
    p, m = trial.problem, reps.size
    top = federation.local(reps, partial(own_average, trial=trial), down=ArmIndex(best, among=p.n_arms))
    high = np.full((m, m), np.inf)
    shown = np.eye(m, dtype=bool)
    wanted: np.ndarray = np.ones(m, dtype=bool)
    for stage in range(1, STAGES + 1):
        columns = np.flatnonzero(wanted)[np.argsort(best[wanted])]
        members = np.zeros(p.n_arms, dtype=bool)
        members[best[columns]] = True
        program = partial(below_own, trial=trial, stage=stage)
        below = federation.local(reps, program, down=ArmSet(members, at_most=columns.size))
        high[:, columns] = np.where(below < 0, np.inf, top[:, None] - below)
        np.fill_diagonal(high, -np.inf)
        n_top = float(trial.reference_size)
        n = n_top * (1 if stage == 1 else MORE)
        ahead = np.where(np.isfinite(high), np.maximum(top - high, 0), 0) / p.sigma
        evidence = pair(ahead[:, columns], n, n_top, REFERENCE_RHO * n_top)
        shown[:, columns] |= evidence >= trial.budget.distinct()
        twins = ~(shown | shown.T)
        if not twins.any():
            return top, high
        wanted = np.asarray(twins.any(axis=0))
    raise Stuck("representatives that cannot be told apart")
