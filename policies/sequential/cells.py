"""What agents have seen of their arms, and what that shows, for all kinds of rewards.

A *cell* is all pulls of one arm at one agent; tables of cells are (R, K). "Shown at level L" means
that an e-process for the opposite has reached e^L, which ever happens with probability at most e^−L
if the opposite is true, whatever was pulled when and however often one looked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.game.federation import Block, FederationView
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.sequential.betting import Bets
from clustered_bandit_gym.policies.sequential.boundaries import (
    half_normal,
    half_normal_pair,
)
from clustered_bandit_gym.policies.sequential.scales import Scales

#: Weight of the sub-Gaussian test beside the bets. Betting costs ln(1/0.7) = 0.4 nats more for it.
PLAIN = 0.3
#: Pairs whose bets are worked out at once: tables of this size stay in the processor's cache. On the
#: suite's movies half and twice as many take a sixth more time.
PAIRS = 128
#: Cells: (P,) rows and (P,) columns.
At = tuple[Ints, Ints]


class Cells:
    """Pulls of K arms at R agents, for σ-sub-Gaussian rewards: half-normal mixtures on a grid of ρ.

    Args:
        sigma: σ, in the same unit as averages.
        scales: the grid, fixed before the data, in pulls.
        memory: (R, K, 2) pulls and averages so far, or zeros (R, K, 1) for empty cells.
        unit: rewards are divided by it.

    Attributes:
        n: (R, K) pulls.
        mean: (R, K) averages, 0 where there are none.
        slack: nats that mixing costs, roughly: for plans only.
        bets: whether the tests bet (`BettingCells`).
    """

    slack = 3.0
    bets = False

    def __init__(self, sigma: float, scales: Scales, memory: Floats, unit: float = 1.0) -> None:
        self.sigma = sigma
        self.scales = scales
        self.unit = unit
        self.n = memory[..., 0].copy()
        self.mean = memory[..., -1].copy()

    def pull(
        self,
        source: Block | FederationView,
        rows: Ints,
        columns: Ints,
        times: Ints | int,
        arms: Ints | None = None,
        agents: Ints | None = None,
    ) -> None:
        """`times` fresh pulls for cells (row, column), each at most once: arrays that broadcast.

        The arm of a cell is its column, or what `arms` says where a table holds some arms only. Its
        agent is its row of the source, or what `agents` says.
        """
        if rows.size:
            draw = source.pull_counts if self.bets else source.pull
            arms = columns if arms is None else arms
            agents = rows if agents is None else agents
            self._add((rows, columns), times, draw(agents, arms, times))

    def _add(self, at: At, times: Any, averages: Any) -> None:
        n = self.n[at]
        mean = self.mean[at]
        self.mean[at] = (averages / self.unit - mean) * (times / (n + times)) + mean
        self.n[at] = n + times

    def shows(self, a: At, b: At, shift: Any, level: Any, other: Any = None) -> Bools:
        """(P,) whether the mean of cell `a` is shown to be less than that of cell `b` plus `shift`.

        `b` is a cell of `other`, a table of the same kind, where one is given. `level` is positive.
        """
        other = self if other is None else other
        n_a = self.n[a]
        n_b = other.n[b]
        d = (other.mean[b] + shift - self.mean[a]) / self.sigma
        level = np.broadcast_to(level, d.shape)
        # Mixing costs something, so what does not even reach the level without it is not looked at.
        hope = (d > 0) & (0.5 * d * d * (n_a * n_b) > level * (n_a + n_b))
        shown = np.zeros(d.shape, dtype=bool)
        if hope.any():
            n_a = n_a[hope]
            n_b = n_b[hope]
            rho, weight = self.scales.at(np.minimum(n_a, n_b))
            needed = level[hope] - weight
            shown[hope] = half_normal_pair(d[hope], n_a, n_b, rho) >= needed
        return shown

    def shows_worse(self, rows: Ints, arm: Ints, shift: float, level: Any, among: Bools) -> Bools:
        """(n, K) arms of `among` (n, K) shown to be less than arm[i] plus `shift` at rows[i].

        `level` is one number, or (n,).
        """
        index, other = np.nonzero(among)
        level = np.broadcast_to(level, rows.shape)[index]
        shown = np.zeros(among.shape, dtype=bool)
        own = rows[index]
        shown[index, other] = self.shows((own, other), (own, arm[index]), shift, level)
        return shown

    def not_yet_close(
        self, row: Ints, arm: Ints, leader: Ints, live: Bools, eta: float, level: Any
    ) -> tuple[Ints, Ints, Bools]:
        """Those of the cells (row, arm), (P,) each, that are shown less than η worse than the leader.

        With each, (P, K) the other live arms that it is not yet shown less than η worse than.

        Args:
            leader: (R,) the live arm with the highest average.
            live: (R, K) arms that may be the best.
            level: nats, one number or (R,).
        """
        level = np.broadcast_to(level, leader.shape)
        # The leader is the hardest to be close to, for most arms: it is tried first.
        near = self.shows((row, leader[row]), (row, arm), eta, level[row])
        near |= arm == leader[row]
        row = row[near]
        arm = arm[near]
        return row, arm, not_shown_worse(self, row, arm, eta, level[row], live[row])

    def side(self, bound: Floats, up: Bools, worth: Floats, rho: Floats) -> Floats:
        """(R,) evidence that the mean of the first column is above (`up`) or below `bound`, in nats.

        All arguments are (R,).

        Args:
            worth: the bound is another cell's average, worth that many pulls, or a number (inf).
            rho: ρ of the mixture, fixed before the data.
        """
        # A bound that is the average R of a stream worth w pulls: the least value over its mean μ
        # of ½w(R − μ)² + λn(m − μ) − ½λ²n is λn(m − R) − ½λ²(n + n²/w), the walk of a larger
        # variance.
        n = self.n[:, 0]
        walk = np.where(up, 1.0, -1.0) * n * (self.mean[:, 0] - bound) / self.sigma
        return half_normal(walk, n * (1 + n / worth), rho)

    def variance(self) -> Floats:
        """(R, K) a guess of the variance of one pull, for plans only."""
        return np.full(self.n.shape, self.sigma**2)

    @property
    def memory(self) -> Floats:
        """(R, K, ...) all that is known, to be kept by the agents; the constructor takes it back."""
        return np.stack([self.n, self.mean], axis=-1)


class BettingCells(Cells):
    """Rewards with finitely many values in a told interval; betting.

    Two arms are compared by two tests that share the level: bets, which adapt to the variance, and
    with the share `PLAIN` the mixtures of `Cells`, which need fewer nats and are better where the
    variance is the largest possible.

    Args:
        values: (S,) the values.
        support: the interval.
        memory: (R, K, S) counts of the values, or zeros (R, K, 1).
        sigma, scales: as for `Cells`.
    """

    slack = 5.0
    bets = True

    def __init__(
        self,
        values: Floats,
        support: tuple[float, float],
        memory: Floats,
        sigma: float,
        scales: Scales,
    ) -> None:
        self.low = support[0]
        self.width = support[1] - support[0]
        self.values = values
        self.counts = memory + np.zeros(values.size)
        self.wealth = Bets((values - self.low) / self.width)
        super().__init__(sigma, scales, memory)
        self.n = self.counts.sum(axis=-1)
        self.mean = self.counts @ values / np.maximum(self.n, 1)

    def _add(self, at: At, times: Any, counts: Any) -> None:
        self.counts[at] += counts
        self.n[at] += times
        self.mean[at] = self.counts[at] @ self.values / self.n[at]

    def shows(self, a: At, b: At, shift: Any, level: Any, other: Any = None) -> Bools:
        other = self if other is None else other
        shown = super().shows(a, b, shift, level - np.log(PLAIN), other)
        d = other.mean[b] + shift - self.mean[a]
        level = level - np.log(1 - PLAIN)
        _, level, shift = np.broadcast_arrays(d, level, shift / self.width)
        counts_a = self.counts[a]
        counts_b = other.counts[b]
        n_a = self.n[a]
        n_b = other.n[b]
        noise_a = self._variance(counts_a) / np.maximum(n_a, 1)
        noise = noise_a + self._variance(counts_b) / np.maximum(n_b, 1)
        # As normal laws would have it, and one part in ten more: where that is too little the bets
        # are not worked out.
        hope = ~shown & (d > 0) & (0.55 * d * d >= level * noise) & (n_a > 0) & (n_b > 0)
        share = noise_a / np.where(hope, noise, 1.0)
        pairs = np.flatnonzero(hope)
        for start in range(0, pairs.size, PAIRS):
            i = pairs[start : start + PAIRS]
            evidence = self.wealth.pair(counts_a[i], counts_b[i], shift[i], share[i], level[i])
            shown[i] = evidence >= level[i]
        return shown

    def side(self, bound: Floats, up: Bools, worth: Floats, rho: Floats) -> Floats:
        """As for `Cells`, for a `bound` that is a number: it takes no `worth` and no `rho`."""
        scaled = np.clip((bound - self.low) / self.width, 0, 1)
        return self.wealth.evidence(self.counts[:, 0], scaled, up)

    def interval(self, level: float) -> Floats:
        """(2, R, K) bounds on the means from below and above, each ever wrong with probability
        e^−level."""
        return self.low + self.width * self.wealth.interval(self.counts, level)

    def variance(self) -> Floats:
        return self._variance(self.counts)

    def _variance(self, counts: Floats) -> Floats:
        """(...) of the empirical law of counts (..., S) and half a pull of the uniform law."""
        share = counts + 0.5 / self.values.size
        share /= share.sum(axis=-1, keepdims=True)
        return share @ self.values**2 - (share @ self.values) ** 2

    @property
    def memory(self) -> Floats:
        return self.counts.copy()


def not_shown_worse(
    tests: Any, rows: Ints, arm: Ints, shift: float, level: Any, among: Bools
) -> Bools:
    """(n, K) arms of `among` (n, K) other than arm[i] that `tests`, cells or walks, do not show to
    be less than arm[i] plus `shift` at rows[i]."""
    others = among & (np.arange(among.shape[1]) != arm[:, None])
    return others & ~tests.shows_worse(rows, arm, shift, level, others)


def leaders(mean: Floats, among: Bools) -> Ints:
    """(n,) of each row, the arm of `among` (n, K) with the highest average."""
    return np.where(among, mean, -np.inf).argmax(axis=1)


def leader_pulls(pulls: Floats) -> Floats:
    """(n,) the pulls of a leader that make the sum of all pulls least, if the arms that it is
    compared with get `pulls` (n, K)."""
    return np.sqrt((pulls**2).sum(axis=1))


def make_cells(
    problem: Problem,
    values: Floats | None,
    scales: Scales,
    memory: Floats,
    unit: float = 1.0,
) -> Cells:
    """Cells for the rewards of `problem` in units of `unit`, from memory."""
    sigma = problem.sigma / unit
    support = problem.support
    if support is None or values is None:
        return Cells(sigma, scales, memory, unit)
    interval = (support[0] / unit, support[1] / unit)
    return BettingCells(values / unit, interval, memory, sigma, scales)


def block_cells(block: Block, n_arms: int, scales: Scales | None = None) -> Cells:
    """Empty cells (n, `n_arms`) of the agents of `block`; averages are divided by σ."""
    scales = scales or Scales(100.0, 0.1)
    memory = np.zeros((len(block), n_arms, 1))
    return make_cells(block.problem, block.values, scales, memory, block.problem.sigma)
