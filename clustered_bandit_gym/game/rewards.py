"""Reward models: the law of one pull, and of the average of n pulls in a single draw.

The *sum* of n independent pulls has a law that is known in closed form (normal, binomial,
multinomial), so it is one draw whatever n is, exact in law; dividing by n gives the average.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints, Rng, Times, Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import increasing, read_only


class RewardModel:
    """The law of the rewards, given the matrix of means (M, K) that an `Instance` holds."""

    #: E exp(t(X − EX)) ≤ exp(σ²t²/2) for every arm: sub-Gaussian in the moment-generating sense,
    #: which is what Hoeffding's constants need.
    sigma: float
    #: (S,) the values that a reward can take, increasing; None where they are not finitely many.
    values: Floats | None = None

    def counts(self, rng: Rng, means: Floats, clusters: Ints, arms: Ints, times: Times) -> Ints:
        """How often each of `values` occurs: (..., S); arguments as for `average`."""
        raise UserError(f"rewards of {type(self).__name__} cannot be counted")

    def average(self, rng: Rng, means: Floats, clusters: Ints, arms: Ints, times: Times) -> Floats:
        """Averages of `times` pulls of `arms` in `clusters`, integer arrays that broadcast; `means`
        (M, K) are those of the instance."""
        counts = self.counts(rng, means, clusters, arms, times)
        return np.asarray(counts @ np.asarray(self.values) / times)

    def check_means(self, means: Floats | None) -> Floats:
        """The means (M, K) of the model, from what the user gave; `ValueError` where the two
        disagree."""
        if means is None:
            raise UserError(f"{type(self).__name__} rewards need the means: (clusters, arms)")
        return means

    def single(self, rng: Rng, means: Floats, cluster: Any, arm: Any) -> float:
        """One pull; arguments as for `average`. For models that draw it faster."""
        return float(self.average(rng, means, cluster, arm, 1))

    def to_dict(self) -> Values:
        """The kind and the arguments of the class, which is a dataclass: plain numbers and arrays
        that `from_dict` turns back into the model."""
        model: Any = self
        settings = {one.name: getattr(self, one.name) for one in fields(model) if one.init}
        return {"kind": type(self).__name__.lower(), **settings}

    @staticmethod
    def from_dict(data: Values) -> RewardModel:
        """The model that `to_dict` described."""
        settings = dict(data)
        kind = str(settings.pop("kind"))
        for model in (Gaussian, Bernoulli, Categorical):
            if model.__name__.lower() == kind:
                return model(**settings)
        raise UserError(f"unknown reward model {kind!r}")


@dataclass(frozen=True)
class Gaussian(RewardModel):
    """Normal rewards with standard deviation `sigma` around the mean; 0 gives noiseless rewards."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.sigma) and self.sigma >= 0):
            raise UserError(f"sigma must be a finite number >= 0, got {self.sigma}")
        vars(self).update(sigma=float(self.sigma))

    def average(self, rng: Rng, means: Floats, clusters: Ints, arms: Ints, times: Times) -> Floats:
        # In place from here on: on a grid of agents and arms the draw itself is most of the time.
        out = rng.standard_normal(np.broadcast(clusters, arms, times).shape)
        out /= np.sqrt(times)
        out *= self.sigma
        out += means[clusters, arms]
        return out

    def single(self, rng: Rng, means: Floats, cluster: Any, arm: Any) -> float:
        return float(means[cluster, arm] + self.sigma * rng.standard_normal())


@dataclass(frozen=True)
class Bernoulli(RewardModel):
    """Rewards 0 or 1; the mean is the probability of 1. σ = 1/2 by Hoeffding's lemma."""

    sigma = 0.5
    values = read_only(np.array([0.0, 1.0]))

    def counts(self, rng: Rng, means: Floats, clusters: Ints, arms: Ints, times: Times) -> Ints:
        ones = _binomial(rng, times, means[clusters, arms])
        return np.stack([times - ones, ones], axis=-1)

    def check_means(self, means: Floats | None) -> Floats:
        means = super().check_means(means)
        if np.any((means < 0) | (means > 1)):
            raise UserError("Bernoulli means are probabilities: every one must lie in [0, 1]")
        return means

    def single(self, rng: Rng, means: Floats, cluster: Any, arm: Any) -> float:
        return float(rng.random() < means[cluster, arm])


