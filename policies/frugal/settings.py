"""FrugalBAI: its settings, the levels of its tests, and what agents keep between programs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import ceil, exp, log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.federation import Block
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.sequential.cells import Cells, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales
from clustered_bandit_gym.policies.structured.budget import LIKELY, retry_weight


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
    """Levels of all tests in nats, ln(1/α), and sketches: functions of what everybody knows.

    Args:
        growth: pulls of sketches grow by this factor from stage to stage.
        choice: number of the choice of representatives, from 1; agents' levels do not depend on it.

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
    """

    def __init__(self, problem: Problem, growth: float, choice: int) -> None:
        m = problem.n_clusters
        k = problem.n_arms
        n = problem.n_agents
        assert m
        assert problem.eta
        self.problem = problem
        self.choice = choice
        self.m = m
        self.eta = problem.eta
        self.noise = problem.sigma / problem.eta
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
    times = missing[row, column].astype(np.int64)
    cells.pull(block, row, column, times, None if arms is None else arms[column])
