"""Every constant of FrugalBAI, and the levels of its tests."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

from clustered_bandit_gym.game.problem import Problem


@dataclass(frozen=True)
class Settings:
    """Constants. The shares of δ matter for correctness, all others for pulls and bits only."""

    # Shares: of δ for the attempts (StructuredBAI has the rest), then of an attempt.
    attempts: tuple[float, ...] = (0.90, 0.05)  # the first and the second attempt
    beaten: float = 0.48  # a representative's best arm is shown worse than another one
    close: float = 0.10  # another cluster's best arm is shown less than η worse than the best
    distinct: float = 0.02  # two representatives of one cluster are shown to differ
    bound: float = 0.02  # an end of an interval that holds a mean is wrong
    classify: float = 0.38  # an agent rejects its own cluster
    likely: float = 0.9  # part of a share that the first of several tries gets
    # Discovery.
    sketch_arms: int = 12  # arms in a sketch
    first: float = 0.35  # size of the first sketches, over what representatives' arms take
    growth: float = 4.0  # factor of pulls from a stage of sketches to the next: the knob
    few: int = 8  # up to so many clusters, sketches are finer and a tree is tried
    apart: float = 4.2  # standard deviations between the closest groups of sketches
    alike: float = 2.5  # representatives look alike if they differ by fewer standard deviations
    enough: float = 16.0  # sketches end at so many (σ/η)² pulls of an arm
    noise: float = 1.6  # a sketch shows nothing if its variance is below this times that of noise
    lead: float = 12.0  # nats, beyond ln K, by which an arm must lead in a search
    named: float = 3.0  # the same for an arm that another agent named before
    # Representatives and agents.
    start: int = 12  # first pulls of each arm at a representative
    effort: float = 1.5  # factor of the representatives' effort from one exchange to the next
    look: float = 0.12  # tests are looked at again after so many times the pulls, at least
    settle: int = 8  # representatives begin to exchange facts with so few arms left
    patience: float = 10.0  # searches and tests against averages end at so many times the plan
    slack: float = 3.0  # nats that mixing costs, roughly, for plans
    dearer: float = 1.2  # a tree is used if a list is forecast to take so many times its pulls
    codes: int = 64  # size of the alphabets of messages: stages, efforts, distances

    def weight(self, number: int) -> float:
        """Part of a share that try `number` gets, from 1. They sum to one."""
        return self.likely if number == 1 else (1 - self.likely) / ((number - 1) * number)


@dataclass(frozen=True)
class Levels:
    """Levels of all tests in nats, ln(1/α), for one choice of representatives.

    They are functions of what everybody knows: the problem, the attempt (from 0) and the number of
    the choice within it (from 1).
    """

    problem: Problem
    settings: Settings
    attempt: int
    number: int

    @property
    def m(self) -> int:
        """M, the number of clusters."""
        assert self.problem.n_clusters is not None
        return self.problem.n_clusters

    @property
    def eta(self) -> float:
        assert self.problem.eta is not None
        return self.problem.eta

    @property
    def delta(self) -> float:
        """The part of δ that this choice of representatives has: δ' on the page with the proof."""
        s = self.settings
        return self.problem.delta * s.attempts[self.attempt] * s.weight(self.number)

    @property
    def beaten(self) -> float:
        """M representatives, K − 1 arms that could be shown better than the best one."""
        return self._level(self.settings.beaten, self.m * (self.problem.n_arms - 1))

    @property
    def close(self) -> float:
        """M representatives, M − 1 best arms of other clusters."""
        return self._level(self.settings.close, self.m * (self.m - 1))

    @property
    def distinct(self) -> float:
        """Pairs of representatives, arms of a sketch."""
        pairs = self.m * (self.m - 1) // 2
        return self._level(self.settings.distinct, pairs * self.settings.sketch_arms)

    @property
    def bound(self) -> float:
        """Two bounds for each arm of a sketch, or for the best arm, at each representative."""
        return self._level(self.settings.bound, 2 * self.m * self.settings.sketch_arms)

    def agent(self, number: int) -> float:
        """N agents, M − 1 tests in which one can reject its cluster in its try `number`, from 1."""
        share = self.settings.classify * self.settings.weight(number)
        return self._level(share, self.problem.n_agents * (self.m - 1))

    def _level(self, share: float, tests: int) -> float:
        return log(max(1, tests) / (share * self.delta))


def drawn_at_first(m: int) -> int:
    """Agents that send the first sketches.

    If clusters are of one size, they miss one of them with probability e^−3 = 5% at most.
    """
    return ceil(m * (log(m) + 3))
