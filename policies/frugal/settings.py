"""FrugalBAI: its settings, the levels of its tests, and what agents keep between programs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import ceil, exp, log
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.federation import Block
from clustered_bandit_gym.game.payloads import Payload, Quantised
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.sequential.cells import Cells, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales
from clustered_bandit_gym.policies.structured.budget import LIKELY, retry_weight

#: Bets serve differences down to this part of the interval: any mean is half of it or more away from
#: one of two numbers, where the smallest bet wins more than it loses whatever the variance.
FINEST = 1e-3


class Stuck(Exception):
    """StructuredBAI has to play: a representative is missing, or it has no best arm of its own."""


@dataclass(frozen=True)
class Settings:
    """Constants. The shares matter for correctness, all others for pulls and bits only."""

    # Shares: the first is of δ, the others are of the rest, δ' = 0.95δ.
    fallback: float = 0.05  # StructuredBAI, which plays if this policy gets stuck
    beaten: float = 0.48  # a representative's best arm is shown worse than another one
    close: float = 0.10  # another cluster's best arm is shown less than η worse than the best
    distinct: float = 0.02  # two representatives of one cluster are shown to differ
    bound: float = 0.02  # an end of an interval that holds a mean is wrong
    classify: float = 0.38  # an agent makes a false claim against its own cluster
    # Discovery.
    sketch_arms: int = 12  # arms in a sketch
    few: int = 8  # up to so many clusters, sketches are finer and a tree is tried
    # Representatives and agents.
    look: float = 0.12  # a test is looked at again once its pulls have grown by this part
    patience: float = 10.0  # searches and tests against averages end at so many times the plan
    codes: int = 64  # size of the alphabets of messages: stages, efforts, distances


SETTINGS = Settings()


class Levels:
    """Levels of all tests in nats, ln(1/α), sketches and references: functions of what everybody
    knows.

    References are means at representatives. The average R of n pulls of a mean μ has the e-process
    exp(½ñ(R − μ)²)/√(1 + n/ρ), with ρ fixed and ñ = n²/(n + ρ). Agents assume `worth(gap)` ≤ ñ
    instead of ñ, and pay `price` ≥ ½ln(1 + n/ρ) for it: they never claim more evidence than that.
    If `bounded`, references are intervals, and there is nothing to pay.

    Args:
        growth: pulls of sketches grow by this factor from stage to stage.
        choice: number of the choice of representatives, from 1; agents' levels do not depend on it.
        bounded: whether tests of agents bet on rewards with finitely many values in an interval.

    Attributes:
        m, eta: M and η.
        noise: σ/η: about 2·noise² pulls for each nat tell a difference of η.
        name: under which representatives keep what they see.
        sketch: (d,) the arms of a sketch, spread evenly.
        sketch_pulls: pulls of each of them, stage by stage.
        drawn: agents that send the first sketches: clusters of one size are all met with 95%.
        beaten: M representatives, K − 1 arms that could be shown better than the best one.
        close: M representatives, M − 1 best arms of other clusters.
        distinct: pairs of representatives, arms of a sketch.
        bound: two ends for each arm of a sketch, or for the best arm, at each representative.
        agent: N agents, M − 1 tests in which one can err: the tree, or the list without one.
        agent_again: the same for the list after a tree.
        height: N agents, one test each before the list. It shares the budget with `agent`.
        ratio: pulls of a reference over those of an agent: about what makes the sum least.
        least: the smallest difference that references serve.
        gaps: differences that they are made for.
        fine: ends of intervals, from `low` to `high`; each fourth is a threshold.
    """

    rho = 0.0
    price = 0.0

    def __init__(self, problem: Problem, growth: float, choice: int, bounded: bool) -> None:
        m = problem.n_clusters
        k = problem.n_arms
        n = problem.n_agents
        eta = problem.eta
        assert m
        assert eta
        self.problem = problem
        self.choice = choice
        self.m = m
        self.eta = eta
        self.noise = problem.sigma / eta
        self.name = f"representative {choice}"
        s = SETTINGS
        d = s.sketch_arms
        self.sketch: Ints = np.arange(min(k, d)) * k // min(k, d)
        self.drawn = min(n, ceil(m * (log(m) + 3)) + 2)
        delta = problem.delta * (1 - s.fallback)
        chosen = delta * retry_weight(choice)
        self.beaten = log(m * (k - 1) / (s.beaten * chosen))
        self.close = log(m * (m - 1) / (s.close * chosen))
        self.distinct = log(m * (m - 1) / 2 * d / (s.distinct * chosen))
        self.bound = log(2 * m * d / (s.bound * chosen))
        agents = n * (m - 1) / (s.classify * delta)
        self.agent = log(agents / LIKELY)
        self.agent_again = log(agents / (1 - LIKELY))
        self.height = log(n / (s.classify * delta * (1 - LIKELY)))
        # The first sketches take, in all, about the pulls that the representatives' K·M arms are
        # going to take if arms differ by √(ση), and fewer for few clusters.
        hard = min(max(self.noise, 0.25), 0.35 * m)
        first = max(4, ceil(hard * k * m * self.beaten / (self.sketch.size * self.drawn)))
        self.sketch_pulls = [first * growth**stage for stage in range(s.codes)]
        self.bounded = bounded
        support = problem.support if bounded else None
        self.low, self.high = support or (-6 * problem.sigma, 6 * problem.sigma)
        half = (self.high - self.low) / 2
        self.least = max(eta / 2, 2 * FINEST * half if bounded else 0.0)
        self.ratio = max(4.0, (1.3 * (n / m)) ** (2 / 3) if bounded else (n / m) ** 0.5)
        if not bounded:
            self.rho = min(32.0, self.pulls(eta) / 16)
            self.price = 0.5 * log(1 + (self.pulls(eta / 2) + 1) / self.rho)
        self.gaps = np.geomspace(eta / 2, max(eta, half), s.codes // 2)
        self.fine = np.linspace(self.low, self.high, 2045)

    def pulls(self, gap: Any, variance: Any = np.inf) -> Any:
        """Pulls of a reference for differences of `gap`."""
        sigma = self.problem.sigma
        level = self.agent + 3  # mixing costs about 3 nats
        noise = np.minimum(variance + sigma * gap / 3, sigma**2)
        return np.maximum(self.ratio * 2 * level * noise / gap**2, 2 * self.rho)

    def worth(self, gap: Floats) -> Floats:
        """At most ñ of an average that was made for differences of `gap` or smaller ones."""
        n = np.floor(self.pulls(gap))
        return n * n / (n + self.rho)

    def threshold(self, low: float, high: float, least: float, n: int) -> tuple[Payload, ...]:
        """For n agents: a threshold ≥ `low`, and at most the distance from it to `high`.

        Nothing if it cannot be sent (with averages, |low| > 6σ), or the distance is below `least`.
        """
        if not self.low <= low <= self.high:
            return ()
        threshold = Quantised(np.full(n, low), self.fine[::4], "up")
        distance = high - threshold.values[0]
        # Rounding errors: threshold + gap must not exceed `high`.
        distance -= 1e-9 * distance + 1e-15 * abs(high)
        gap = self.gaps[self.gaps <= distance].max(initial=0.0)
        if gap < max(least, self.least):
            return ()
        return threshold, Quantised(np.full(n, gap), self.gaps, "nearest")


def recall(
    block: Block, levels: Levels, name: str = "", columns: int | None = None, gap: float = 0.5
) -> Cells:
    """The cells that agents keep under `name`; without pulls at first, or without name.

    They are (n, columns), or (n, K). Their tests are tuned to differences of `gap`·η.
    """
    pulls = 2 * levels.agent * (levels.noise / gap) ** 2
    scales = Scales(pulls, exp(-levels.agent))
    memory = np.zeros((len(block), columns or block.problem.n_arms, 1))
    with suppress(KeyError):  # nothing is saved yet
        memory = block.load(name)
    return make_cells(block.problem, block.values, scales, memory)


def top_up(block: Block, cells: Cells, goal: Floats | float, arms: Ints | None = None) -> None:
    """Bring cells (n, columns) to `goal` pulls, which broadcasts. `arms`: those of the columns, if
    not all arms."""
    missing = np.ceil(goal - cells.n)
    row, column = np.nonzero(missing > 0)
    times = missing[row, column].astype(int)
    cells.pull(block, row, column, times, None if arms is None else arms[column])
