"""How `StructuredBAI` spends δ: one place for every error probability that it uses."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from clustered_bandit_gym.instance import Problem

#: Shares of δ: best arms of representatives, representatives held for different, classification, acceptance.
SHARES = {"best": 0.40, "distinct": 0.02, "classify": 0.43, "accept": 0.15}
#: The g-th candidate that a cluster sends has weight 0.9·0.1^(g−1): the sum over all g is one.
FIRST = 0.9


def generation_weight(generation: int) -> float:
    """Weight of the g-th candidate of one cluster, g = 1, 2, ...; decreasing, so a g that is too large is safe."""
    return FIRST * (1 - FIRST) ** (generation - 1)


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
    def of(cls, problem: Problem) -> Budgets:
        most = min(problem.n_agents, problem.n_arms)
        return cls(problem.n_agents, problem.n_arms, problem.n_clusters or most, problem.delta)

    def beaten(self, generation: int = 1) -> float:
        """A representative's best arm is held for worse than one certain other arm."""
        count = self.n_clusters * max(1, self.n_arms - 1)
        return SHARES["best"] / 2 * self.delta * generation_weight(generation) / count

    def close(self, generation: int = 1) -> float:
        """One certain other cluster's best arm is held for less than η worse than the best, at a representative."""
        count = self.n_clusters * max(1, self.n_clusters - 1)
        return SHARES["best"] / 2 * self.delta * generation_weight(generation) / count

    def distinct(self, candidate: int = 1, generation: int = 1) -> float:
        """The `candidate`-th candidate that is no new one is held for different from the representative it equals."""
        weight = generation_weight(candidate) * generation_weight(generation)
        return SHARES["distinct"] * self.delta * weight

    def classify(self, generation: int = 1, attempt: int = 1) -> float:
        """An agent's own cluster is ruled out for it in its attempt-th test."""
        weight = generation_weight(generation) * generation_weight(attempt)
        return SHARES["classify"] * self.delta * weight / self.n_agents

    def accept(self) -> float:
        """One agent is put with one certain cluster that is not its own, or its best arm is beaten by a certain arm."""
        return SHARES["accept"] * self.delta / (self.n_agents * (self.n_clusters + self.n_arms))


def nats(alpha: float) -> float:
    """ln(1/α): the evidence that a test at level α needs."""
    return -log(alpha)
