"""What representatives show on their own: which arms are beaten, and which are close to the best.

Programs at agents. Each keeps its pulls, its live arms and what it has shown in its own memory; the centre sends sets
of arms and gets sets of arms. All that correctness rests on are the two tests in `Work._look`; the rest chooses pulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.ledger import ArmIndex, ArmSubset, Payload, Reals, Symbol
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.frugal.budget import Budget
from clustered_bandit_gym.policies.frugal.spending import FRUGAL, Spending
from clustered_bandit_gym.policies.sequential.cells import Cells, GaussianCells, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales

#: First pulls of every arm.
START = 16
#: A batch adds at most this share to the pulls of an arm and at least the second; of what is missing it makes a part.
#: After a search all arms are likely to take about as long, and smaller batches pay.
GROWTH, LEAST, PART = 0.5, 0.06, 0.8
GROWTH_EVEN, LEAST_EVEN, PART_EVEN = 0.25, 0.02, 0.4
#: The least effort, in pulls.
FIRST_EFFORT = 64.0
#: An arm that seems worse than it may be is given this many standard deviations: when it is decided whether to go on,
#: and how far.
OPTIMISM, LUCK = 1.0, 0.5
#: Representatives explore on their own until at most so many arms are left, or this share of them.
FEW, FEW_SHARE = 8, 1 / 32
#: Tests are tuned to gaps of so many η.
TUNED = 0.5
#: With so many arms, pulls after the exploration are a stream of their own with this share of the error probability. It
#: is spread over the live arms, half of it evenly and half by their chances so far.
LATE_ARMS, LATE = 32, 0.5
#: After a search, weight of the arm that was found, if it wins, and of the scale of η. Others share the rest.
EXPECTED = 0.9


@dataclass(frozen=True)
class Tests:
    """What representatives test, at which levels: functions of what everybody knows.

    Attributes:
        expected: every representative has searched for its best arm before (saved as "found"): an arm that beats
            others is likely to be that one, and gets most of the error probability.
        spending: how fast efforts grow.
    """

    problem: Problem
    budget: Budget
    expected: bool
    spending: Spending = FRUGAL

    def effort(self, code: Any) -> Any:
        """Pulls of each arm of a test that is worth working on at the code-th exchange."""
        return FIRST_EFFORT * self.spending.step**code

    @property
    def eta(self) -> float:
        assert self.problem.eta is not None
        return self.problem.eta

    @property
    def scales(self) -> Scales:
        """Tuned to the gaps that take most of the pulls: η after a search, else less than that."""
        alpha = np.exp(-self.budget.beaten(0.5))
        gap = self.eta * (1.0 if self.expected else TUNED)
        scales = Scales.around(-2 * float(np.log(alpha)) * (self.problem.sigma / gap) ** 2, float(alpha))
        if not self.expected:
            return scales
        centre = scales.weight == scales.weight.max()
        others = (1 - EXPECTED) / (1 - scales.weight.max())
        return Scales(scales.rho, np.where(centre, EXPECTED, others * scales.weight))

    @property
    def balance(self) -> float:
        """How many times the pulls of another arm the best one is going to have: `Work._pull` keeps to it."""
        return float(np.sqrt(max(1, self.problem.n_arms - 1))) if self.expected else 1.0

    @property
    def last_effort(self) -> int:
        """Code of the effort that shows a gap of η."""
        pulls = 4 * (self.budget.beaten(0.5) + 3) * (self.problem.sigma / self.eta) ** 2
        return int(
            np.clip(np.ceil(np.log(pulls / FIRST_EFFORT) / np.log(self.spending.step)), 0, self.spending.efforts - 1)
        )

    @property
    def late(self) -> bool:
        """Whether pulls after the exploration are tested as a stream of their own, too: worth it with many arms."""
        return not self.expected and self.problem.n_arms >= LATE_ARMS

    def late_levels(self, prior: Floats) -> Floats:
        """(R, K) nats needed in the late stream if the arm wins. `prior`: (R, K) rows sum to at most one."""
        return self.budget.beaten(LATE) - np.log(np.maximum(prior, 1e-300))

    def beaten_levels(self, found: Ints) -> Floats:
        """(R, K) nats needed if the arm wins against another one."""
        k = self.problem.n_arms
        if not self.expected or k < 3:
            return np.full((found.size, k), self.budget.beaten((1 - LATE if self.late else 1) / max(1, k - 1)))
        levels = np.full((found.size, k), self.budget.beaten((1 - EXPECTED) / (k - 2)))
        levels[np.arange(found.size), found] = self.budget.beaten(EXPECTED)
        return levels


def explore(block: Block, tests: Tests) -> tuple[Payload, ...]:
    """A representative's first program: from no pulls to few live arms. Sends these, and the effort that it reached."""
    work = Work.fresh(block, tests)
    few = max(FEW, int(FEW_SHARE * tests.problem.n_arms))
    nothing = np.zeros_like(work.live)
    reached = np.full(len(block), tests.last_effort)
    open_ = np.ones(len(block), dtype=bool)
    for code in range(tests.last_effort + 1):
        work.run(block, nothing, np.where(open_, tests.effort(code), 0.0))
        done = open_ & (work.live.sum(axis=1) <= few)
        reached[done] = code
        open_ &= ~done
        if not open_.any():
            break
    block.save("wanted", work.live)
    work.save(block)
    return ArmSubset(work.live), Symbol(reached, among=tests.spending.efforts)


