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
from typing import Any, Self

import numpy as np
from scipy.special import rel_entr

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian


@dataclass(eq=False)
class Laws(ABC):
    """An array of laws of one family: here of one that its means describe.

    `low` and `high` are the ends of the support; means lie between them.
    """

    means: Floats
    low = -np.inf
    high = np.inf

    def __getitem__(self, index: Any) -> Self:
        return replace(self, means=self.means[index])

    def moved_to(self, targets: Floats) -> Self:
        return replace(self, means=targets)

    def mixed_with(self, others: Self, share: Floats) -> Self:
        return replace(self, means=(1 - share) * self.means + share * others.means)

    @abstractmethod
    def slope(self, targets: Floats) -> tuple[Floats, Floats]: ...

    @abstractmethod
    def kl(self, others: Self) -> Floats: ...


@dataclass(eq=False)
class GaussianLaws(Laws):
    sigma: float

    def slope(self, targets: Floats) -> tuple[Floats, Floats]:
        precision = self.sigma**-2
        return (targets - self.means) * precision, np.full(self.means.shape, precision)

    def kl(self, others: GaussianLaws) -> Floats:
        return (self.means - others.means) ** 2 / (2 * self.sigma**2)


class BernoulliLaws(Laws):
    low = 0.0
    high = 1.0

    def variances(self) -> Floats:
        """Variance of one pull, here and below."""
        return self.means * (1 - self.means)

    def slope(self, targets: Floats) -> tuple[Floats, Floats]:
        shift = targets - self.means
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(shift == 0, 0.0, shift / (targets * (1 - targets)))
            second = self.means / targets**2 + (1 - self.means) / (1 - targets) ** 2
        return first, second

    def kl(self, others: BernoulliLaws) -> Floats:
        return rel_entr(self.means, others.means) + rel_entr(1 - self.means, 1 - others.means)


class CategoricalLaws(Laws):
    """`probabilities` has the array's shape and one axis more, for the values of `support`."""

    def __init__(self, support: Floats, probabilities: Floats) -> None:
        super().__init__(probabilities @ support)
        self.support = support
        self.probabilities = probabilities
        self.low = float(support[0])
        self.high = float(support[-1])

    def variances(self) -> Floats:
        return self.probabilities @ self.support**2 - self.means**2

    def __getitem__(self, index: Any) -> CategoricalLaws:
        return CategoricalLaws(self.support, self.probabilities[index])

    def slope(self, targets: Floats) -> tuple[Floats, Floats]:
        theta = self._multiplier(targets)
        distance = self.support - targets[..., None]
        ratio = self.probabilities / self._factor(theta, distance) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            second = ratio.sum(axis=-1) / (ratio * distance**2).sum(axis=-1)
        return theta, np.where(np.isfinite(theta), second, np.inf)

    def moved_to(self, targets: Floats) -> CategoricalLaws:
        theta = self._multiplier(targets)
        moved = self.probabilities / self._factor(theta, self.support - targets[..., None])
        moved[~np.isfinite(theta)] = 0.0
        # Where an end of the support has no mass of its own, or all of it must go there: what is
        # missing to 1.
        missing = np.maximum(1 - moved.sum(axis=-1), 0.0)
        moved[..., -1] += np.where(theta > 0, missing, 0.0)
        moved[..., 0] += np.where(theta < 0, missing, 0.0)
        with np.errstate(invalid="ignore"):
            return CategoricalLaws(self.support, moved / moved.sum(axis=-1, keepdims=True))

    def _factor(self, theta: Floats, distance: Floats) -> Floats:
        """1 − θ·(x − target) for the values with mass, else 1; 1 too where θ is infinite."""
        finite = np.where(np.isfinite(theta), theta, 0.0)[..., None]
        return np.where(self.probabilities > 0, 1 - finite * distance, 1.0)

    def kl(self, others: CategoricalLaws) -> Floats:
        return rel_entr(self.probabilities, others.probabilities).sum(axis=-1)

    def mixed_with(self, others: CategoricalLaws, share: Floats) -> CategoricalLaws:
        share = share[..., None]
        return CategoricalLaws(
            self.support, (1 - share) * self.probabilities + share * others.probabilities
        )

    def _multiplier(self, targets: Floats) -> Floats:
        """θ of the dual max over θ of E ln(1 − θ(X − target)), −1/(target − low) ≤ θ ≤ 1/(high −
        target): the slope of the divergence (Honda and Takemura 2010). The maximand is concave:
        Newton's method inside a bracket."""
        # Values of the support along the first axis: sums over few terms are fast that way round.
        p = np.ascontiguousarray(self.probabilities.reshape(-1, self.support.size).T)
        distance = self.support[:, None] - targets.ravel()
        short = -(p * distance).sum(axis=0)  # target − mean
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(short > 0, 0.0, 1 / distance[0])
            right = np.where(short > 0, 1 / distance[-1], 0.0)
            guess = short / (p * distance**2).sum(axis=0)
            theta = np.where((guess > left) & (guess < right), guess, (left + right) / 2)
        # At an end of the support only a point mass has that mean.
        theta = np.where(short == 0, 0.0, theta)
        theta = np.where((distance[-1] <= 0) & (short > 0), np.inf, theta)
        theta = np.where((distance[0] >= 0) & (short < 0), -np.inf, theta)
        inside = np.flatnonzero((short != 0) & np.isfinite(theta))

        def slopes(now: Floats, todo: Ints) -> tuple[Floats, Floats, Floats]:
            cells = inside[todo]
            mass = p[:, cells]
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = distance[:, cells] / (1 - now * distance[:, cells])
                weighted = np.where(mass > 0, mass * terms, 0.0)
                second = np.where(mass > 0, weighted * terms, 0.0).sum(axis=0)
            return weighted.sum(axis=0), second, 1e-12 * np.abs(weighted).sum(axis=0)

        theta[inside] = newton(slopes, left[inside], right[inside], theta[inside])
        return theta.reshape(targets.shape)


