"""Tests of two arms at one agent, at R agents in lock-step: all of an agent's tests are one small table.

Correctness rests on the two tests in `Work._look` alone; the rest chooses pulls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.frugal.levels import Tests
from clustered_bandit_gym.policies.sequential.cells import Cells, GaussianCells, make_cells

#: First pulls of every arm: averages with a standard deviation of σ/4. 8 and 32 give the same pulls beyond noise.
START = 16
#: Limits of a batch: the most and the least that it adds to the pulls of an arm, as a share of them, and the part of
#: the missing pulls that it makes. An exploration has many cheap tests, where larger batches save time. After a search
#: all arms take about as many pulls, and smaller batches overshoot less.
BATCHES = 1.0, 0.12, 1.0
BATCHES_EXPLORE = 1.0, 0.25, 1.0
BATCHES_EVEN = 0.25, 0.02, 0.4
#: Tests are computed only where a squared difference reaches this many times level and variance. Without the price of
#: mixing it would take 2, so nothing is missed; it saves time only.
HOPE = 1.8
#: Standard deviations in favour of an arm, when it is decided whether a test is worth starting and how many pulls to
#: plan. Half and twice of either give the same pulls beyond noise.
OPTIMISM, LUCK = 1.0, 0.5

Climb = Callable[[np.ndarray, Floats, Ints], Floats]


class Table:
    """The arms of a row that tests are about, side by side: C of them in every row, padded where a row has fewer.

    A test has a loser, one of the C arms, and a winner. With wanted arms there are W = C + 1 winners, the arms and, as
    the last one, the leader; without, W = 1: the leader.

    Attributes:
        arms: (R, C) which they are.
        starts: (R,) where a row begins when (R, C) are counted one by one.
        live, wanted, close: (R, C) those live; those whose closeness is of interest; those shown close.
        level, late_level, close_level: (R, C) nats with which the arm wins.
        shown: (R, C, C) the loser was shown less than η better than the winner.
    """

    def __init__(self, work: Work, wanted: np.ndarray) -> None:
        concerned = work.live | wanted
        n_rows, n_arms = concerned.shape
        self.rows, self.n_arms, self.wide = np.arange(n_rows), n_arms, bool(wanted.any())
        width = int(concerned.sum(axis=1).max())
        self.arms: Ints = np.argsort(~concerned, axis=1, kind="stable")[:, :width]
        self._flat, self.starts = self.rows[:, None] * n_arms + self.arms, self.rows * width
        self.live, self.wanted = self.take(work.live), self.take(wanted)
        self.level, self.late_level = self.take(work.level), self.take(work.late_level)
        self.close_level = np.full(self.level.shape, work.close_level)
        self.close = np.zeros_like(self.live)
        if self.wide:
            self.differ = ~np.eye(width, dtype=bool)
            self.shown = np.zeros((n_rows, width, width), dtype=bool)
            #: Which winner is the leader.
            self.beats = np.arange(width + 1) == width

    def take(self, values: np.ndarray) -> Any:
        """(R, C) of (R, K)."""
        return values.take(self._flat)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """(R, K) of (R, C): False elsewhere."""
        full = np.zeros((self.rows.size, self.n_arms), dtype=bool)
        full[self.rows[:, None], self.arms] = values
        return full

    def winners(self, values: np.ndarray, leader: Ints) -> Any:
        """(R, C) of (R, W): what belongs to the leader is added where it stands."""
        if self.wide:
            values[self.rows, leader] += values[:, -1]
            return values[:, :-1]
        full = np.zeros((self.rows.size, self.arms.shape[1]), dtype=values.dtype)
        full[self.rows, leader] = values[:, 0]
        return full


@dataclass(frozen=True)
class Open:
    """Tests that are not decided.

    Attributes:
        n: (R, C) pulls so far.
        n_b: (R, W) those of winners.
        leader: (R,) which of the C arms has the highest average.
        open: (R, C, W) which they are.
        need, hope: (R, C, W) pulls of each arm that a test is likely to take, and with some luck; inf where not open.
    """

    n: Floats
    n_b: Floats
    leader: Ints
    open: np.ndarray
    need: Floats
    hope: Floats


class Work:
    """Tests of two arms at one agent, R agents in lock-step.

    Attributes:
        cells: (R, K) pulls since the agent became a representative.
        live: (R, K) arms that may be the best.
        level: (R, K) nats with which the arm beats another one.
        prefix, first: (R, K) averages of the first `prefix` pulls, nan where there are fewer.
    """

    def __init__(
        self, tests: Tests, cells: Cells, live: np.ndarray, found: Ints, prefix: int = 0
    ) -> None:
        self.tests, self.cells, self.live, self.prefix = tests, cells, live, prefix
        self.first = np.full(live.shape, np.nan)
        self.variance: float | None = None
        if isinstance(cells, GaussianCells):
            cells.balance, self.variance = tests.balance, cells.sigma**2
        self.level = tests.beaten_levels(found)
        self.close_level = tests.budget.close()
        self.batches = BATCHES_EVEN if tests.expected else BATCHES
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
            self.earlier, self.late_level = (
                block.load("earlier"),
                self.tests.late_levels(block.load("prior")),
            )

    def prior(self) -> Floats:
        """(R, K) weights of live arms as winners of later tests: their chances, by what was drawn so far."""
        n, mean, variance = self.cells.n, self.cells.mean, self.cells.variance()
        top = np.where(self.live, mean, -np.inf).argmax(axis=1)[:, None]
        lead, best, noise = (np.take_along_axis(x, top, axis=1) for x in (n, mean, variance))
        chance = np.where(
            self.live, np.exp(-0.5 * (best - mean) ** 2 / (noise / lead + variance / n)), 0.0
        )
        live = self.live / self.live.sum(axis=1, keepdims=True)
        return 0.5 * live + 0.5 * chance / chance.sum(axis=1, keepdims=True)

    def save(self, block: Block) -> None:
        block.save("cells", self.cells.memory)
        block.save("live", self.live)

    def run(
        self, block: Block, wanted: np.ndarray, cap: Floats, climb: Climb | None = None
    ) -> np.ndarray:
        """Pull until every test is shown or seems to need more than `cap` (R,) pulls of each arm.

        Shrinks `live`. Returns (R, K) the arms of `wanted` that are less than η worse than every live arm.

        Args:
            climb: gets (R,) rows that have nothing to do at their cap, (R,) the least effort that some test of theirs
                may take, and (R,) how many arms are live; returns (R,) their caps from now on.
        """
        table = Table(self, wanted)
        while True:
            tests = self._look(table)
            active = tests.open & (tests.hope <= cap[:, None, None])
            if climb is not None:
                idle = np.logical_not(active.any(axis=(1, 2)))
                if idle.any():
                    cap = climb(idle, tests.hope.min(axis=(1, 2)), table.live.sum(axis=1))
                    active = tests.open & (tests.hope <= cap[:, None, None])
            # Closeness takes all of an arm's tests: none is worked on while one of them is out of reach.
            if table.wide:
                active &= (
                    np.logical_not((tests.open & ~active).any(axis=1))[:, None, :] | table.beats
                )
            if not active.any():
                self.live = table.spread(table.live)
                return table.spread(table.close)
            self._pull(
                block, table, tests, active, BATCHES_EXPLORE if climb is not None else self.batches
            )

    def _look(self, table: Table) -> Open:
        """Apply both tests to what was drawn so far; what is still open.

        An arm leaves `live` when the leader is shown better (shift 0). An arm `winner` of `wanted` is shown less than η
        worse than the live arm `loser` with shift η.
        """
        cells, live = self.cells, table.live
        n, mean = table.take(cells.n), table.take(cells.mean)
        # Of one pull; the same for all where nothing is known of it.
        variance = self.variance if self.variance is not None else table.take(cells.variance())
        share = variance / n
        leader = np.where(live, mean, -np.inf).argmax(axis=1)
        at = leader + table.starts
        n_b, mean_b, share_b = n.take(at)[:, None], mean.take(at)[:, None], share.take(at)[:, None]
        rival = live.copy()
        rival.put(at, False)
        open_ = rival[:, :, None]
        level = table.level.take(at)[:, None]
        if table.wide:
            # Only arms with a chance to be close: the leader less than η ahead. The others wait for that.
            wanted, ahead = table.wanted & ~table.close, mean + self.tests.eta
            pairs = live[:, :, None] & wanted[:, None, :] & table.differ & ~table.shown
            pairs &= (ahead > mean_b)[:, None, :] | (live ^ rival)[:, :, None]
            open_ = np.concatenate([pairs, open_], axis=2)
            n_b, mean_b = np.concatenate([n, n_b], axis=1), np.concatenate([ahead, mean_b], axis=1)
            share_b = np.concatenate([share, share_b], axis=1)
            level = np.concatenate([table.close_level, level], axis=1)
        d = mean_b[:, None, :] - mean[:, :, None]
        noise = share[:, :, None] + share_b[:, None, :]
        # As normal laws would have it, and one part in ten more: where that is too little nothing is shown.
        hope = open_ & (d > 0) & (d * d >= (HOPE * level)[:, None, :] * noise)
        row, a, b = np.nonzero(hope)
        if row.size:
            beats = b == n_b.shape[1] - 1
            arm_a, arm_b = table.arms[row, a], table.arms[row, np.where(beats, leader[row], b)]
            shift = np.where(beats, 0.0, self.tests.eta)
            hope[row, a, b] = cells.shows(row, arm_a, row, arm_b, shift, level[row, b])
        beaten = hope[:, :, -1]
        if self.earlier is not None:
            beaten |= self._late(table, rival & ~beaten, leader)
            level[:, -1] = np.minimum(level[:, -1], table.late_level.take(at))
        live &= ~beaten
        open_ &= ~hope & live[:, :, None]
        if table.wide:
            table.shown |= hope[:, :, :-1]
            # Shown against every live arm, at this look or before; a pair that is not open need not have been shown.
            missing = live[:, :, None] & table.differ & ~table.shown
            table.close |= table.wanted & ~missing.any(axis=1)
        both = (
            (share * n)[:, :, None] + (share_b * n_b)[:, None, :]
            if self.variance is None
            else 2 * self.variance
        )
        return Open(n, n_b, leader, open_, *self._needs(open_, d, noise, both, level))

    def _late(self, table: Table, rival: np.ndarray, leader: Ints) -> np.ndarray:
        """(R, C) rivals that the late stream shows to be worse than the leader."""
        assert self.earlier is not None
        shown, rows = np.zeros_like(rival), table.rows
        late = self.cells.since(self.earlier)
        n, mean, variance = table.take(late.n), table.take(late.mean), table.take(late.variance())
        level = table.late_level[rows, leader][:, None]
        noise = variance / np.maximum(n, 1e-9)
        d = mean[rows, leader][:, None] - mean
        row, a = np.nonzero(
            rival & (d > 0) & (d * d >= HOPE * level * (noise + noise[rows, leader][:, None]))
        )
        arm_b = table.arms[row, leader[row]]
        shown[row, a] = late.shows(row, table.arms[row, a], row, arm_b, 0.0, level[row, 0])
        return shown

    def _needs(
        self,
        open_: np.ndarray,
        ahead: Floats,
        noise: Floats,
        variance: Floats | float,
        level: Floats,
    ) -> tuple[Floats, Floats]:
        """(R, C, W) pulls of each of two arms that a test is likely to take, and those that it takes with some luck."""
        deviation = np.sqrt(noise)
        work = np.where(open_, 2 * (level + self.cells.slack)[:, None, :] * variance, np.inf)
        hope = work / np.maximum(ahead + OPTIMISM * deviation, 1e-140) ** 2
        return work / np.maximum(ahead + LUCK * deviation, 0.7 * deviation) ** 2, hope

    def _pull(
        self,
        block: Block,
        table: Table,
        tests: Open,
        active: np.ndarray,
        batches: tuple[float, float, float],
    ) -> None:
        """Pull the next batch. A winner is compared with all its losers; √Σn² pulls of it make the sum least."""
        n, rows, leader = tests.n, table.rows, tests.leader
        count = table.winners(active.sum(axis=1), leader)
        many = (
            np.concatenate([count, count[rows, leader][:, None]], axis=1)
            if table.wide
            else count[rows, leader]
        )
        n_a, n_b = n[:, :, None], tests.n_b[:, None, :]
        goal = 0.5 * tests.need * (1 + 1 / np.sqrt(np.maximum(many, 1))).reshape(rows.size, 1, -1)
        growth, least, part = batches
        step = np.minimum(np.maximum(part * (goal - n_a), least * n_a), growth * n_a + 8)
        # Otherwise the winner has to catch up first.
        step *= active & (n_a <= 1.5 * n_b + 8)
        square = table.winners((active * (n_a + step) ** 2).sum(axis=1), leader)
        lack = np.where(count > 0, np.sqrt(square) - n, 0)
        times = np.maximum(step.max(axis=2), np.minimum(np.maximum(lack, 0), n + 8))
        row, slot = np.nonzero(times > 0)
        self.pull(block, row, table.arms[row, slot], np.ceil(times[row, slot]).astype(np.int64))

    def pull(self, block: Block, rows: Ints, arms: Ints, times: Ints) -> None:
        """Pull; batches end where a prefix does."""
        if not self.prefix:
            self.cells.pull(block, rows, arms, times)
            return
        before = self.cells.n[rows, arms]
        left = self.prefix - before
        self.cells.pull(
            block, rows, arms, np.where(left > 0, np.minimum(times, left), times).astype(np.int64)
        )
        ends = (before < self.prefix) & (self.cells.n[rows, arms] >= self.prefix)
        self.first[rows[ends], arms[ends]] = self.cells.mean[rows[ends], arms[ends]]
