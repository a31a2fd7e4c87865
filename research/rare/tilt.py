"""Exponential tilts of the reward laws.

The law P of one pull is tilted to dP' = exp(θx − ψ(θ)) dP. The sum of n tilted pulls is again one
exact draw, and the log likelihood ratio ln dP'/dP of n pulls with sum S is θS − nψ(θ): for every
reward model the sum is all that it needs. Everything here uses centred sums c = S − nμ and the
centred cumulant κ(θ) = ψ(θ) − θμ, so that the log ratio is θc − nκ(θ) without loss of digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian

#: Tilted means of bounded rewards stay this share of the support's length away from its ends.
MARGIN = 1e-3


class Law:
    """Tilts of the laws (cluster, arm) of one instance.

    Arguments broadcast; `m` and `k` are integer arrays.
    """

    def __init__(self, instance: Instance) -> None:
        if not isinstance(instance.rewards, Gaussian | Bernoulli | Categorical):
            raise TypeError(
                "rare needs Gaussian, Bernoulli or Categorical rewards, got "
                f"{type(instance.rewards).__name__}"
            )
        self.model = instance.rewards
        self.means = instance.means
        self.sigma = float(instance.rewards.sigma)

    def cumulant(self, theta: Floats, m: Any, k: Any) -> Floats:
        """κ(θ), the log moment generating function of the centred reward."""
        model = self.model
        if isinstance(model, Gaussian):
            return 0.5 * model.sigma**2 * np.asarray(theta) ** 2
        mu = self.means[m, k]
        if isinstance(model, Bernoulli):
            return np.log1p(mu * np.expm1(theta)) - theta * mu
        top, weights = self._tilted(theta, m, k)
        return top + np.log(weights.sum(axis=-1)) - theta * mu

    def theta(self, shift: Floats, m: Any, k: Any) -> Floats:
        """The θ whose tilted mean is μ + shift; for bounded rewards the mean is kept inside the
        support. 0 for 0.
        """
        model = self.model
        shift = np.asarray(shift, dtype=np.float64)
        if isinstance(model, Gaussian):
            return shift / model.sigma**2 if model.sigma > 0 else np.zeros_like(shift)
        mu = self.means[m, k]
        if isinstance(model, Bernoulli):
            # A mean of 0 or 1 cannot be tilted; `fixed` rows stay as they are.
            fixed = (mu <= 0) | (mu >= 1) | (shift == 0)
            p = np.where(fixed, 0.5, mu)
            # Never pushed to the other side: a mean within the margin stays where it is or moves
            # inwards.
            q = np.clip(p + shift, np.minimum(p, MARGIN), np.maximum(p, 1 - MARGIN))
            return np.where(fixed, 0.0, np.log(q / (1 - q)) - np.log(p / (1 - p)))
        return self._solve_theta(shift, np.asarray(m), np.asarray(k), mu)

    def draw(
        self, rng: np.random.Generator, m: Ints, k: Ints, times: Ints, theta: Floats
    ) -> Floats | Ints:
        """`times` pulls of the tilted laws; all arguments are vectors (R,).

        Averages (R,) of Gaussian rewards. Of rewards with finitely many values it is how often each
        of them came up, (R, S): their sum, hence the likelihood ratio, follows from that.
        """
        model = self.model
        rows = np.arange(m.size)
        column = np.zeros(m.size, dtype=np.int64)
        if isinstance(model, Gaussian):
            return model.average(rng, self.means, m, k, times) + model.sigma**2 * theta
        if isinstance(model, Bernoulli):
            mu = self.means[m, k]
            tilted = mu * np.exp(theta) / (1 + mu * np.expm1(theta))
            return model.counts(rng, np.clip(tilted, 0.0, 1.0)[:, None], rows, column, times)
        _, weights = self._tilted(theta, m, k)
        weights /= weights.sum(axis=-1, keepdims=True)
        return Categorical(model.support, weights[:, None, :]).counts(
            rng, self.means, rows, column, times
        )

    def _tilted(self, theta: Floats, m: Any, k: Any) -> tuple[Floats, Floats]:
        """p·exp(θx), scaled: the log of the scale (...), and the scaled weights (..., S)."""
        assert isinstance(self.model, Categorical)
        exponent = np.asarray(theta)[..., None] * self.model.support
        top = exponent.max(axis=-1)
        return top, self.model.probabilities[m, k] * np.exp(exponent - top[..., None])

    def _solve_theta(self, shift: Floats, m: Ints, k: Ints, mu: Floats) -> Floats:
        """Bisection: the tilted mean increases with θ."""
        assert isinstance(self.model, Categorical)
        support, p = self.model.support, self.model.probabilities[m, k]
        length = float(support[-1] - support[0])
        if length == 0:
            return np.zeros(np.broadcast(shift, mu).shape)
        # What the law can reach: the ends of its own support.
        low_end = np.where(p > 0, support, np.inf).min(axis=-1)
        high_end = np.where(p > 0, support, -np.inf).max(axis=-1)
        room = MARGIN * (high_end - low_end)
        target = np.clip(
            mu + shift, np.minimum(mu, low_end + room), np.maximum(mu, high_end - room)
        )
        low = np.full(target.shape, -200.0 / length)
        high = -low
        m, k = np.broadcast_to(m, target.shape), np.broadcast_to(k, target.shape)
        for _ in range(60):
            middle = (low + high) / 2
            _, weights = self._tilted(middle, m, k)
            below = (weights @ support) / weights.sum(axis=-1) < target
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        fixed = (low_end == high_end) | (shift == 0)
        return np.where(fixed, 0.0, (low + high) / 2)