def newton(
    slopes: Callable[[Floats, Ints], tuple[Floats, Floats, Floats]],
    left: Floats,
    right: Floats,
    start: Floats,
    width: Floats | None = None,
) -> Floats:
    """(n,) minima of n convex functions in [left, right], by Newton's method inside a bracket.

    Args:
        slopes: of the functions with these numbers at these points: first and second derivative,
            and what counts as zero. Done by the slope, not by the step: beside a pole Newton's
            steps are short far from the minimum.
        left, right, start: (n,).
        width: (n,) of a bracket that counts as a point; by default 1e-12 of the point.
    """
    x, left, right = start.copy(), left.copy(), right.copy()
    todo = np.arange(x.size)
    for _ in range(80):  # bisection alone reaches 1e-24 by then
        now = x[todo]
        first, second, zero = slopes(now, todo)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = now - first / second
        left[todo] = np.where(first < 0, now, left[todo])
        right[todo] = np.where(first < 0, right[todo], now)
        low, high = left[todo], right[todo]
        done = np.abs(first) <= zero
        inside = (step > low) & (step < high)
        x[todo] = np.where(done, now, np.where(inside, step, (low + high) / 2))
        busy = ~done & (high - low > (1e-12 * np.abs(now) if width is None else width[todo]))
        if not busy.any():
            break
        if np.count_nonzero(busy) < 0.7 * todo.size:
            todo = todo[busy]
    return x


def laws_of(instance: Instance) -> Laws:
    """(M, K) the laws of the rewards of an instance."""
    rewards = instance.rewards
    if isinstance(rewards, Gaussian):
        return GaussianLaws(instance.means, rewards.sigma)
    if isinstance(rewards, Bernoulli):
        return BernoulliLaws(instance.means)
    if isinstance(rewards, Categorical):
        return CategoricalLaws(rewards.support, rewards.probabilities)
    raise TypeError(f"no lower bound for rewards of type {type(rewards).__name__}")
