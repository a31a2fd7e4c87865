"""What agents have seen of their arms, and what that shows: one interface over sub-Gaussian and
bounded rewards.

A *cell* is all pulls of one arm at one agent; tables of cells are (R, K). "Shown at level L" means
that an e-process for the opposite has reached e^L, which ever happens with probability at most e^−L
if the opposite is true, whatever was pulled when and however often one looked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.sequential.betting import Bets
from clustered_bandit_gym.policies.sequential.gaussian import half_normal, pair_reaches
from clustered_bandit_gym.policies.sequential.scales import Scales

#: A guess of the variance counts this many pulls of a uniform law.
PRIOR = 0.5
#: Weight of the sub-Gaussian test beside the bets. Betting costs ln(1/0.7) = 0.4 nats more for it.
PLAIN = 0.3


class Source(Protocol):
    """Where pulls come from: a `Block`, or agents that the centre orders to pull."""

    def pull(self, rows: Ints, arms: Ints, times: Ints | int, /) -> Floats: ...

    def pull_counts(self, rows: Ints, arms: Ints, times: Ints | int, /) -> Ints: ...


class Cells(ABC):
    """Pulls of K arms at R agents.

    Attributes:
        n: (R, K) pulls.
        mean: (R, K) averages in units of the rewards (or what `make_cells` says), 0 where there are
            none.
        slack: nats that mixing costs, roughly: for plans only.
    """

    n: Floats
    mean: Floats
    slack: float

    @abstractmethod
    def pull(
        self, block: Source, rows: Ints, columns: Ints, times: Ints | int, arms: Ints | None = None
    ) -> None:
        """`times` fresh pulls for cells (row, column), each at most once: vectors of one length.
        Rows are the block's.

        The arm of a cell is its column, or what `arms` says where a table holds some arms only.
        """

    @abstractmethod
    def shows(
        self,
        row_a: Ints,
        a: Ints,
        row_b: Ints,
        b: Ints,
        shift: Any,
        level: Any,
        other: Cells | None = None,
    ) -> np.ndarray:
        """(P,) whether the mean of cell (row_a, a) is shown to be less than that of (row_b, b) plus
        `shift`.

        (row_b, b) is a cell of `other`, a table of the same kind, where one is given.
        """

    def shows_worse(
        self, rows: Ints, arm: Ints, shift: float, level: Any, among: np.ndarray
    ) -> np.ndarray:
        """(n, K) those of the arms `among` (n, K) whose mean at rows[i] is shown to be less than
        arm[i]'s plus `shift`.

        `level` is one number, or (n,).
        """
        index, other = np.nonzero(among)
        level = np.broadcast_to(level, rows.shape)[index]
        shown = np.zeros(among.shape, dtype=bool)
        shown[index, other] = self.shows(rows[index], other, rows[index], arm[index], shift, level)
        return shown

    @abstractmethod
    def side(
        self, row: Ints, column: Ints, bound: Any, up: Any, worth: Any = np.inf, rho: Any = None
    ) -> Floats:
        """(P,) evidence that the mean of a cell is above (`up`) or below `bound`, in nats.

        Args:
            up: booleans.
            worth: the bound is not a number but another cell's average, worth that many pulls: its
                noise is counted. For sub-Gaussian rewards only.
            rho: ρ of the mixture, fixed before the data; None takes the grid. For sub-Gaussian
                rewards only.
        """

    @abstractmethod
    def keep(self, rows: np.ndarray) -> None:
        """Forget all rows but these: an index of rows."""

    @abstractmethod
    def variance(self) -> Floats:
        """(R, K) a guess of the variance of one pull, for plans only."""

    @property
    @abstractmethod
    def memory(self) -> Floats:
        """(R, K, ...) all that is known, to be kept by the agents; the constructor takes it back."""


class GaussianCells(Cells):
    """σ-sub-Gaussian rewards; half-normal mixtures on a grid of ρ.

    Args:
        sigma: σ, in the same unit as averages.
        scales: the grid, fixed before the data, in pulls.
        memory: (R, K, 2) pulls and averages.
        unit: rewards are divided by it.
    """

    def __init__(self, sigma: float, scales: Scales, memory: Floats, unit: float = 1.0) -> None:
        self.sigma, self.scales, self.unit = sigma, scales, unit
        self.n, self.mean = memory[..., 0].copy(), memory[..., 1].copy()
        self.slack = 3.0

    def pull(
        self, block: Source, rows: Ints, columns: Ints, times: Ints | int, arms: Ints | None = None
    ) -> None:
        drawn = block.pull(rows, columns if arms is None else arms, times) / self.unit
        # Flat indices: several times as fast as pairs of them.
        at = rows * self.n.shape[1] + columns
        n, mean = self.n.take(at), self.mean.take(at)
        after = n + times
        drawn -= mean
        drawn *= times / after
        drawn += mean
        self.mean.put(at, drawn)
        self.n.put(at, after)

    def shows(
        self,
        row_a: Ints,
        a: Ints,
        row_b: Ints,
        b: Ints,
        shift: Any,
        level: Any,
        other: Cells | None = None,
    ) -> np.ndarray:
        with_ = self if other is None else other
        n_a, n_b = self.n[row_a, a], with_.n[row_b, b]
        d = (with_.mean[row_b, b] + shift - self.mean[row_a, a]) / self.sigma
        level = np.broadcast_to(level, d.shape)
        # Mixing costs something, so what does not even reach the level without it is not looked at.
        hope = (d > 0) & (0.5 * d * d * (n_a * n_b) >= level * (n_a + n_b)) & (n_a > 0) & (n_b > 0)
        shown = np.zeros(d.shape, dtype=bool)
        if hope.any():
            some_a, some_b = n_a[hope], n_b[hope]
            rho, weight = self.scales.at(np.minimum(some_a, some_b))
            shown[hope] = pair_reaches(level[hope] - weight, d[hope], some_a, some_b, rho, rho)
        return shown

    def side(
        self, row: Ints, column: Ints, bound: Any, up: Any, worth: Any = np.inf, rho: Any = None
    ) -> Floats:
        # A bound that is the average R of a stream worth w pulls: the least value over its mean μ
        # of ½w(R − μ)² + λn(m − μ) − ½λ²n is λn(m − R) − ½λ²(n + n²/w), the walk of a larger
        # variance.
        n = self.n[row, column]
        rho, weight = self.scales.at(np.maximum(n, 1.0)) if rho is None else (rho, 0.0)
        walk = np.where(up, 1.0, -1.0) * n * (self.mean[row, column] - bound) / self.sigma
        return half_normal(walk, n * (1 + n / worth), rho) + weight

    def keep(self, rows: np.ndarray) -> None:
        self.n, self.mean = self.n[rows], self.mean[rows]

    def variance(self) -> Floats:
        return np.full(self.n.shape, self.sigma**2)

    @property
    def memory(self) -> Floats:
        return np.stack([self.n, self.mean], axis=-1)


class BettingCells(Cells):
    """Rewards with finitely many values in a told interval; betting.

    Two arms are compared by two tests that share the level: bets, which adapt to the variance, and
    with the share `PLAIN` the mixtures of `GaussianCells`, which need fewer nats and are better
    where the variance is the largest possible.

    Args:
        values: (S,) the values.
        support: the interval.
        memory: (R, K, S) counts of the values.
        sigma, scales: as for `GaussianCells`.
    """

    def __init__(
        self,
        values: Floats,
        support: tuple[float, float],
        memory: Floats,
        sigma: float,
        scales: Scales,
    ) -> None:
        self.low, self.width = support[0], support[1] - support[0]
        self.values, self.counts = values, memory.copy()
        scaled = (values - self.low) / self.width
        # The ends of the interval may miss 0 and 1 by a rounding error.
        self.bets = Bets(
            np.where(np.abs(scaled - 0.5) < 0.5 + 1e-12, np.clip(scaled, 0, 1), scaled)
        )
        n = self.counts.sum(axis=-1)
        self._plain = GaussianCells(
            sigma, scales, np.stack([n, self.counts @ values / np.maximum(n, 1)], axis=-1)
        )
        self.n, self.mean = self._plain.n, self._plain.mean
        self.slack = 5.0

    def pull(
        self, block: Source, rows: Ints, columns: Ints, times: Ints | int, arms: Ints | None = None
    ) -> None:
        self.counts[rows, columns] += block.pull_counts(
            rows, columns if arms is None else arms, times
        )
        self.n[rows, columns] += times
        self.mean[rows, columns] = self.counts[rows, columns] @ self.values / self.n[rows, columns]

    def shows(
        self,
        row_a: Ints,
        a: Ints,
        row_b: Ints,
        b: Ints,
        shift: Any,
        level: Any,
        other: Cells | None = None,
    ) -> np.ndarray:
        with_ = self if other is None else other
        assert isinstance(with_, BettingCells)
        shown = self._plain.shows(row_a, a, row_b, b, shift, level - np.log(PLAIN), with_._plain)
        n_a, n_b = self.n[row_a, a], with_.n[row_b, b]
        d = with_.mean[row_b, b] + shift - self.mean[row_a, a]
        level, shift = (
            np.broadcast_to(level - np.log(1 - PLAIN), d.shape),
            np.broadcast_to(shift, d.shape),
        )
        counts_a, counts_b = self.counts[row_a, a], with_.counts[row_b, b]
        noise_a = self._variance(counts_a) / np.maximum(n_a, 1)
        noise_b = self._variance(counts_b) / np.maximum(n_b, 1)
        # As normal laws would have it, and one part in ten more: where that is too little the bets
        # are not worked out.
        hope = (
            ~shown & (d > 0) & (0.55 * d * d >= level * (noise_a + noise_b)) & (n_a > 0) & (n_b > 0)
        )
        if hope.any():
            share, level = noise_a[hope] / (noise_a + noise_b)[hope], level[hope]
            evidence = self.bets.pair(
                counts_a[hope], counts_b[hope], shift[hope] / self.width, share, level
            )
            shown[hope] = evidence >= level
        return shown

    def side(
        self, row: Ints, column: Ints, bound: Any, up: Any, worth: Any = np.inf, rho: Any = None
    ) -> Floats:
        if np.any(np.isfinite(worth)):
            raise ValueError(
                "bounded rewards are compared with bounds on a mean, not with averages"
            )
        scaled = np.broadcast_to(
            np.clip((np.asarray(bound) - self.low) / self.width, 0, 1), row.shape
        )
        counts = self.counts[row, column]
        return np.where(up, self.bets.above(counts, scaled), self.bets.below(counts, scaled))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """(R, K) lower and upper bounds on the means, each wrong at any time ever with probability
        e^−level.
        """
        low, high = self.bets.interval(self.counts, level)
        return self.low + self.width * low, self.low + self.width * high

    def keep(self, rows: np.ndarray) -> None:
        self.counts = self.counts[rows]
        self._plain.keep(rows)
        self.n, self.mean = self._plain.n, self._plain.mean

    def variance(self) -> Floats:
        return self._variance(self.counts)

    def _variance(self, counts: Floats) -> Floats:
        """(...) of the empirical law of counts (..., S), mixed with the uniform one while there are
        few.
        """
        share = counts + PRIOR / self.values.size
        share /= share.sum(axis=-1, keepdims=True)
        return share @ self.values**2 - (share @ self.values) ** 2

    @property
    def memory(self) -> Floats:
        return self.counts.copy()


def bounded(problem: Problem, values: Floats | None) -> bool:
    """Whether betting is possible: the support is told, and rewards take finitely many values
    inside it.
    """
    return problem.support is not None and values is not None


def make_cells(
    problem: Problem,
    values: Floats | None,
    scales: Scales,
    memory: Floats | tuple[int, int],
    unit: float = 1.0,
) -> Cells:
    """Cells of the right kind for the rewards of `problem`, empty (R, K) or from memory; rewards in
    units of `unit`.
    """
    if problem.support is not None and values is not None:
        empty = (*memory, values.size) if isinstance(memory, tuple) else None
        support = (problem.support[0] / unit, problem.support[1] / unit)
        kept = np.zeros(empty) if empty else np.asarray(memory)
        return BettingCells(values / unit, support, kept, problem.sigma / unit, scales)
    empty = (*memory, 2) if isinstance(memory, tuple) else None
    return GaussianCells(
        problem.sigma / unit, scales, np.zeros(empty) if empty else np.asarray(memory), unit
    )
