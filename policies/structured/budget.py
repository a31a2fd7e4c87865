"""How `StructuredBAI` spends δ: one place for every error probability that it uses."""

from __future__ import annotations

from math import ceil, log
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.problem import Problem

#: Shares of δ for events 1 to 4: best arms of representatives, representatives wrongly declared
#: distinct, classification, acceptance. Pulls depend on the logarithm of a share only. Best arms
#: and classification take most pulls, so they get most of δ.
SHARES = {"best": 0.40, "distinct": 0.02, "classify": 0.43, "accept": 0.15}
#: Share of the likely case when a budget is spread over infinitely many cases. It costs the likely
#: case ln(1/0.9) = 0.1 nats.
LIKELY = 0.9


def retry_weight(attempt: Any) -> Any:
    """Weight of the attempt-th of possibly many attempts: 0.9, then 0.1/((attempt − 1)·attempt);
    the sum is one.

    It falls slowly: among very many agents hundreds of candidates are dropped, and each would cost
    a factor.
    """
    later = (1 - LIKELY) / np.maximum((attempt - 1) * attempt, 1)
    return np.where(attempt == 1, LIKELY, later)


def nats(alpha: Any) -> Any:
    """ln(1/α): the evidence that a test at level α needs."""
    return -np.log(alpha)


class Budgets:
    """Levels of all tests, as functions of the problem; docs/structured-bai.md has the union bound.

    Candidates are numbered from 1 in the order in which they were chosen; numbers may be arrays.

    Args:
        share: the part of the problem's δ that is spent.

    Attributes:
        n_agents, n_arms: N, K.
        n_clusters: M, or where it is not told the most there can be: min(N, K).
        delta: the δ that is spent.
    """

    def __init__(self, problem: Problem, share: float = 1.0) -> None:
        self.n_agents = problem.n_agents
        self.n_arms = problem.n_arms
        self.n_clusters = problem.n_clusters or min(self.n_agents, self.n_arms)
        self.delta = share * problem.delta

    def number_weight(self, number: Any) -> Any:
        """Weight of the number-th candidate: 0.9 in all for the first M, 0.1 for the others."""
        later = retry_weight(number - self.n_clusters + 1)
        return np.where(number > self.n_clusters, later, LIKELY / self.n_clusters)

    def beaten(self, number: Any = 1) -> Any:
        """The best arm of the number-th candidate is wrongly declared worse than a given arm."""
        return self._best(number) / max(1, self.n_arms - 1)

    def close(self, number: Any) -> Any:
        """At the number-th candidate, the best arm of a given other cluster is wrongly declared
        less than η worse than the best arm."""
        return self._best(number) / max(1, self.n_clusters - 1)

    def _best(self, number: Any) -> Any:
        return SHARES["best"] / 2 * self.delta * self.number_weight(number)

    def distinct(self, s: Any, t: Any) -> Any:
        """The s-th and the t-th candidate, of one cluster, are wrongly declared distinct. Over all
        pairs the products of weights sum to at most ½."""
        return 2 * SHARES["distinct"] * self.delta * self.number_weight(s) * self.number_weight(t)

    def classify(self, generation: int = 1, attempt: int = 1) -> Any:
        """An agent's cluster, represented by its generation-th candidate, is ruled out."""
        weight = retry_weight(generation) * retry_weight(attempt)
        return SHARES["classify"] * self.delta * weight / self.n_agents

    def accept(self) -> float:
        """At one agent, its best arm is wrongly declared worse than a given arm, or the best arm of
        a given other cluster is wrongly declared less than η worse than it."""
        events = self.n_agents * max(1, self.n_clusters + self.n_arms - 2)
        return SHARES["accept"] * self.delta / events


class ClusterWeights:
    """Prices −ln w of the choices in a test of event 3 that are made after rewards were seen.

    For every alternative x and rival j: 0.4 for the test by Assumption 1; 0.2 for each of the arms
    k_x and k_j; 0.2/K for each of the K arms. Each alternative has weight 1/(R − 1). ½ for the ρ in
    the centre of a grid and the rest evenly over the others. The test by Assumption 1 gets most: it
    is the cheapest wherever best arms differ by about η.

    The centre of the grid is the number of pulls that a difference of η takes, or one of 0.3σ where
    η is not told. It must not depend on rewards, so it is tuned to the level of a first attempt.

    Attributes:
        rho, rho_price: (L,) grid and prices.
        alternative, assumed, best_arm, any_arm: prices of x, of the test by Assumption 1, of k_x or
            k_j, and of any other arm.
    """

    def __init__(self, budgets: Budgets, n_representatives: int, eta: float | None) -> None:
        centre = 2 * nats(budgets.classify()) / (0.3 if eta is None else eta) ** 2
        below = max(1, ceil(log(centre / 16, 8)))
        self.rho = centre * 8.0 ** np.arange(-below, 5)
        self.rho_price: Floats = np.full(self.rho.size, log(2 * (self.rho.size - 1)))
        self.rho_price[below] = log(2)
        self.alternative = log(max(1, n_representatives - 1))
        self.assumed = nats(0.4)
        self.best_arm = nats(0.2)
        self.any_arm = nats(0.2 / budgets.n_arms)

    def arm(self, arm: Ints, best_x: Ints, best_j: Ints) -> Floats:
        """Price of an arm, given k_x and k_j; arguments broadcast."""
        return np.where((arm == best_x) | (arm == best_j), self.best_arm, self.any_arm)

    def mixing(self, n: Floats, wanted: Floats, level: float) -> list[Floats]:
        """½ln(1 + n/ρ) − ln w(ρ), and ñ, for cells of representatives with n pulls.

        Of the grid, the ρ with which an agent that makes `wanted` pulls of its arm gains most.
        """
        n = n[..., None]
        wanted = wanted[..., None]
        price = 0.5 * np.log1p(n / self.rho) + self.rho_price
        worth = n * n / (n + self.rho)
        loss = price + level * wanted / (wanted + worth)
        best = loss.argmin(axis=-1, keepdims=True)
        return [np.take_along_axis(table, best, axis=-1)[..., 0] for table in (price, worth)]
