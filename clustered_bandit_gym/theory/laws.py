"""Arrays of reward laws: how far one is from another, and from the nearest law with a given mean.

The lower bound moves means about inside a family of laws: Gaussians of one standard deviation,
Bernoulli laws, laws on a finite support. For each family `Laws` answers, cell by cell of an array
of any shape:

* `slope(targets)`: the derivative, and the second derivative, of the least divergence to a law with
  mean `target`;
* `moved_to(targets)`: the law that attains it;
* `kl(others)`: the divergence of one pull;
* `mixed_with(others, share)`: the law p̄ with a·KL(p, ν) + b·KL(p', ν) = constant + (a + b)·KL(p̄,
  ν) for all ν in the family, where share = b/(a + b). For Gaussians it has the mean of the mixture,
  for the others it is the mixture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import rel_entr

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian

#: The first and the second one.
Derivatives = tuple[Floats, Floats]
#: First and second derivative, and what counts as zero.
Slopes = tuple[Floats, Floats, Floats]


@dataclass(eq=False)
class Laws(ABC):
    """An array of laws of one family.

    `parameters` describe them: here their means. `low` and `high` are the ends of the support.
    """

    parameters: Floats
    low = -np.inf
    high = np.inf

    @cached_property
    def means(self) -> Floats:
        return self.parameters

    def __getitem__(self, index: Any) -> Self:
        return replace(self, parameters=self.parameters[index])

    def moved_to(self, targets: Floats) -> Self:
        return replace(self, parameters=targets)

    def mixed_with(self, others: Self, share: Floats) -> Self:
        return replace(self, parameters=(1 - share) * self.parameters + share * others.parameters)

    @abstractmethod
    def slope(self, targets: Floats) -> Derivatives: ...

    @abstractmethod
    def kl(self, others: Self) -> Floats: ...


@dataclass(eq=False)
class GaussianLaws(Laws):
    sigma: float

    def slope(self, targets: Floats) -> Derivatives:
        precision = self.sigma**-2
        return (targets - self.means) * precision, np.full(self.means.shape, precision)

    def kl(self, others: GaussianLaws) -> Floats:
        return (self.means - others.means) ** 2 / (2 * self.sigma**2)


class BernoulliLaws(Laws):
    low = 0.0
    high = 1.0

    @np.errstate(divide="ignore", invalid="ignore")
    def slope(self, targets: Floats) -> Derivatives:
        first = (targets - self.means) / (targets * (1 - targets))
        return first, self.means / targets**2 + (1 - self.means) / (1 - targets) ** 2

    def kl(self, others: BernoulliLaws) -> Floats:
        return rel_entr(self.means, others.means) + rel_entr(1 - self.means, 1 - others.means)


@dataclass(eq=False)
class CategoricalLaws(Laws):
    """`parameters` are the probabilities of the values of `support`, along one axis more."""

    support: Floats

    def __post_init__(self) -> None:
        self.low, self.high = self.support[[0, -1]].tolist()

    @cached_property
    def means(self) -> Floats:
        return self.parameters @ self.support

    def mixed_with(self, others: Self, share: Floats) -> Self:
        return super().mixed_with(others, share[..., None])

    def kl(self, others: CategoricalLaws) -> Floats:
        return rel_entr(self.parameters, others.parameters).sum(axis=-1)

    @np.errstate(divide="ignore", invalid="ignore")
    def slope(self, targets: Floats) -> Derivatives:
        theta, distance, scale = self._tilt(targets)
        ratio = self.parameters * scale**2
        return theta, ratio.sum(axis=-1) / (ratio * distance**2).sum(axis=-1)

    @np.errstate(divide="ignore", invalid="ignore")
    def moved_to(self, targets: Floats) -> Self:
        theta, _, scale = self._tilt(targets)
        moved = np.nan_to_num(self.parameters * scale)
        # Where an end of the support has no mass of its own, or all of it must go there: what is
        # missing to 1.
        missing = np.maximum(1 - moved.sum(axis=-1), 0.0)
        moved[..., -1] += np.where(theta > 0, missing, 0.0)
        moved[..., 0] += np.where(theta < 0, missing, 0.0)
        return replace(self, parameters=moved / moved.sum(axis=-1, keepdims=True))

    def _tilt(self, targets: Floats) -> Slopes:
        """θ, X − target, and 1/(1 − θ(X − target)) for values X with mass, else 0.

        θ is the slope of the divergence (Honda and Takemura 2010): it attains the maximum of
        E ln(1 − θ(X − target)) over −1/(target − low) ≤ θ ≤ 1/(high − target). Infinite at an end
        of the support, where only a point mass has that mean.
        """
        distance = self.support - targets[..., None]
        left = np.where(targets >= self.means, 0.0, -1 / (targets - self.low))
        right = np.where(targets <= self.means, 0.0, 1 / (self.high - targets))

        def scale(theta: Floats) -> Floats:
            return np.where(self.parameters > 0, 1 / (1 - theta[..., None] * distance), 0.0)

        def slopes(theta: Floats) -> Slopes:
            terms = distance * scale(theta)
            weighted = self.parameters * terms
            second = (weighted * terms).sum(axis=-1)
            return weighted.sum(axis=-1), second, 1e-12 * np.abs(weighted).sum(axis=-1)

        theta = newton(slopes, left, right, (left + right) / 2)
        return theta, distance, scale(theta)


def newton(
    slopes: Callable[[Floats], Slopes], left: Floats, right: Floats, start: Floats
) -> Floats:
    """(n,) minima of n convex functions in [left, right], by Newton's method inside a bracket.

    Args:
        slopes: of the functions at these points. Done by the slope, not by the step: beside a pole
            Newton's steps are short far from the minimum.
        left, right, start: (n,).
    """
    x = start
    for _ in range(80):  # bisection alone reaches 1e-24 by then
        first, second, zero = slopes(x)
        left = np.where(first < 0, x, left)
        right = np.where(first < 0, right, x)
        done = np.abs(first) <= zero
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - first / second
        inside = (step > left) & (step < right)
        wide = right - left > 1e-15 * np.abs(x)
        x = np.where(done, x, np.where(inside, step, (left + right) / 2))
        if not np.any(wide & ~done):
            break
    return x


def laws_of(instance: Instance) -> Laws:
    """(M, K) the laws of the rewards of an instance."""
    rewards = instance.rewards
    if isinstance(rewards, Gaussian):
        return GaussianLaws(instance.means, rewards.sigma)
    if isinstance(rewards, Bernoulli):
        return BernoulliLaws(instance.means)
    if isinstance(rewards, Categorical):
        return CategoricalLaws(rewards.probabilities, rewards.support)
    raise TypeError(f"no lower bound for rewards of type {type(rewards).__name__}")