def find_best(block: Block, tests: Tests, prefix: int) -> tuple[Payload, ...]:
    """A representative works until one arm is left, and sends it with the average of its first `prefix` pulls."""
    work = Work.fresh(block, tests, prefix)
    work.run(block, np.zeros_like(work.live), np.full(len(block), np.inf))
    best, rows = work.live.argmax(axis=1), np.arange(len(block))
    short = np.flatnonzero(work.cells.n[rows, best] < prefix)
    if short.size:
        work.pull(block, short, best[short], (prefix - work.cells.n[short, best[short]]).astype(np.int64))
    return ArmIndex(best, among=tests.problem.n_arms), Reals(work.first[rows, best])


def begin(block: Block, code: np.ndarray, tests: Tests) -> None:
    """The effort of the first exchange; every further one goes a step up. Pulls from here on are a stream of their own,
    with weights for the winner that follow from the pulls so far."""
    block.save("effort", code)
    if tests.late:
        work = Work.load(block, tests)
        block.save("earlier", work.cells.memory)
        block.save("prior", work.prior())


def exchange(block: Block, excluded: np.ndarray, dull: np.ndarray, tests: Tests) -> tuple[Payload, ...]:
    """Down: arms that are out here, arms of no interest to others. Up: what was shown at this effort.

    Args:
        excluded: (n, K) arms that leave the live set by what others have shown.
        dull: (n, K) arms whose closeness would help nobody any more.

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


class Work:
    """Tests of two arms at one agent, R agents in lock-step.

    Attributes:
        cells: (R, K) pulls since the agent became a representative.
        live: (R, K) arms that may be the best.
        level: (R, K) nats with which the arm beats another one.
        prefix, first: (R, K) averages of the first `prefix` pulls, nan where there are fewer.
    """

    def __init__(self, tests: Tests, cells: Cells, live: np.ndarray, found: Ints, prefix: int = 0) -> None:
        self.tests, self.cells, self.live, self.prefix = tests, cells, live, prefix
        self.first = np.full(live.shape, np.nan)
        if isinstance(cells, GaussianCells):
            cells.balance = tests.balance
        self.level = tests.beaten_levels(found)
        self.close_level = tests.budget.close()
        self.earlier: Floats | None = None
        self.late_level = self.level

    @classmethod
    def fresh(cls, block: Block, tests: Tests, prefix: int = 0) -> Work:
        shape = (len(block), tests.problem.n_arms)
        found = block.load("found") if tests.expected else np.zeros(len(block), dtype=np.int64)
        cells = make_cells(tests.problem, block.values, tests.scales, shape)
        work = cls(tests, cells, np.ones(shape, dtype=bool), found, prefix)
        row, arm = np.nonzero(work.live)
        work.pull(block, row, arm, np.full(row.size, START))
        return work

    @classmethod
    def load(cls, block: Block, tests: Tests) -> Work:
        """As `save` left it: before `begin`, or after it."""
        cells = make_cells(tests.problem, block.values, tests.scales, block.load("cells"))
        return cls(tests, cells, block.load("live"), np.zeros(len(block), dtype=np.int64))

    def go_on(self, block: Block) -> None:
        """The late stream begins where `begin` was called."""
        if self.tests.late:
            self.earlier, self.late_level = block.load("earlier"), self.tests.late_levels(block.load("prior"))

    def prior(self) -> Floats:
        """(R, K) weights of live arms as winners of later tests: their chances, by what was drawn so far."""
        n, mean, variance = self.cells.n, self.cells.mean, self.cells.variance()
        top = np.where(self.live, mean, -np.inf).argmax(axis=1)[:, None]
        lead, best, noise = (np.take_along_axis(x, top, axis=1) for x in (n, mean, variance))
        chance = np.where(self.live, np.exp(-0.5 * (best - mean) ** 2 / (noise / lead + variance / n)), 0.0)
        live = self.live / self.live.sum(axis=1, keepdims=True)
        return 0.5 * live + 0.5 * chance / chance.sum(axis=1, keepdims=True)

    def save(self, block: Block) -> None:
        block.save("cells", self.cells.memory)
        block.save("live", self.live)

    def run(self, block: Block, wanted: np.ndarray, cap: Floats) -> np.ndarray:
        """Pull until every test is shown or seems to need more than `cap` (R,) pulls of each arm.

        Shrinks `live`. Returns (R, K) the arms of `wanted` that are less than η worse than every live arm.
        """
        close = np.zeros_like(wanted)
        while True:
            row, loser, winner, shift, level = self._look(wanted & ~close)
            open_close = shift > 0
            waits = np.zeros_like(wanted)
            waits[row[open_close], winner[open_close]] = True
            close |= wanted & ~waits
            need, hope = self._needs(row, loser, winner, shift, level)
            active = hope <= cap[row]
            # Closeness takes all of an arm's tests: none is worked on while one of them is out of reach.
            stuck = np.zeros_like(wanted)
            beyond = open_close & ~active
            stuck[row[beyond], winner[beyond]] = True
            active &= ~(open_close & stuck[row, winner])
            if not active.any():
                return close
            self._pull(block, row[active], loser[active], winner[active], need[active])

    def _look(self, wanted: np.ndarray) -> tuple[Ints, Ints, Ints, Floats, Floats]:
        """Apply both tests to what was drawn so far; what is still open, as pairs (row, loser, winner, shift, level).

        An arm leaves `live` when the leader, or any arm that it is compared with, is shown better (shift 0). An arm
        `winner` of `wanted` is shown less than η worse than the live arm `loser` with shift η.
        """
        mean, eta = self.cells.mean, self.tests.eta
        rows = np.arange(mean.shape[0])
        leader = np.where(self.live, mean, -np.inf).argmax(axis=1)
        rival = self.live.copy()
        rival[rows, leader] = False
        row, loser = np.nonzero(rival)
        winner = leader[row]
        # Only arms with a chance to be close: the leader less than η ahead.
        chance = mean + eta > mean[rows, leader][:, None]
        y, k = np.nonzero(wanted & chance)
        index, other = np.nonzero(self.live[y])
        pair = other != k[index]
        y, k, other = y[index[pair]], k[index[pair]], other[pair]
        beaten = row.size  # the first so many tests are of that kind
        row, loser, winner = np.concatenate([row, y]), np.concatenate([loser, other]), np.concatenate([winner, k])
        shift, level = np.full(row.size, eta), np.full(row.size, self.close_level)
        shift[:beaten], level[:beaten] = 0.0, self.level[row[:beaten], winner[:beaten]]
        shown = self.cells.shows(row, loser, row, winner, shift, level)
        if self.earlier is not None:
            r, a, b = row[:beaten], loser[:beaten], winner[:beaten]
            late_level = self.late_level[r, b]
            shown[:beaten] |= self.cells.since(self.earlier).shows(r, a, r, b, 0.0, late_level)
            level[:beaten] = np.minimum(level[:beaten], late_level)
        self.live[row[:beaten][shown[:beaten]], loser[:beaten][shown[:beaten]]] = False
        left = ~shown & self.live[row, loser]
        h, arm = np.nonzero(wanted & ~chance)
        if not h.size:
            return row[left], loser[left], winner[left], shift[left], level[left]
        return (
            np.concatenate([row[left], h]),
            np.concatenate([loser[left], leader[h]]),
            np.concatenate([winner[left], arm]),
            np.concatenate([shift[left], np.full(h.size, eta)]),
            np.concatenate([level[left], np.full(h.size, self.close_level)]),
        )

    def _needs(self, row: Ints, loser: Ints, winner: Ints, shift: Floats, level: Floats) -> tuple[Floats, Floats]:
        """Pulls of each of two arms that a test is likely to take, and those that it takes with some luck."""
        n, mean, variance = self.cells.n, self.cells.mean, self.cells.variance()
        v_a, v_b = variance[row, loser], variance[row, winner]
        noise = np.sqrt(v_a / n[row, loser] + v_b / n[row, winner])
        ahead = mean[row, winner] + shift - mean[row, loser]
        work = 2 * (level + self.cells.slack) * (v_a + v_b)
        lucky = ahead + OPTIMISM * noise
        hope = np.where(lucky > 0, work / np.maximum(lucky, 1e-150) ** 2, np.inf)
        return work / np.maximum(ahead + LUCK * noise, 0.7 * noise) ** 2, hope

    def _pull(self, block: Block, row: Ints, loser: Ints, winner: Ints, need: Floats) -> None:
        """The next batch: a winner stands in the middle of its losers; √Σn² pulls of it make the sum least."""
        n = self.cells.n
        shape, at = n.shape, row * n.shape[1] + winner
        count = np.bincount(at, minlength=n.size)
        n_a, n_b = n[row, loser], n[row, winner]
        goal = 0.5 * need * (1 + 1 / np.sqrt(count[at]))
        even = self.tests.expected
        growth, least, part = (GROWTH_EVEN, LEAST_EVEN, PART_EVEN) if even else (GROWTH, LEAST, PART)
        step = np.minimum(np.maximum(part * (goal - n_a), least * n_a), growth * n_a + 8)
        ready = n_a <= 1.5 * n_b + 8  # else the middle has to catch up first
        times = np.zeros_like(n)
        np.maximum.at(times, (row[ready], loser[ready]), step[ready])
        square = np.bincount(at, (n_a + np.where(ready, step, 0)) ** 2, minlength=n.size).reshape(shape)
        lack = np.where(count.reshape(shape) > 0, np.sqrt(square) - n, 0)
        times = np.maximum(times, np.minimum(np.maximum(lack, 0), n + 8))
        r, k = np.nonzero(times > 0)
        self.pull(block, r, k, np.ceil(times[r, k]).astype(np.int64))

    def pull(self, block: Block, rows: Ints, arms: Ints, times: Ints) -> None:
        """Pull; batches end where a prefix does."""
        if not self.prefix:
            self.cells.pull(block, rows, arms, times)
            return
        before = self.cells.n[rows, arms]
        left = self.prefix - before
        self.cells.pull(block, rows, arms, np.where(left > 0, np.minimum(times, left), times).astype(np.int64))
        ends = (before < self.prefix) & (self.cells.n[rows, arms] >= self.prefix)
        self.first[rows[ends], arms[ends]] = self.cells.mean[rows[ends], arms[ends]]
