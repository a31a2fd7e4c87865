"""Tests at single representatives: which arms are beaten, and which are close to the best.

Programs at agents. Each keeps its pulls, its live arms and what it has shown in its own memory; the centre sends sets
of arms and gets sets of arms. The tests are in `duels`.
"""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.ledger import ArmIndex, ArmSubset, Payload, Reals, Symbol
from clustered_bandit_gym.policies.frugal.duels import Work
from clustered_bandit_gym.policies.frugal.levels import Tests

#: Representatives explore on their own until at most this many arms are left, or this share of them; then they exchange
#: what they found. Half and twice of either give the same pulls beyond noise.
FEW, FEW_SHARE = 8, 1 / 32


def explore(block: Block, _: np.ndarray, tests: Tests) -> tuple[Payload, ...]:
    """A representative's first program: from no pulls to few live arms. Sends these, and the effort that it reached.

    One bit tells the agent that it is a representative, as in `find_best`.
    """
    work = Work.fresh(block, tests)
    few, last = max(FEW, int(FEW_SHARE * tests.problem.n_arms)), tests.last_effort
    reached: Ints = np.zeros(len(block), dtype=np.int64)

    def climb(idle: np.ndarray, least: Floats, live: Ints) -> Floats:
        """Raise the effort of idle agents to the next one at which a test is open; 0 for those that end."""
        more = idle & (live > few) & (reached < last)
        reached[more] = np.maximum(reached[more] + 1, np.minimum(tests.code(least[more]), last))
        return np.where(idle & ~more, 0.0, tests.effort(reached))

    work.run(block, np.zeros_like(work.live), tests.effort(reached), climb)
    reached[work.live.sum(axis=1) > few] = last
    block.save("wanted", work.live)
    work.save(block)
    return ArmSubset(work.live), Symbol(reached, among=tests.spending.efforts)


def find_best(block: Block, _: np.ndarray, tests: Tests, prefix: int) -> tuple[Payload, ...]:
    """A representative tests its arms until one is left, and sends it with the average of its first `prefix` pulls."""
    work = Work.fresh(block, tests, prefix)
    work.run(block, np.zeros_like(work.live), np.full(len(block), np.inf))
    best, rows = work.live.argmax(axis=1), np.arange(len(block))
    short = np.flatnonzero(work.cells.n[rows, best] < prefix)
    if short.size:
        work.pull(
            block, short, best[short], (prefix - work.cells.n[short, best[short]]).astype(np.int64)
        )
    return ArmIndex(best, among=tests.problem.n_arms), Reals(work.first[rows, best])


def begin(block: Block, code: np.ndarray, tests: Tests) -> None:
    """The effort of the first exchange; every further one goes a step up. Pulls from here on are a stream of their own,
    with weights for the winner that follow from the pulls so far."""
    block.save("effort", code)
    if tests.late:
        work = Work.load(block, tests)
        block.save("earlier", work.cells.memory)
        block.save("prior", work.prior())


def exchange(
    block: Block, excluded: np.ndarray, dull: np.ndarray, tests: Tests
) -> tuple[Payload, ...]:
    """Down: arms that are out here, arms of no interest to others. Up: what was shown at this effort.

    Args:
        excluded: (n, K) arms that leave the live set by what others have shown.
        dull: (n, K) arms whose closeness helps no other representative any more.

    Returns:
        Arms newly shown close, out of those of interest; arms newly beaten, out of those live.
    """
    work = Work.load(block, tests)
    work.go_on(block)
    live = work.live & ~excluded
    wanted = block.load("wanted") & ~dull
    work.live = live.copy()
    code = block.load("effort")
    block.save("effort", code + 1)
    close = work.run(block, wanted, tests.effort(code.astype(np.float64)))
    work.save(block)
    block.save("wanted", wanted & ~close)
    return ArmSubset(close, within=wanted), ArmSubset(live & ~work.live, within=live)
