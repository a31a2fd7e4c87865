"""The paper's synthetic data sets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from clustered_bandit_gym._types import Rng, Shape, Values
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.generators.base import HAIR, Batch, FixedBandits, Parts, RandomMeans

#: Mean rewards of the paper's first data set ("Synthetic Datasets", first): three bandits with ten
#: arms.
PAPER_SMALL_MEANS = (
    (0.09, 0.26, 0.49, 0.91, 0.56, 0.16, 0.31, 0.75, 0.76, 0.77),
    (0.02, 0.27, 0.36, 0.42, 0.47, 0.92, 0.32, 0.62, 0.82, 0.90),
    (0.14, 0.46, 0.64, 0.44, 0.70, 0.03, 0.96, 0.72, 0.79, 0.95),
)


@dataclass(frozen=True)
class PaperSmall(FixedBandits):
    """The paper's first data set: M = 3, K = 10, fixed means. Declares η = η1 = 0.3 as the paper
    does, although the means give 0.5 and 0.47: a lower bound is all that a scheme needs."""

    n_agents: int = 9

    @property
    def declared(self) -> Values:
        return {"eta": 0.3, "eta1": 0.3}

    @cached_property
    def bandits(self) -> Instance:
        return Instance(PAPER_SMALL_MEANS, range(3))

    def batch(self, rng: Rng, n: int) -> Batch:
        return replace(Batch.repeat(self.bandits, n), clusters=self.draw_clusters(rng, n))


@dataclass(frozen=True)
class _LargePaper(RandomMeans):
    """Settings of the paper's second and third data sets, which declare η = η1 = `eta`."""

    n_agents: int = 200
    n_clusters: int = 20
    n_arms: int = 100
    eta: float = 0.15

    @property
    def declared(self) -> Values:
        return {"eta": self.eta, "eta1": self.eta}


@dataclass(frozen=True)
class PaperRandom(_LargePaper):
    """The paper's second data set: random means. Assumptions 1 and 2 hold with `eta`, as declared.

    In each bandit the best arm's mean is U(1 − η, 1), those of the other bandits' best arms are
    U(0, 1 − 2η), the rest U(0, own best mean). Its smallest gap has a density at 0, so the mean
    number of pulls of any scheme over fresh instances is infinite: report medians, or fix the
    instance.
    """

    def draw_parts(self, rng: Rng, shape: Shape) -> Parts:
        own = rng.uniform(1 - self.eta, 1, shape)
        rivals = rng.uniform(0, max(0.0, 1 - 2 * self.eta - HAIR), (*shape, self.n_clusters))
        others = own[..., None] * rng.random((*shape, self.n_arms - self.n_clusters))
        return own, rivals, others


@dataclass(frozen=True)
class PaperFlat(_LargePaper):
    """The paper's third data set: each bandit's best arm has mean 1, all other arms 1 − η. Declares
    η = η1 = `eta`.

    In floating point 1 − (1 − η) may miss η in the last digit; `Problem.of` allows for that.
    """

    largest_eta = 1 / HAIR

    def draw_parts(self, rng: Rng, shape: Shape) -> Parts:
        worse = np.full((*shape, self.n_arms), 1 - self.eta)
        return np.ones(shape), *np.split(worse, [self.n_clusters], axis=-1)
