"""Every constant of FrugalBAI, and the levels of its tests."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

from clustered_bandit_gym.game.problem import Problem


@dataclass(frozen=True)
class Settings:
    """Constants of FrugalBAI. The shares of δ matter for correctness, the others for pulls and bits only.

    Attributes:
        attempts: shares of δ of the attempts from scratch; StructuredBAI gets the rest.
        beaten: share of an attempt for "a representative's best arm is shown worse than another one".
        close: share for "another cluster's best arm is shown less than η worse than the best".
        distinct: share for "two representatives of one cluster are shown to differ".
        bound: share for "a bound on a mean, made for a tree or a height, is wrong".
        classify: share for "an agent rejects its own cluster".
        likely: part of a share that the first of several tries gets.
        sketch_arms: number of arms in a sketch.
        first: first sketches pull so much of what the representatives' arms take, per cluster.
        growth: factor of pulls from one stage of sketches to the next. Smaller: fewer pulls, more bits.
        few: a tree is tried for so many clusters at most; sketches are finer then.
        apart: groups of sketches must be this many standard deviations apart.
        alike: two representatives that differ by fewer standard deviations look alike.
        enough: sketches end at so many (σ/η)² pulls of an arm.
        noise: a sketch with less than so many times the spread of noise shows nothing.
        lead: nats beyond ln K by which an arm must lead in a search.
        named: the same for an arm that another agent named before.
        start: first pulls of each arm at a representative.
        effort: factor of the representatives' effort from one exchange to the next.
        look: an arm is tested again after so many times its pulls, at least.
        settle: representatives begin to exchange facts when they have so few arms left.
        patience: a search or a test against a reference may take so many times the pulls expected.
        slack: nats that mixing costs, roughly, for plans.
        dearer: a tree is used if a list is expected to take so many times its pulls.
        codes: size of the alphabets of messages (stages, efforts, distances, costs).
    """

    attempts: tuple[float, ...] = (0.90, 0.05)
    beaten: float = 0.48
    close: float = 0.10
    distinct: float = 0.02
    bound: float = 0.02
    classify: float = 0.38
    likely: float = 0.9
    sketch_arms: int = 12
    first: float = 0.35
    growth: float = 4.0
    few: int = 8
    apart: float = 4.2
    alike: float = 2.5
    enough: float = 16.0
    noise: float = 1.6
    lead: float = 12.0
    named: float = 3.0
    start: int = 12
    effort: float = 1.5
    look: float = 0.12
    settle: int = 8
    patience: float = 10.0
    slack: float = 3.0
    dearer: float = 1.2
    codes: int = 64

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
        """N agents, M − 1 tests in which one can reject its own cluster in its try `number`, from 1."""
        share = self.settings.classify * self.settings.weight(number)
        return self._level(share, self.problem.n_agents * (self.m - 1))

    def _level(self, share: float, tests: int) -> float:
        return log(max(1, tests) / (share * self.delta))


def drawn_at_first(m: int) -> int:
    """Agents that send the first sketches.

    If clusters are of one size, they miss one of them with probability e^−3 = 5% at most.
    """
    return ceil(m * (log(m) + 3))
