"""Where instances come from: callables `rng -> Instance`.

A generator is a frozen set of plain settings, so it can be named in an environment's specification and written to JSON.
Every instance it draws satisfies Assumption 1 with the generator's η by construction. Agents are shuffled over the
clusters and the best arms over the arms (except in the paper's first data set, whose means are fixed): an index tells
a learner nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Floats, Gaussian, Ints, RewardModel

SIZES = ("equal", "uniform", "power")
REWARDS = ("gaussian", "bernoulli", "categorical")

#: Random means keep this much more distance than stated, so that rounding cannot break an assumption.
_HAIR = 1e-12

#: Mean rewards of the paper's first data set ("Synthetic Datasets", first): three bandits with ten arms.
PAPER_SMALL_MEANS = (
    (0.09, 0.26, 0.49, 0.91, 0.56, 0.16, 0.31, 0.75, 0.76, 0.77),
    (0.02, 0.27, 0.36, 0.42, 0.47, 0.92, 0.32, 0.62, 0.82, 0.90),
    (0.14, 0.46, 0.64, 0.44, 0.70, 0.03, 0.96, 0.72, 0.79, 0.95),
)


class InstanceGenerator(ABC):
    """Settings and a call. Subclasses are frozen dataclasses.

    Settings that all share: `n_agents`; `sizes`, how agents fall into clusters: "equal" (N/M each, the remainder spread
    over the first clusters), "uniform" (each agent's cluster uniformly at random) or "power" (cluster i = 1..M with
    probability ∝ i^alpha). With the last two a cluster may stay empty.
    """

    name: ClassVar[str]
    n_agents: int
    n_clusters: int
    n_arms: int
    sizes: str
    alpha: float

    def __post_init__(self) -> None:
        for setting in ("n_agents", "n_clusters", "n_arms"):
            _whole(setting, getattr(self, setting))
        if self.n_arms < self.n_clusters:
            raise ValueError(f"{self.n_clusters} clusters need as many best arms, but n_arms is {self.n_arms}")
        if self.sizes not in SIZES:
            raise ValueError(f"sizes must be one of {', '.join(SIZES)}, got {self.sizes!r}")
        if not np.isfinite(self.alpha):
            raise ValueError(f"alpha must be a finite number, got {self.alpha}")
        if self.alpha != 0 and self.sizes != "power":
            raise ValueError(f"alpha = {self.alpha} has an effect with sizes='power' only, not with {self.sizes!r}")

    @property
    def declared(self) -> dict[str, float]:
        """What the learner is told instead of the truth, e.g. {"eta": 0.3}; {} means the truth."""
        return {}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as plain values: `make_generator(self.name, **self.settings)` makes an equal generator."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}  # type: ignore[arg-type]

    @abstractmethod
    def __call__(self, rng: np.random.Generator) -> Instance:
        """A fresh instance."""

    def draw_clusters(self, rng: np.random.Generator) -> Ints:
        """(N,) the cluster of each agent."""
        if self.sizes == "uniform":
            return rng.integers(self.n_clusters, size=self.n_agents)
        if self.sizes == "power":
            log_weights = self.alpha * np.log(np.arange(1, self.n_clusters + 1))
            weights = np.exp(log_weights - log_weights.max())
            return rng.choice(self.n_clusters, size=self.n_agents, p=weights / weights.sum())
        return rng.permutation(np.arange(self.n_agents) % self.n_clusters)

    def _split_arms(self, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """The best arm of each cluster (M,) and the other arms (K − M,), at random."""
        arms = rng.permutation(self.n_arms)
        return arms[: self.n_clusters], arms[self.n_clusters :]


@dataclass(frozen=True)
class PaperSmall(InstanceGenerator):
    """The paper's first data set: M = 3, K = 10, fixed means. Declares η = η1 = 0.3 as the paper does, although the
    means give 0.5 and 0.47: a lower bound is all that a scheme needs."""

    n_agents: int = 9
    sizes: str = "equal"
    alpha: float = 0.0
    n_clusters: int = field(default=3, init=False)
    n_arms: int = field(default=10, init=False)
    name: ClassVar[str] = "paper-small"

    @property
    def declared(self) -> dict[str, float]:
        return {"eta": 0.3, "eta1": 0.3}

    def __call__(self, rng: np.random.Generator) -> Instance:
        return Instance(np.array(PAPER_SMALL_MEANS), self.draw_clusters(rng))


@dataclass(frozen=True)
class PaperRandom(InstanceGenerator):
    """The paper's second data set: random means; Assumptions 1 and 2 hold with `eta`, which is what it declares.

    In each bandit the best arm's mean is U(1 − η, 1), those of the other bandits' best arms are U(0, 1 − 2η), the rest
    U(0, own best mean). Its smallest gap has a density at 0, so the mean number of pulls of any scheme over fresh
    instances is infinite: report medians, or fix the instance.
    """

    n_agents: int = 200
    n_clusters: int = 20
    n_arms: int = 100
    eta: float = 0.15
    sizes: str = "equal"
    alpha: float = 0.0
    name: ClassVar[str] = "paper-random"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.eta <= 0.5:
            raise ValueError(f"eta must be positive and at most 0.5 (means are U(0, 1 - 2 eta)), got {self.eta}")

    @property
    def declared(self) -> dict[str, float]:
        return {"eta": self.eta, "eta1": self.eta}

    def __call__(self, rng: np.random.Generator) -> Instance:
        best, rest = self._split_arms(rng)
        own = rng.uniform(1 - self.eta, 1, self.n_clusters)
        rivals = rng.uniform(0, max(0.0, 1 - 2 * self.eta - _HAIR), (self.n_clusters, self.n_clusters))
        means = _assemble(own, rivals, own[:, None] * rng.random((self.n_clusters, rest.size)), best, rest)
        return Instance(means, self.draw_clusters(rng))


@dataclass(frozen=True)
class PaperFlat(InstanceGenerator):
    """The paper's third data set: each bandit's best arm has mean 1, all other arms 1 − η. Declares η = η1 = `eta`.

    In floating point 1 − (1 − η) may miss η in the last digit; `Problem.of` allows for that.
    """

    n_agents: int = 200
    n_clusters: int = 20
    n_arms: int = 100
    eta: float = 0.15
    sizes: str = "equal"
    alpha: float = 0.0
    name: ClassVar[str] = "paper-flat"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.eta < np.inf or 1 - self.eta == 1:
            raise ValueError(f"eta must be a positive number (not lost beside 1), got {self.eta}")

    @property
    def declared(self) -> dict[str, float]:
        return {"eta": self.eta, "eta1": self.eta}

    def __call__(self, rng: np.random.Generator) -> Instance:
        best, _ = self._split_arms(rng)
        means = np.full((self.n_clusters, self.n_arms), 1 - self.eta)
        means[np.arange(self.n_clusters), best] = 1.0
        return Instance(means, self.draw_clusters(rng))


@dataclass(frozen=True)
class NearTie(InstanceGenerator):
    """Every bandit has one runner-up at distance `gap` from the best arm; all other arms are at least `eta` worse.

    Each bandit has a runner-up of its own, an arm that is far from the best everywhere else, so no knowledge of the
    other bandits helps: the gap has to be resolved. Needs K ≥ 2M. Means lie in [0, 1]; the truth is declared.
    """

    n_agents: int = 9
    n_clusters: int = 3
    n_arms: int = 10
    eta: float = 0.3
    gap: float = 0.01
    sizes: str = "equal"
    alpha: float = 0.0
    name: ClassVar[str] = "near-tie"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_arms < 2 * self.n_clusters:
            raise ValueError(
                f"each of the {self.n_clusters} clusters needs a best arm and a runner-up of its own: "
                f"n_arms must be at least {2 * self.n_clusters}, got {self.n_arms}"
            )
        if not 0 < self.eta <= 0.5:
            raise ValueError(f"eta must be positive and at most 0.5, got {self.eta}")
        if not 1e-12 <= self.gap <= self.eta:
            raise ValueError(f"gap must lie between 1e-12 and eta = {self.eta}, got {self.gap}")

    def __call__(self, rng: np.random.Generator) -> Instance:
        best, rest = self._split_arms(rng)
        own = rng.uniform(1 - self.eta, 1, self.n_clusters)
        low = max(0.0, 1 - 2 * self.eta - _HAIR)
        rivals = rng.uniform(0, low, (self.n_clusters, self.n_clusters))
        others = rng.uniform(0, low, (self.n_clusters, rest.size))
        np.fill_diagonal(others, own - self.gap)
        return Instance(_assemble(own, rivals, others, best, rest), self.draw_clusters(rng))


@dataclass(frozen=True)
class _Separated(InstanceGenerator):
    """Random means in [0, 1] with stated η, η1 and smallest gap, under any reward model."""

    n_agents: int = 12
    n_clusters: int = 3
    n_arms: int = 6
    eta: float = 0.2
    eta1: float = 0.05
    gap: float = 0.01
    rewards: str = "gaussian"
    sigma: float = 1.0
    sizes: str = "uniform"
    alpha: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting, low in (("eta", 1e-9), ("eta1", 0.0), ("gap", 1e-9)):
            if not low <= getattr(self, setting) < 1 - 1e-9:
                raise ValueError(f"{setting} must be at least {low} and below 1, got {getattr(self, setting)}")
        if self.rewards not in REWARDS:
            raise ValueError(f"rewards must be one of {', '.join(REWARDS)}, got {self.rewards!r}")
        if self.rewards != "gaussian" and self.sigma != type(self).sigma:
            raise ValueError(f"sigma is a setting of Gaussian rewards; {self.rewards} rewards bring their own")
        Gaussian(self.sigma)

    def __call__(self, rng: np.random.Generator) -> Instance:
        best, rest = self._split_arms(rng)
        own = rng.uniform(max(self.eta, self.eta1, self.gap) + _HAIR, 1, self.n_clusters)
        others = np.maximum(own - self.gap - _HAIR, 0)[:, None] * rng.random((self.n_clusters, rest.size))
        means = _assemble(own, self._rival_means(rng, own), others, best, rest)
        clusters = self.draw_clusters(rng)
        if self.rewards == "categorical":
            return Instance(None, clusters, _categorical_with(means, rng))
        model: RewardModel = Bernoulli() if self.rewards == "bernoulli" else Gaussian(self.sigma)
        return Instance(means, clusters, model)

    def _rival_means(self, rng: np.random.Generator, own: Floats) -> Floats:
        """(M, M) entry (j, i): mean of i's best arm in bandit j, uniform on what the two assumptions leave.

        Assumption 1 leaves [0, own_j − η]; Assumption 2 cuts out (own_i − η1, own_i + η1).
        """
        top = np.maximum(own[:, None] - self.eta - _HAIR, 0)
        below = np.maximum(np.minimum(top, own[None, :] - self.eta1 - _HAIR), 0)
        restart = own[None, :] + self.eta1 + _HAIR
        above = np.maximum(top - restart, 0)
        point = rng.random(top.shape) * (below + above)
        return np.where(point <= below, point, np.minimum(restart + (point - below), top))


@dataclass(frozen=True)
class RandomFamily(_Separated):
    """Fuzzing: random means in [0, 1], `rewards` "gaussian", "bernoulli" or "categorical" (five values in [0, 1]).

    Best means are U(max(η, η1, gap), 1), another bandit's best arm is uniform on what Assumption 1 with `eta` and
    Assumption 2 with `eta1` leave, every other arm is U(0, best − gap). The truth is declared.
    """

    name: ClassVar[str] = "random"


@dataclass(frozen=True)
class Tiny(_Separated):
    """Training: so small that a learner sees many episodes, with few agents to a cluster so that sharing pays.

    As `RandomFamily`, with larger separations. Declares its `eta` and `eta1`, the same in every episode. Its Gaussian
    rewards have σ = 0.4 and so η/σ = 1.25: an episode takes tens of pulls, not hundreds.
    """

    n_agents: int = 4
    n_clusters: int = 2
    n_arms: int = 3
    eta: float = 0.5
    eta1: float = 0.25
    gap: float = 0.25
    sigma: float = 0.4
    sizes: str = "equal"
    name: ClassVar[str] = "tiny"

    @property
    def declared(self) -> dict[str, float]:
        return {"eta": self.eta, "eta1": self.eta1} if self.eta1 > 0 else {"eta": self.eta}


GENERATORS: dict[str, type[InstanceGenerator]] = {
    kind.name: kind for kind in (PaperSmall, PaperRandom, PaperFlat, NearTie, RandomFamily, Tiny)
}
#: Generators that bring data with them, "module:class": imported when first asked for.
LAZY_GENERATORS = {
    "movielens": "clustered_bandit_gym.datasets.generators:MovieLens",
    "movielens-like": "clustered_bandit_gym.datasets.generators:MovieLensLike",
    "yelp": "clustered_bandit_gym.datasets.generators:Yelp",
    "yelp-like": "clustered_bandit_gym.datasets.generators:YelpLike",
}


def make_generator(
    name_or_callable: str | Callable[[np.random.Generator], Instance], **settings: Any
) -> Callable[[np.random.Generator], Instance]:
    """The generator of that name with these settings; a callable is handed back as it is (and takes none).

    Raises:
        ValueError: unknown name or setting; the message lists what is known.
    """
    if not isinstance(name_or_callable, str):
        if not callable(name_or_callable):
            raise ValueError(f"a generator is a name or a callable rng -> Instance, got {name_or_callable!r}")
        if settings:
            raise ValueError(f"settings {sorted(settings)} were given for a generator that is already made")
        return name_or_callable
    kind = generator_class(name_or_callable)
    known = [one.name for one in fields(kind) if one.init]  # type: ignore[arg-type]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ValueError(
            f"generator {name_or_callable!r} has no setting {', '.join(unknown)}; its settings: {', '.join(known)}"
        )
    return kind(**settings)


def generator_class(name: str) -> type[InstanceGenerator]:
    """The class of that name; `ValueError` lists what is known."""
    if name in LAZY_GENERATORS:
        module, _, attribute = LAZY_GENERATORS[name].partition(":")
        return getattr(import_module(module), attribute)
    if name not in GENERATORS:
        raise ValueError(f"unknown generator {name!r}; known: {', '.join([*GENERATORS, *LAZY_GENERATORS])}")
    return GENERATORS[name]


def _whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")


def _assemble(own: Floats, rivals: Floats, others: Floats, best: Ints, rest: Ints) -> Floats:
    """Means (M, K): `own` (M,) at the best arms, `rivals` (M, M) at those of other bandits (its diagonal is ignored),
    `others` (M, K − M) at the rest, kept strictly below the best."""
    means = np.empty((own.size, best.size + rest.size))
    means[:, best] = rivals
    means[:, rest] = np.minimum(others, np.nextafter(own, -np.inf)[:, None])
    means[np.arange(own.size), best] = own
    return means


def _categorical_with(means: Floats, rng: np.random.Generator) -> Categorical:
    """Random laws on five values in [0, 1] with the given means (M, K): uniform on the simplex, then mixed with
    the value at the end of the support towards which the mean has to move."""
    support = np.linspace(0, 1, 5)
    laws = rng.dirichlet(np.ones(support.size), means.shape)
    drawn = laws @ support
    weight = np.where(means < drawn, 1 - means / drawn, (means - drawn) / (1 - drawn))
    mixed = (1 - weight)[..., None] * laws
    mixed[..., 0] += np.where(means < drawn, weight, 0)
    mixed[..., -1] += np.where(means < drawn, 0, weight)
    return Categorical(support, mixed)
