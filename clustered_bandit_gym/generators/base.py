"""Where instances come from: callables `rng -> Instance`; their names and base classes.

A generator is a frozen set of plain settings, so it can be named in an environment's specification
and written to JSON. Every instance it draws satisfies Assumption 1 with the generator's η by
construction. Agents are shuffled over the clusters and the best arms over the arms (except in the
paper's first data set, whose means are fixed): an index carries no information.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pkgutil import resolve_name
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints, Rng, Shape, Values
from clustered_bandit_gym.errors import UnknownSetting, UserError
from clustered_bandit_gym.game.checks import check_choice, whole
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Gaussian, RewardModel
from clustered_bandit_gym.imports import load_object

#: What `RandomMeans.draw_parts` draws.
Parts = tuple[Floats, ...]
#: Random means keep this much more distance than stated: rounding cannot break an assumption.
HAIR = 1e-12


@dataclass(frozen=True)
class Batch:
    """n instances with one reward model; `batch[i]` makes the i-th as an `Instance`.

    Attributes:
        means: (n, M, K). Every bandit has one best arm, every pair of bandits of an instance
            different ones.
        clusters: (n, N) the cluster of each agent.
        rewards: law around the means. A `Categorical` has the same laws in all n instances.
    """

    means: Floats
    clusters: Ints
    rewards: RewardModel

    @classmethod
    def repeat(cls, instance: Instance, n: int) -> Batch:
        """The same instance n times, without copying its arrays."""
        return cls(
            np.broadcast_to(instance.means, (n, *instance.means.shape)),
            np.broadcast_to(instance.clusters, (n, instance.n_agents)),
            instance.rewards,
        )

    def __getitem__(self, i: int) -> Instance:
        return Instance(self.means[i], self.clusters[i], self.rewards)

    @property
    def separation(self) -> dict[str, Floats]:
        """The largest "eta" and "eta1" (n,) of Assumptions 1 and 2; inf for a single cluster."""
        best, top = self.means.argmax(axis=2), self.means.max(axis=2)
        # Entry (a, b): the mean in bandit a of the best arm of bandit b.
        at_best = np.take_along_axis(self.means, best[:, None, :], axis=2)
        diagonal = np.diag(np.full(best.shape[1], np.inf))
        return {
            "eta": (top[:, :, None] - at_best + diagonal).min(axis=(1, 2)),
            "eta1": (np.abs(top[:, None, :] - at_best) + diagonal).min(axis=(1, 2)),
        }


@dataclass(frozen=True, kw_only=True)
class InstanceGenerator(ABC):
    """Settings and a call. Subclasses are frozen dataclasses.

    Settings that all share: `n_agents`; `sizes`, how agents fall into clusters: "equal" (N/M each,
    the remainder spread over the first clusters), "uniform" (each agent's cluster uniformly at
    random) or "power" (cluster i = 1..M with probability ∝ i^alpha). With the last two a cluster
    may stay empty.
    """

    sizes: Any = "equal"
    alpha: float = 0.0
    # Subclasses have these as settings, or compute them.
    n_agents = n_clusters = n_arms = 0

    def __post_init__(self) -> None:
        model = getattr(self, "rewards", None)
        if isinstance(model, RewardModel):  # settings are plain values
            vars(self)["rewards"] = type(model).__name__.lower()
            if isinstance(model, Gaussian):
                vars(self)["sigma"] = model.sigma
        for setting in ("n_agents", "n_clusters", "n_arms"):
            whole(getattr(self, setting), setting)
        if isinstance(self.sizes, str):
            check_choice("sizes", self.sizes, ("equal", "uniform", "power"))
        if not np.isfinite(self.alpha) or (self.alpha != 0 and self.sizes != "power"):
            raise UserError(f"alpha must be finite, 0 without sizes='power'; got {self.alpha}")

    @property
    def declared(self) -> Values:
        """What the learner is told instead of the truth, e.g. {"eta": 0.3}; {} means the truth."""
        return {}

    @abstractmethod
    def __call__(self, rng: Rng) -> Instance:
        """A fresh instance."""

    def batch(self, rng: Rng, n: int) -> Batch | None:
        """`n` fresh instances at once, with the law of `n` calls but other draws; None without a
        batch form. All batches have the same number of clusters and the same reward model."""
        return None

    def draw_clusters(self, rng: Rng, n: int | None = None) -> Ints:
        """(N,) the cluster of each agent; (n, N) for `n` instances."""
        size = self.n_agents if n is None else (n, self.n_agents)
        if self.sizes == "uniform":
            return rng.integers(self.n_clusters, size=size)
        if self.sizes == "power":
            from scipy.special import softmax

            shares = softmax(self.alpha * np.log(np.arange(1, self.n_clusters + 1)))
            return rng.choice(self.n_clusters, size=size, p=shares)
        return shuffled(rng, np.arange(self.n_agents) % self.n_clusters, n)


class FixedBandits(InstanceGenerator):
    """A generator whose bandits are fixed: every draw assigns the agents to them."""

    @property
    @abstractmethod
    def bandits(self) -> Instance:
        """The bandits, one agent in each."""

    @property
    def n_clusters(self) -> int:  # type: ignore[override]
        return self.bandits.n_clusters

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return self.bandits.n_arms

    def __call__(self, rng: Rng) -> Instance:
        return self.bandits.with_clusters(self.draw_clusters(rng))


class RandomMeans(InstanceGenerator):
    """A generator of random means; M arms, chosen at random, are the best ones."""

    eta: float
    largest_eta = 0.5
    #: Arms that each cluster needs for itself.
    own_arms = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.eta, "eta", HAIR, self.largest_eta)
        needed = self.own_arms * self.n_clusters
        if self.n_arms < needed:
            raise UserError(
                f"{self.n_clusters} clusters need n_arms >= {needed}, got {self.n_arms}"
            )

    @abstractmethod
    def draw_parts(self, rng: Rng, shape: Shape) -> Parts:
        """Means of bandits (..., M) = `shape`: at the own best arm (..., M), at those of other
        bandits (..., M, M), whose diagonal is ignored, and at the rest (..., M, K − M), which are
        kept strictly below the best."""

    def draw_means(self, rng: Rng, n: int | None = None) -> Floats:
        """(M, K) mean rewards; (n, M, K) for `n` instances."""
        arms = shuffled(rng, np.arange(self.n_arms), n)  # first the best arm of each bandit
        own, rivals, others = self.draw_parts(rng, (*arms.shape[:-1], self.n_clusters))
        at_best = np.where(np.eye(self.n_clusters, dtype=bool), own[..., None], rivals)
        others = np.minimum(others, np.nextafter(own, -np.inf)[..., None])
        means = np.concatenate([at_best, others], axis=-1)
        return np.take_along_axis(means, arms.argsort()[..., None, :], axis=-1)

    def model(self, rng: Rng, means: Floats) -> RewardModel:
        """The law of the rewards around `means` (M, K)."""
        return Gaussian()

    def __call__(self, rng: Rng) -> Instance:
        means = self.draw_means(rng)
        return Instance(means, self.draw_clusters(rng), self.model(rng, means))

    def batch(self, rng: Rng, n: int) -> Batch | None:
        means = self.draw_means(rng, n)
        return Batch(means, self.draw_clusters(rng, n), self.model(rng, means))


def check_range(value: float, name: str, low: float, high: float) -> None:
    """Refuse a setting outside [low, high], and NaN."""
    if not low <= value <= high:
        raise UserError(f"{name} must lie between {low:g} and {high:g}, got {value}")


def shuffled(rng: Rng, values: Ints, n: int | None) -> Ints:
    """`values` in random order; for a number n, n rows of them, each in an order of its own."""
    if n is None:
        return rng.permutation(values)
    return rng.permuted(np.broadcast_to(values, (n, values.size)), axis=1)


#: Generators by name, "module:Class" within the package: imported when first asked for, some bring
#: data with them.
GENERATORS: dict[str, str] = {
    "paper-small": "generators.paper:PaperSmall",
    "paper-random": "generators.paper:PaperRandom",
    "paper-flat": "generators.paper:PaperFlat",
    "near-tie": "generators.synthetic:NearTie",
    "random": "generators.synthetic:RandomFamily",
    "tiny": "generators.synthetic:Tiny",
    "fixed-means": "generators.fixed_means:FixedMeans",
    "flights": "datasets.generators:Flights",
    "movielens": "datasets.generators:MovieLens",
    "movielens-like": "datasets.generators:MovieLensLike",
    "yelp": "datasets.generators:Yelp",
    "yelp-like": "datasets.generators:YelpLike",
}


def make_generator(
    name_or_callable: str | Callable[[Rng], Instance], **settings: Any
) -> Callable[[Rng], Instance]:
    """The generator of that name with these settings; a callable is returned as it is.

    ``module:attribute`` names one of your own: a class is called with the settings and must return
    a generator; a function ``f(rng, **settings) -> Instance`` is the generator.

    Raises:
        UserError: unknown name or setting; the message lists what is known.
    """
    if not isinstance(name_or_callable, str):
        if settings or not callable(name_or_callable):
            raise UserError(
                "a generator is a name or a callable rng -> Instance; one that is already made takes "
                f"no settings; got {name_or_callable!r} with settings {sorted(settings)}"
            )
        return name_or_callable
    what = f"generator {name_or_callable!r}"
    own = ":" in name_or_callable
    kind: Any = load_object(name_or_callable, what) if own else generator_class(name_or_callable)
    known: list[str] = []
    try:
        known += signature(kind).parameters
        if isinstance(kind, type):
            kind, settings = kind(**settings), {}
        signature(kind).bind(None, **settings)
    except TypeError as error:
        raise UnknownSetting(
            f"{what}: {error}; keywords that cbg.ClusteredBAIEnv does not have go to its generator, "
            f'which has {", ".join(known)} (told={{"eta": 0.1}} tells the learner another value)',
            settings.keys() - known,
            known,
        ) from None
    return partial(kind, **settings) if settings else kind


def generator_class(name: str) -> type[InstanceGenerator]:
    """The class of that name; `UserError` lists what is known."""
    if name not in GENERATORS:
        known = ", ".join(GENERATORS)
        raise UserError(f"unknown generator {name!r}; known: {known}, or module:callable")
    return resolve_name(f"clustered_bandit_gym.{GENERATORS[name]}")
