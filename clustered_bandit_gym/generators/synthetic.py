"""Random instances with stated separations and gaps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from clustered_bandit_gym._types import Floats, Rng, Shape, Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import check_choice
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel
from clustered_bandit_gym.generators.base import HAIR, Batch, Parts, RandomMeans, check_range


@dataclass(frozen=True)
class NearTie(RandomMeans):
    """Every bandit has one runner-up at distance `gap` from the best arm; all other arms are at
    least `eta` worse.

    Each bandit has a runner-up of its own, an arm that is far from the best everywhere else, so no
    knowledge of the other bandits helps: the gap has to be resolved. Needs K ≥ 2M. Means lie in [0,
    1]; the truth is declared.
    """

    n_agents: int = 9
    n_clusters: int = 3
    n_arms: int = 10
    eta: float = 0.3
    gap: float = 0.01
    own_arms = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.gap, "gap", HAIR, self.eta)

    def draw_parts(self, rng: Rng, shape: Shape) -> Parts:
        own = rng.uniform(1 - self.eta, 1, shape)
        high = max(0.0, 1 - 2 * self.eta - HAIR)
        rivals = rng.uniform(0, high, (*shape, self.n_clusters))
        others = rng.uniform(0, high, (*shape, self.n_arms - self.n_clusters))
        m = np.arange(self.n_clusters)
        others[..., m, m] = own - self.gap
        return own, rivals, others


@dataclass(frozen=True)
class RandomFamily(RandomMeans):
    """Fuzzing: random means in [0, 1], `rewards` "gaussian", "bernoulli" or "categorical" (five
    values in [0, 1]).

    Best means are U(max(η, η1, gap), 1), another bandit's best arm is uniform on what Assumption 1
    with `eta` and Assumption 2 with `eta1` leave, every other arm is U(0, best − gap). The truth is
    declared.
    """

    n_agents: int = 12
    n_clusters: int = 3
    n_arms: int = 6
    eta: float = 0.2
    eta1: float = 0.05
    gap: float = 0.01
    rewards: str | RewardModel = "gaussian"
    sigma: float = 1.0
    sizes: str = field(default="uniform", kw_only=True)
    largest_eta = 1 - 1e-9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.eta1, "eta1", 0.0, 1 - 1e-9)
        check_range(self.gap, "gap", 1e-9, 1 - 1e-9)
        check_choice("rewards", self.rewards, ("gaussian", "bernoulli", "categorical"))
        if self.rewards != "gaussian" and self.sigma != type(self).sigma:
            raise UserError(f"sigma is a setting of Gaussian rewards, not of {self.rewards} ones")
        Gaussian(self.sigma)

    def model(self, rng: Rng, means: Floats) -> RewardModel:
        if self.rewards != "categorical":
            return Bernoulli() if self.rewards == "bernoulli" else Gaussian(self.sigma)
        # Uniform on the simplex, then mixed with the value at the end of the support towards which
        # the mean has to move.
        support = np.linspace(0, 1, 5)
        laws = rng.dirichlet(np.ones(support.size), means.shape)
        drawn = laws @ support
        weight = np.where(means < drawn, 1 - means / drawn, (means - drawn) / (1 - drawn))
        mixed = (1 - weight)[..., None] * laws
        end = np.where(means < drawn, 0, -1)
        mixed[(*np.indices(means.shape), end)] += weight
        return Categorical(support, mixed)

    def draw_parts(self, rng: Rng, shape: Shape) -> Parts:
        own = rng.uniform(max(self.eta, self.eta1, self.gap) + HAIR, 1, shape)
        below = np.maximum(own - self.gap - HAIR, 0)[..., None]
        others = below * rng.random((*shape, self.n_arms - self.n_clusters))
        # Assumption 1 leaves [0, own_j − η] for i's best arm in bandit j, entry (j, i); Assumption 2
        # cuts out (own_i − η1, own_i + η1).
        top = np.maximum(own[..., :, None] - self.eta - HAIR, 0)
        low = np.maximum(np.minimum(top, own[..., None, :] - self.eta1 - HAIR), 0)
        restart = own[..., None, :] + self.eta1 + HAIR
        above = np.maximum(top - restart, 0)
        point = rng.random(top.shape) * (low + above)
        rivals = np.where(point <= low, point, np.minimum(restart + (point - low), top))
        return own, rivals, others

    def batch(self, rng: Rng, n: int) -> Batch | None:
        # Every instance has categorical laws of its own, which a batch does not hold.
        return None if self.rewards == "categorical" else super().batch(rng, n)


@dataclass(frozen=True)
class Tiny(RandomFamily):
    """Training: so small that a learner sees many episodes, and clusters of which sharing pays.

    As `RandomFamily`, with larger separations. Declares its `eta` and `eta1`, the same in every
    episode. Its Gaussian rewards have σ = 0.4 and so η/σ = 1.25: an episode takes tens of pulls.
    """

    n_agents: int = 4
    n_clusters: int = 2
    n_arms: int = 3
    eta: float = 0.5
    eta1: float = 0.25
    gap: float = 0.25
    sigma: float = 0.4
    sizes: str = field(default="equal", kw_only=True)

    @property
    def declared(self) -> Values:
        return {"eta": self.eta, "eta1": self.eta1} if self.eta1 > 0 else {"eta": self.eta}
