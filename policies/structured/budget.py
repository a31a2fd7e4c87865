"""How `StructuredBAI` spends δ: one place for every error probability that it uses."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from clustered_bandit_gym.game.problem import Problem

#: Shares of δ for events 1 to 4: best arms of representatives, representatives wrongly declared distinct,
#: classification, acceptance. Pulls depend on the logarithm of a share only. Best arms and classification take most
#: pulls, so they get most of δ.
SHARES = {"best": 0.40, "distinct": 0.02, "classify": 0.43, "accept": 0.15}
#: Share of the likely case when a budget is spread over infinitely many cases. It costs the likely case ln(1/0.9) = 0.1
#: nats.
LIKELY = 0.9


def retry_weight(attempt: int) -> float:
    """Weight of the attempt-th of possibly many attempts: 0.9, then 0.1/((attempt − 1)·attempt); the sum is one.

    It falls slowly: among very many agents hundreds of candidates are dropped, and each would cost a factor.
    """
    return LIKELY if attempt == 1 else (1 - LIKELY) / ((attempt - 1) * attempt)


@dataclass(frozen=True)
class Budgets:
    """Levels of all tests, as functions of the problem; docs/structured-bai.md has the union bound.

    Attributes:
        n_agents, n_arms: N, K.
        n_clusters: M, or where it is not told the most there can be: min(N, K).
        delta: δ.
    """

    n_agents: int
    n_arms: int
    n_clusters: int
    delta: float

    @classmethod
    def of(cls, problem: Problem, share: float = 1.0) -> Budgets:
        """The budgets of `problem` with a part of its δ."""
        most = min(problem.n_agents, problem.n_arms)
        return cls(problem.n_agents, problem.n_arms, problem.n_clusters or most, share * problem.delta)

    def number_weight(self, number: int) -> float:
        """Weight of the number-th candidate: nine tenths for the first M, the rest for those beyond; the sum is one."""
        if number <= self.n_clusters:
            return LIKELY / self.n_clusters
        beyond = number - self.n_clusters
        return (1 - LIKELY) / (beyond * (beyond + 1))

    def beaten(self, number: int = 1) -> float:
        """The best arm of the number-th candidate is wrongly declared worse than a given arm."""
        return SHARES["best"] / 2 * self.delta * self.number_weight(number) / max(1, self.n_arms - 1)

    def close(self, number: int = 1) -> float:
        """At the number-th candidate, the best arm of a given other cluster is wrongly declared less than η worse than
        the best arm."""
        return SHARES["best"] / 2 * self.delta * self.number_weight(number) / max(1, self.n_clusters - 1)

    def distinct(self, number: int = 1, later: int = 2) -> float:
        """Two candidates of one cluster are wrongly declared distinct. Over all pairs the products of weights sum to at
        most ½."""
        return self.distinct_share() * self.number_weight(number) * self.number_weight(later)

    def distinct_share(self) -> float:
        """What `distinct` multiplies by two weights."""
        return 2 * SHARES["distinct"] * self.delta

    def classify(self, generation: int = 1, attempt: int = 1) -> float:
        """An agent's own cluster, whose representative is its generation-th candidate, is ruled out in one attempt."""
        weight = retry_weight(generation) * retry_weight(attempt)
        return SHARES["classify"] * self.delta * weight / self.n_agents

    def accept(self) -> float:
        """At one agent, its best arm is wrongly declared worse than a given arm, or the best arm of a given other
        cluster is wrongly declared less than η worse than it."""
        return SHARES["accept"] * self.delta / (self.n_agents * (self.n_clusters + self.n_arms - 2 or 1))


def nats(alpha: float) -> float:
    """ln(1/α): the evidence that a test at level α needs."""
    return -log(alpha)
