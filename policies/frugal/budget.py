"""How `FrugalBAI` spends δ: one place for every error probability that it uses. docs/frugal-bai.md has the proof."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from clustered_bandit_gym.game.problem import Problem

#: Shares of δ: the first, second and third attempt from scratch, and the last resort, StructuredBAI. The first attempt
#: usually succeeds, and 0.9 costs it ln(1/0.9) = 0.1 nats. The others are rare, and 3 to 4 nats more are a small part
#: of their pulls.
ATTEMPTS = (0.90, 0.05, 0.02)
LAST_RESORT = 0.03
#: Shares of an attempt's δ: best arms beaten, best arms of other clusters declared close, references (bounds on means,
#: representatives declared distinct), agents assigned to a wrong cluster, agents that find their arm alone. Pulls
#: depend on the logarithm of a share. Most pulls are made for best arms and classification, so these get most of δ.
SHARES = {"beaten": 0.48, "close": 0.10, "reference": 0.04, "classify": 0.36, "alone": 0.02}
#: Streams of a reference: a second one follows where the first does not suffice. Each has half of the share.
STREAMS = 2
#: Share of the first of a sequence of tries. It costs the first one ln(1/0.9) = 0.1 nats.
LIKELY = 0.9


def try_weight(number: int) -> float:
    """Weight of an agent's number-th try, from 1: 0.9, then 0.1/((number − 1)·number). They sum to one."""
    return LIKELY if number == 1 else (1 - LIKELY) / ((number - 1) * number)


@dataclass(frozen=True)
class Budget:
    """Levels of all tests of one attempt in nats, ln(1/α): functions of what everybody knows.

    Attributes:
        n_agents, n_arms, n_clusters: N, K, M.
        delta: the attempt's part of δ.
    """

    n_agents: int
    n_arms: int
    n_clusters: int
    delta: float

    @classmethod
    def of(cls, problem: Problem, attempt: int) -> Budget:
        """The budget of the attempt-th attempt, from 0. M must be told."""
        assert problem.n_clusters is not None
        return cls(
            problem.n_agents, problem.n_arms, problem.n_clusters, problem.delta * ATTEMPTS[attempt]
        )

    def beaten(self, prior: float) -> float:
        """At one representative, one arm is shown better than the best. `prior`: weight of that arm among the K − 1."""
        return -log(SHARES["beaten"] * self.delta / self.n_clusters * prior)

    def close(self) -> float:
        """At one representative, one other cluster's best arm is shown less than η worse than the best arm."""
        return -log(SHARES["close"] * self.delta / (self.n_clusters * max(1, self.n_clusters - 1)))

    def bound(self, arms: int) -> float:
        """One of two bounds on the mean of one of `arms` arms at one representative is wrong, from one stream."""
        return -log(SHARES["reference"] * self.delta / (2 * self.n_clusters * arms * STREAMS))

    def distinct(self) -> float:
        """Of two representatives of one cluster, the first is shown to have the larger mean of an arm fixed before,
        from one stream."""
        pairs = self.n_clusters * max(1, self.n_clusters - 1)
        return -log(SHARES["reference"] * self.delta / (pairs * STREAMS))

    def classify(self, number: int, tests: int = 1) -> float:
        """In its number-th try an agent rejects its own cluster in one of `tests` tests."""
        return -log(SHARES["classify"] * self.delta * try_weight(number) / (self.n_agents * tests))

    def node(self, bounded: bool) -> float:
        """At a node of a tree an agent is shown on the wrong side of its own cluster. A node compares with one of
        `STREAMS` averages, chosen after they are known; bounds on means hold all at once."""
        return self.classify(1, tests=max(1, self.n_clusters - 1) * (1 if bounded else STREAMS))

    def guess(self, number: int) -> float:
        """At its number-th message an agent rejects its own cluster. Which of the cluster's averages it is compared
        with is chosen after they are known: that of another one's best arm, from one of `STREAMS`, or of its own."""
        return self.classify(number, tests=STREAMS * max(1, self.n_clusters - 1) + 1)

    def alone(self) -> float:
        """The error probability of an agent that finds its best arm alone."""
        return SHARES["alone"] * self.delta / self.n_agents
