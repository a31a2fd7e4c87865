"""Where the pulls of a tilted play come from, and what every likelihood ratio of that play needs.

An agent is addressed by its *role*: its cluster, and its rank among the agents of the cluster in
the order of their first pulls. Time is the agent's own *clock*, the number of draws it took part
in; draws are grouped into windows, single draws at first and then longer and longer stretches.
Role, clock and gate are functions of what was drawn before, so the law of each draw given the past
is known when it is made: the ratio of a whole play is the product over its draws, whatever the
policy does and whenever it stops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import BudgetExceeded
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.pulls import Kind
from research.rare.tilt import Law

#: The first draws of an agent are windows of their own; then a window is this much longer than all
#: before it.
SINGLE, GROWTH = 16, 1.35
#: Windows that can be tilted: about 240,000 draws of an agent. Later draws keep their own law.
WINDOWS = 48
#: The best arm is in play while it has been pulled at least this share as often as the agent's most
#: pulled arm.
IN_PLAY = 0.9

_STARTS = np.floor(SINGLE * GROWTH ** np.arange(WINDOWS - SINGLE + 1)).astype(np.int64)


def window_of(clock: Ints) -> Ints:
    """The window of a draw, from the number of draws before it; `WINDOWS` beyond the last one."""
    return np.where(
        clock < SINGLE, clock, SINGLE - 1 + np.searchsorted(_STARTS, clock, side="right")
    )


def _flat(values: Ints, shape: tuple[int, ...]) -> Ints:
    """`values`, broadcast to `shape`, as a vector; without a copy where nothing is to be broadcast."""
    return values.ravel() if values.shape == shape else np.broadcast_to(values, shape).ravel()


def first_draw(window: int) -> int:
    """The number of draws before the first one of a window."""
    return window if window < SINGLE else int(_STARTS[window - SINGLE])


@dataclass(frozen=True)
class Tilt:
    """θ (WINDOWS, K) for the agent of one role; `gated`: only while the agent's best arm is in
    play.
    """

    cluster: int
    rank: int
    theta: Floats
    gated: bool


class TiltedSource:
    """Pulls of an instance, tilted for some roles, with a record of what was drawn.

    Args:
        instance, law: the truth and its tilts.
        rng: the stream of rewards.
        tilts: what is tilted. None: nothing, a natural play that is recorded.
        heat: variance of the noise, as a multiple of the natural one. For pilot plays; no ratio
            exists beside 1.
        max_pulls: `BudgetExceeded` beyond.

    Attributes:
        ranks: (N,) rank of each agent in its cluster by first pull, −1 before it.
        log_ratio: ln dQ/dP of the tilts so far, summed while playing.
        pulls: pulls drawn.
    """

    def __init__(
        self,
        instance: Instance,
        law: Law,
        rng: np.random.Generator,
        tilts: tuple[Tilt, ...] = (),
        *,
        heat: float = 1.0,
        max_pulls: float = np.inf,
    ) -> None:
        n_agents, n_arms = instance.n_agents, instance.n_arms
        self._instance, self._law, self._rng = instance, law, rng
        self._tilts, self._heat, self._max_pulls = tilts, heat, max_pulls
        self._best = instance.agent_best_arms
        self._clock = np.zeros(n_agents, dtype=np.int64)
        self._seen = np.zeros(instance.n_clusters, dtype=np.int64)
        self._counts = np.zeros((n_agents, n_arms))
        self._without_best = np.zeros(
            n_agents, dtype=np.int64
        )  # draws in a row without the agent's best arm
        # Axis 0: gate closed, gate open.
        self._times = np.zeros((2, n_agents, WINDOWS, n_arms))
        self._sums = np.zeros((2, n_agents, WINDOWS, n_arms))
        self.ranks: Ints = np.full(n_agents, -1)
        self.log_ratio = 0.0
        self.pulls = 0.0

    def record(self, gated: bool) -> tuple[Floats, Floats]:
        """Pulls and centred sums (N, WINDOWS, K); with `gated` those with an open gate only."""
        if gated:
            return self._times[1], self._sums[1]
        return self._times.sum(axis=0), self._sums.sum(axis=0)

    def draw(self, agents: Ints, arms: Ints, times: Ints | int, kind: Kind) -> np.ndarray:
        """`times` pulls of `arms` at `agents`, integer arrays that broadcast: "averages", or
        "counts" of the reward model's values, (..., S).
        """
        shape, averages, counts = self._draw(agents, arms, times)
        if kind == "averages":
            return averages.reshape(shape)
        if counts is None:
            raise ValueError("these rewards take infinitely many values and cannot be counted")
        return counts.reshape(*shape, -1)

    def _draw(
        self, agents: Ints, arms: Ints, times: Ints | int
    ) -> tuple[tuple[int, ...], Floats, Ints | None]:
        """The shape of a request, its averages (R,) and, of rewards with finitely many values,
        their counts (R, S).
        """
        shape = np.broadcast(agents, arms, times).shape
        ids, arm_ids, n = (
            _flat(agents, shape),
            _flat(arms, shape),
            _flat(np.asarray(times, dtype=np.int64), shape),
        )
        pulls = n.astype(np.float64)  # `np.add.at` is several times faster without a conversion
        self.pulls += float(pulls.sum())
        if self.pulls > self._max_pulls:
            raise BudgetExceeded(f"this play would exceed {self._max_pulls:.3g} pulls")
        clusters = self._instance.clusters[ids]
        rewards, means = self._instance.rewards, self._instance.means[clusters, arm_ids]
        window, gate = self._enter(ids, arm_ids, pulls)
        counts = None
        if rewards.values is None:
            averages = rewards.average(self._rng, self._instance.means, clusters, arm_ids, n)
            if self._heat != 1:
                averages = means + (averages - means) * np.sqrt(self._heat)
        else:
            counts = self._counted(clusters, arm_ids, n)
            averages = counts @ rewards.values / n
        for tilt in self._tilts:
            self._tilt(tilt, ids, arm_ids, n, window, gate, averages, counts)
        # One flat index for both tables: the record of a draw costs about as much as the draw.
        where = (
            (gate * self._clock.size + ids) * WINDOWS + window
        ) * self._instance.n_arms + arm_ids
        sums = (averages - means) * pulls
        if window.max(initial=0) >= WINDOWS:
            kept = window < WINDOWS
            where, pulls, sums = where[kept], pulls[kept], sums[kept]
        np.add.at(self._times.reshape(-1), where, pulls)
        np.add.at(self._sums.reshape(-1), where, sums)
        return shape, averages, counts

    def single(self, agent: int, arm: int) -> float:
        """One pull."""
        return float(self.draw(np.array([agent]), np.array([arm]), 1, "averages")[0])

    def _enter(self, ids: Ints, arms: Ints, pulls: Floats) -> tuple[Ints, np.ndarray]:
        """Advance clocks, roles and gates for a draw at the agents of `ids`; window and gate of
        each row.

        The gate of an agent is open while its best arm is in play: pulled in this draw or the one
        before, or about as often as any other arm so far. A tilt after the best arm has been
        dropped only adds noise.
        """
        takes_part = np.zeros(self._clock.size, dtype=np.bool_)
        takes_part[ids] = True
        who = np.flatnonzero(takes_part)
        clock = self._clock[who]
        fresh = who[clock == 0]
        if fresh.size:
            clusters = self._instance.clusters[fresh]
            order = np.argsort(clusters, kind="stable")
            grouped = clusters[order]
            within = np.arange(fresh.size) - np.searchsorted(grouped, grouped)
            self.ranks[fresh[order]] = self._seen[grouped] + within
            np.add.at(self._seen, clusters, 1)
        best = self._best
        self._without_best[who] += 1
        self._without_best[ids[arms == best[ids]]] = 0
        counts = self._counts[who]
        leading = counts[np.arange(who.size), best[who]] >= IN_PLAY * counts.max(axis=1)
        is_open = np.zeros(self._clock.size, dtype=np.bool_)
        is_open[who] = (self._without_best[who] <= 1) | leading
        np.add.at(self._counts.reshape(-1), ids * self._instance.n_arms + arms, pulls)
        window = np.zeros(self._clock.size, dtype=np.int64)
        window[who] = window_of(clock)
        self._clock[who] += 1
        return window[ids], is_open[ids]

    def _tilt(
        self,
        tilt: Tilt,
        ids: Ints,
        arms: Ints,
        times: Ints,
        window: Ints,
        gate: np.ndarray,
        averages: Floats,
        counts: Ints | None,
    ) -> None:
        """Redraw, in place, the rows of the agent that has the tilted role."""
        has_role = (self.ranks == tilt.rank) & (self._instance.clusters == tilt.cluster)
        rows = np.flatnonzero(has_role[ids] & (window < WINDOWS))
        if tilt.gated:
            rows = rows[gate[rows]]
        theta = tilt.theta[window[rows], arms[rows]]
        rows, theta = rows[theta != 0], theta[theta != 0]
        if not rows.size:
            return
        m, k, n = self._instance.clusters[ids[rows]], arms[rows], times[rows]
        drawn = self._law.draw(self._rng, m, k, n, theta)
        values = self._instance.rewards.values
        if counts is None or values is None:
            averages[rows] = drawn
        else:
            counts[rows] = drawn
            averages[rows] = counts[rows] @ values / n
        centred = (averages[rows] - self._instance.means[m, k]) * n
        self.log_ratio += float((theta * centred - n * self._law.cumulant(theta, m, k)).sum())

    def _counted(self, clusters: Ints, arms: Ints, times: Ints) -> Ints:
        """How often each of finitely many values comes up, (R, S)."""
        if self._heat == 1:
            return self._instance.rewards.counts(
                self._rng, self._instance.means, clusters, arms, times
            )
        # Bounded rewards: their mean is moved at random, by as much as the missing noise would have
        # moved the average.
        shift = (
            self._law.sigma
            * np.sqrt((self._heat - 1) / times)
            * self._rng.standard_normal(times.size)
        )
        drawn = self._law.draw(
            self._rng, clusters, arms, times, self._law.theta(shift, clusters, arms)
        )
        return np.asarray(drawn, dtype=np.int64)
