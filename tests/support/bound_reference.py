"""The lower bound's alternatives again, from the definition and with a general solver: slow, for tiny instances."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
from scipy.optimize import linprog, minimize

from clustered_bandit_gym import Bernoulli, Categorical, Gaussian, Instance

Floats = np.ndarray


class Laws:
    """Laws of one bandit as a vector of parameters: means, or probabilities of the support's values."""

    def __init__(self, instance: Instance) -> None:
        self.rewards = instance.rewards
        self.n_arms = instance.n_arms
        if isinstance(self.rewards, Categorical):
            self.start = self.rewards.probabilities.reshape(instance.n_clusters, -1)
        else:
            self.start = instance.means

    def means(self, parameters: Floats) -> Floats:
        if isinstance(self.rewards, Categorical):
            return parameters.reshape(self.n_arms, -1) @ self.rewards.support
        return parameters

    def kl(self, truth: Floats, parameters: Floats) -> Floats:
        """(K,) from the true bandit to the one with these parameters."""
        if isinstance(self.rewards, Gaussian):
            return (truth - parameters) ** 2 / (2 * self.rewards.sigma**2)
        if isinstance(self.rewards, Bernoulli):
            truth, parameters = (np.stack([x, 1 - x], 1) for x in (truth, parameters))
        shape = (self.n_arms, -1)
        p, q = truth.reshape(shape), np.maximum(parameters.reshape(shape), 1e-12)
        return np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0) / q), 0.0).sum(axis=1)

    @property
    def bounds(self) -> list[tuple[float, float]] | None:
        return (
            None if isinstance(self.rewards, Gaussian) else [(1e-9, 1 - 1e-9)] * self.start.shape[1]
        )

    @property
    def constraints(self) -> list[dict]:
        if not isinstance(self.rewards, Categorical):
            return []
        return [{"type": "eq", "fun": lambda x: x.reshape(self.n_arms, -1).sum(axis=1) - 1}]


def cheapest(
    instance: Instance,
    pulls: Floats,
    eta: float,
    shares: Floats,
    best: tuple[int, ...],
    tolerance: float = 1e-13,
    starts: int = 2,
) -> tuple[float, Floats]:
    """Least Σ P·KL over all alternatives with the best arms `best`, one per bandit, and these shares; and its (M, K)
    coefficients.

    Args:
        pulls: (M, K) P of the true instance.
        shares: (M, M) the share of the agents of true bandit m that plays bandit j of the alternative.
    """
    laws = Laws(instance)
    total, coefficients = 0.0, np.zeros_like(instance.means)
    for j, arm in enumerate(best):
        if not shares[:, j].any():
            continue  # nobody plays it: any means will do
        weights = shares[:, j, None] * pulls
        distance = np.zeros(instance.n_arms)
        distance[[other for other in best if other != arm]] = eta

        def price(x: Floats, unit: float = 1.0, weights: Floats = weights) -> float:
            played = np.flatnonzero(weights.sum(axis=1))
            return sum(float(weights[m] @ laws.kl(laws.start[m], x)) for m in played) / unit

        def order(x: Floats, arm: int = arm, distance: Floats = distance) -> Floats:
            means = laws.means(x)
            return means[arm] - means - distance

        found = [
            minimize(
                price,
                start,
                args=(price(laws.start.mean(axis=0)) + 1e-3,),
                method="SLSQP",
                bounds=laws.bounds,
                constraints=[{"type": "ineq", "fun": order}, *laws.constraints],
                options={"ftol": tolerance, "maxiter": 500},
            )
            for start in (laws.start[j], laws.start.mean(axis=0))[:starts]
        ]
        good = [one for one in found if order(one.x).min() > -1e-7]
        if not good:
            return np.inf, coefficients
        x = min(good, key=lambda one: one.fun).x
        total += price(x)
        for m in np.flatnonzero(shares[:, j]):
            coefficients[m] += shares[m, j] * laws.kl(laws.start[m], x)
    return total, coefficients


def enumerated_bound(
    instance: Instance, eta: float, rounds: int = 40, tolerance: float = 2e-3
) -> tuple[float, float]:
    """The least ΣP over *all* alternatives of the class, for kl(δ, 1 − δ) = 1: a value below and one above it.

    Every assignment of the agents to bandits and every choice of best arms that changes an answer, by cutting planes.
    """
    m_all, sizes = (
        range(instance.n_clusters),
        np.bincount(instance.clusters, minlength=instance.n_clusters),
    )
    splits = product(
        *([s for s in product(range(n + 1), repeat=len(m_all)) if sum(s) == n] for n in sizes)
    )
    choices = []
    for split in splits:
        shares = np.array(split) / np.maximum(sizes, 1)[:, None]
        for best in permutations(range(instance.n_arms), len(m_all)):
            if any(shares[m, j] and best[j] != instance.best_arms[m] for m in m_all for j in m_all):
                choices.append((shares, best))
    played = np.repeat(sizes > 0, instance.n_arms)
    gaps = np.maximum(instance.means.max(axis=1, keepdims=True) - instance.means, 0.1)
    point, rows, low, high = 4 / gaps**2, [], 0.0, np.inf
    for _ in range(rounds):
        found = [
            cheapest(instance, point, eta, *choice, tolerance=1e-8, starts=1) for choice in choices
        ]
        least = min(value for value, _ in found)
        high = min(high, point[sizes > 0].sum() / least)
        rows += [row.ravel() for value, row in found if value < 1.2 * max(1.0, least)]
        if high <= (1 + tolerance) * low:
            break
        program = linprog(
            played.astype(float), A_ub=-np.array(rows), b_ub=-np.ones(len(rows)), method="highs"
        )
        low = max(low, program.fun)
        point = 0.5 * point + 0.5 * (program.x.reshape(point.shape) + 1e-6)
    return low, high
