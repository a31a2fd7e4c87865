"""Evidence that holds at any time: e-processes for sub-Gaussian rewards, from normal mixtures and Wald ratios.

A function named `*_evidence` returns the logarithm of an *e-process*: a non-negative process whose
expectation under the null hypothesis is at most one at every stopping time, however the pulls were chosen. By Ville's
inequality the probability that it ever reaches ln(1/α) is at most α: reject the null then, looking as often as one
likes. All are for rewards that are 1-sub-Gaussian (E exp(t(X − μ)) ≤ exp(t²/2)); divide rewards by σ first.

With n pulls of average m and a number ρ > 0 fixed before the data, exp(½ñ(m − μ)²)·√(ρ/(n + ρ)), ñ = n²/(n + ρ), is a
supermartingale at the true μ: the mixture of exp(λn(m − μ) − λ²n/2) over λ ~ N(0, 1/ρ) (Robbins 1970). Products over
independent streams and averages over ρ are supermartingales too; everything below is built from these two moves.
Arguments are arrays that broadcast; nothing here draws or keeps state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from clustered_bandit_gym.rewards import Floats

#: Keeps 0/0 out of arms that were never pulled.
TINY = 1e-300


def tuned_rho(n: ArrayLike, alpha: float) -> Floats:
    """The ρ with which the radius at level α is (nearly) smallest after n pulls: n/(2 ln(1/α) + ln(1 + 2 ln(1/α)))."""
    log = 2 * np.log(1 / alpha)
    return np.asarray(n, dtype=float) / (log + np.log1p(log))


def effective_pulls(n: ArrayLike, rho: ArrayLike) -> Floats:
    """ñ = n²/(n + ρ): what n pulls are worth after mixing."""
    n = np.asarray(n, dtype=float)
    return n * n / (n + rho)


def mixing_price(n: ArrayLike, rho: ArrayLike) -> Floats:
    """½ ln(1 + n/ρ): what the mixture costs in evidence."""
    return 0.5 * np.log1p(np.asarray(n, dtype=float) / rho)


def arm_evidence(deviation: ArrayLike, n: ArrayLike, rho: ArrayLike) -> Floats:
    """Against "the mean is μ", from n pulls whose average is μ + deviation."""
    return 0.5 * effective_pulls(n, rho) * np.square(deviation) - mixing_price(n, rho)


def arm_radius(n: ArrayLike, rho: ArrayLike, alpha: ArrayLike) -> Floats:
    """|m − μ| stays below this at all n at once with probability 1 − α: where `arm_evidence` reaches ln(1/α)."""
    n = np.asarray(n, dtype=float)
    return np.sqrt((n + rho) * (np.log1p(n / rho) + 2 * np.log(1 / np.asarray(alpha)))) / n


def pair_evidence(difference: ArrayLike, n_a: ArrayLike, n_b: ArrayLike, rho: ArrayLike) -> Floats:
    """Against "the two means are equal", from averages that differ by `difference` after n_a and n_b pulls.

    Two arms of one agent, or one arm at two agents. It is the smallest value, over the unknown common mean, of the
    product of two mixtures. For "the means differ by s" pass the difference minus s. Zero pulls carry no evidence.
    """
    n_a, n_b = np.asarray(n_a, dtype=float), np.asarray(n_b, dtype=float)
    w_a, w_b = effective_pulls(n_a, rho), effective_pulls(n_b, rho)
    information = w_a * w_b / np.maximum(w_a + w_b, TINY)
    return 0.5 * (information * np.square(difference) - np.log((1 + n_a / rho) * (1 + n_b / rho)))


def two_agent_evidence(
    means_a: Floats, n_a: ArrayLike, means_b: Floats, n_b: ArrayLike, rho: ArrayLike, axis: int = -1
) -> Floats:
    """Against "agents a and b play the same bandit": `pair_evidence` summed over the arms along `axis`."""
    return pair_evidence(np.subtract(means_a, means_b), n_a, n_b, rho).sum(axis=axis)


def one_sided_evidence(walk: ArrayLike, variance: ArrayLike, rho: ArrayLike) -> Floats:
    """Against "the drift is at most 0", from a walk with sub-Gaussian steps and the given total variance.

    Mixture over half a normal, λ ≥ 0: 2√(ρ/(v + ρ))·exp(s²/(2(v + ρ)))·Φ(s/√(v + ρ)).
    """
    walk, variance = np.asarray(walk, dtype=float), np.asarray(variance, dtype=float)
    z = walk / np.sqrt(variance + rho)
    return np.log(2.0) + 0.5 * z * z + log_ndtr(z) - mixing_price(variance, rho)


def paired_evidence(difference: ArrayLike, n: ArrayLike, rho: ArrayLike) -> Floats:
    """Against "arm a is no better than arm b", from n pulls of *each*, averages `difference` = m_a − m_b apart.

    The paired difference is one walk of variance 2n, so only one mixture is paid for. `rho` is in units of variance.
    """
    n = np.asarray(n, dtype=float)
    return one_sided_evidence(n * np.asarray(difference), 2 * n, rho)


def wald_evidence(mean: ArrayLike, n: ArrayLike, null: ArrayLike, alternative: ArrayLike) -> Floats:
    """Against "the mean is `null`", for one `alternative` known before the data: n[(m − null)² − (m − alt)²]/2.

    It also rejects every mean on the other side of `null` from `alternative`, at the same level.
    """
    n = np.asarray(n, dtype=float)
    return 0.5 * n * (np.square(np.subtract(mean, null)) - np.square(np.subtract(mean, alternative)))


#: A scale is used from this many times its ρ on.
SMALLEST_RATIO = 20.0


@dataclass(frozen=True)
class Scales:
    """A geometric grid of ρ with weights that sum to at most one: one mixture that is tight over many decades of n.

    The average over the grid of e-processes is one, and each of its terms is below it, so any may be used at any time.

    Attributes:
        rho: (L,) increasing.
        weight: (L,) positive, sum at most 1.
    """

    rho: Floats
    weight: Floats

    @classmethod
    def around(cls, n: float, alpha: float, ratio: float = 32.0, above: int = 8) -> Scales:
        """Half of the weight tuned to n pulls at level α, a quarter each to geometrically fewer and more.

        The j-th scale away from the centre gets a share 1/(j(j + 1)); below it scales go down to one pull.
        """
        below = max(0, int(np.ceil(np.log(max(n, 1.0)) / np.log(ratio))))
        level = np.arange(-below, above + 1)
        away = np.maximum(np.abs(level), 1.0)
        weight = np.where(level == 0, 0.5, 0.25 / (away * (away + 1)))
        return cls(float(tuned_rho(n, alpha)) * ratio ** level.astype(float), weight)

    def pair_evidence(self, difference: ArrayLike, n_a: ArrayLike, n_b: ArrayLike) -> Floats:
        """`pair_evidence` at the scale that suits the pulls, plus the logarithm of its weight; broadcast shape."""
        # The smaller number of pulls decides; n/ρ from 20 to 640 is within a nat of the best ρ at any usual level.
        small = np.maximum(np.minimum(n_a, n_b), 1)
        steps = np.log(small / (SMALLEST_RATIO * self.rho[0])) / np.log(self.rho[1] / self.rho[0])
        level = np.clip(steps, 0, self.rho.size - 1).astype(np.int64)
        return pair_evidence(difference, n_a, n_b, self.rho[level]) + np.log(self.weight)[level]