@dataclass(frozen=True, eq=False)
class Categorical(RewardModel):
    """Rewards on a finite support, a law of its own for every cluster and arm.

    Args:
        support: (S,) the values a reward can take, increasing.
        probabilities: (M, K, S) each row sums to one.
    """

    support: Floats
    probabilities: Floats
    _cumulative: Floats = field(init=False, repr=False)
    _conditional: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        support = increasing(self.support, "support")
        p = np.array(self.probabilities, dtype=float)
        if p.ndim != 3 or p.shape[2] != support.size:
            raise UserError(
                f"probabilities of shape (M, K, {support.size}) expected, got {p.shape}"
            )
        off = np.abs(p.sum(axis=2) - 1)
        if not (np.all(p >= 0) and np.all(off <= 1e-9)):
            raise UserError("probabilities must not be negative, and sum to 1 for every arm")
        # Sums that are 1 up to rounding stay as they are: a saved model reads back bit by bit.
        p[off > 1e-12] /= p[off > 1e-12].sum(axis=1, keepdims=True)
        # P(X ≥ x_s), summed from the top: the probability of x_s given at least x_s is exact even
        # in the tail.
        tail = np.cumsum(p[:, :, ::-1], axis=2)[:, :, ::-1]
        conditional = np.divide(p, tail, out=np.zeros_like(p), where=tail > 0).clip(0, 1)
        # From the last value with any mass on the sum is 1, rounding or not: no draw may land on a
        # value without mass.
        cumulative = np.where(tail > p, np.cumsum(p, axis=2), 1.0)
        # Hoeffding's lemma: a variable on an interval of length L is L/2-sub-Gaussian.
        sigma = float(support[-1] - support[0]) / 2
        arrays = {"probabilities": p, "_cumulative": cumulative, "_conditional": conditional}
        frozen = {name: read_only(array) for name, array in arrays.items()}
        vars(self).update(support=support, values=support, sigma=sigma, **frozen)

    def check_means(self, means: Floats | None) -> Floats:
        own = self.probabilities @ self.support
        given = own if means is None else means
        if given.shape != own.shape or np.abs(given - own).max() > 1e-9:
            raise UserError("the means given are not those of the categorical laws; leave them out")
        return own

    def counts(self, rng: Rng, means: Floats, clusters: Ints, arms: Ints, times: Times) -> Ints:
        shape = np.broadcast(clusters, arms, times).shape
        # Multinomial counts value by value: each is binomial among the pulls that are left, given
        # what came before.
        conditional = self._conditional[clusters, arms]
        left = np.full(shape, times)
        counts = np.empty((*shape, self.support.size), dtype=int)
        for s in range(self.support.size - 1):
            counts[..., s] = _binomial(rng, left, conditional[..., s])
            left = left - counts[..., s]
        counts[..., -1] = left
        return counts

    def single(self, rng: Rng, means: Floats, cluster: Any, arm: Any) -> float:
        index = np.count_nonzero(rng.random() >= self._cumulative[cluster, arm])
        return float(self.support[index])


def _binomial(rng: Rng, n: Times, p: Floats) -> Ints:
    """Binomial counts, for n up to 2**53.

    Huge n with tiny p are thinned: Bin(n, p) = Bin(Bin(n, r), p/r) in law. NumPy's binomial is
    accurate for n up to 1e9 whatever p is, and for any n if p is at least 1e-3. Beyond both its
    acceptance test loses digits: at n = 1e15, p = 1e-12 the mean is off by 0.4 % of a standard
    deviation.
    """
    if np.max(n) <= 10**9:
        return rng.binomial(n, p)
    trials, p = np.broadcast_arrays(n, p)
    flip = p > 0.5
    rare = np.where(flip, 1 - p, p)
    left = trials.copy()
    while np.any(thin := (left > 10**9) & (rare < 1e-3)):
        left[thin] = rng.binomial(left[thin], 1e-3)
        rare[thin] /= 1e-3
    counts = rng.binomial(left, rare)
    return np.where(flip, trials - counts, counts)
