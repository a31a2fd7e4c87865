"""A game as the arguments of an environment describe it."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym._types import Array, Bools, Floats, Ints, Rng, Values
from clustered_bandit_gym.errors import UnknownSetting, UserError
from clustered_bandit_gym.game.checks import amount
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.problem import TRUTH, Problem
from clustered_bandit_gym.game.pulls import Source
from clustered_bandit_gym.game.rewards import Bernoulli, Gaussian, RewardModel
from clustered_bandit_gym.game.seeds import Seed
from clustered_bandit_gym.game.tables import is_log
from clustered_bandit_gym.generators import Batch, make_generator

#: Arrays by name, with a row for each instance.
Arrays = dict[str, Array]
#: What a learner may be told of the truth, and what it reads in place of a hidden value.
HIDDEN = {"n_clusters": 0, "eta": 0.0, "eta1": 0.0, "support": (-np.inf, np.inf)}


class Law(NamedTuple):
    """What a play needs of an instance.

    Attributes:
        rewards, means, clusters: as in `Instance`.
        best: (M,) the best arm of each cluster.
        good: (M, K) whether the arm is good enough, in each cluster.
    """

    rewards: RewardModel
    means: Floats
    clusters: Ints
    best: Ints
    good: Bools


class GameSettings:
    """Draws instances and makes plays on them, without episodes.

    The arguments are those of `ClusteredBAIEnv`. Public: `n_agents`, `n_arms`, `delta`, `epsilon`,
    `max_pulls`, `max_pulls_per_agent`, `c_b`, `c_r`.
    """

    def __init__(
        self,
        instance: Any = None,
        generator: Any = None,
        generator_kwargs: Values | None = None,
        instance_seed: Seed | None = None,
        delta: float = 0.05,
        told: Values | None = None,
        sigma: float | None = None,
        check: bool = True,
        epsilon: float = 0.0,
        max_pulls: int | None = None,
        max_pulls_per_agent: int | None = None,
        c_b: float = 1.0,
        c_r: float = 32.0,
        **settings: Any,
    ) -> None:
        generator_kwargs = generator_kwargs or {}
        if twice := sorted(set(settings) & set(generator_kwargs)):
            raise UserError(f"{', '.join(twice)}: given both as a keyword and in generator_kwargs")
        settings = {key: value for key, value in settings.items() if value is not None}
        if not isinstance(told, dict | None) or set(told or {}) - set(HIDDEN):
            raise UserError(
                f"told takes a dict of {', '.join(HIDDEN)}, and --hide these names; got {told!r}"
            )
        kinds = [kind for kind in type(self).mro() if issubclass(kind, GameSettings)]
        try:
            source = _source(instance, generator, settings | generator_kwargs)
        except UnknownSetting as error:
            raise error.among(*kinds) from None
        self._generator = source
        #: The instance of every episode, if `instance` or `instance_seed` fixes one.
        self.fixed_instance = source if isinstance(source, Instance) else None
        self._told = {**getattr(source, "declared", {}), **(told or {})}
        self._sigma = sigma
        self._check = bool(check)
        self.delta = delta
        self.epsilon = epsilon
        self.max_pulls = max_pulls
        self.max_pulls_per_agent = max_pulls_per_agent
        self.c_b = amount(c_b, "c_b")
        self.c_r = amount(c_r, "c_r")
        if instance_seed is not None:
            self.fixed_instance = self.draw_instance(instance_seed)
        # The sizes of the spaces come from an instance: a user's generator need not know them.
        sample = self.draw_instance(0)
        self.n_agents = sample.n_agents
        self.n_arms = sample.n_arms
        # Refuses bad values of delta, told, max_pulls, c_b, c_r now rather than at reset.
        self.federation_on(sample, 0)

    def draw_instance(self, seed: Seed) -> Instance:
        """The instance that `seed` draws, or the fixed one where there is one."""
        if self.fixed_instance is not None:
            return self.fixed_instance
        drawn = self._generator(np.random.default_rng(seed))
        if not isinstance(drawn, Instance):
            raise TypeError(f"the generator must return an Instance, got {type(drawn).__name__}")
        return drawn

    def check_size(self, instance: Instance) -> None:
        """`ValueError` if `instance` does not fit the spaces."""
        drawn = (instance.n_agents, instance.n_arms)
        expected = (self.n_agents, self.n_arms)
        if drawn != expected:
            raise UserError(
                f"the generator drew an instance with (agents, arms) = {drawn}, the environment has "
                f"{expected}; use a generator whose instances all have one size"
            )

    def problem_of(self, instance: Instance) -> Problem:
        """What a learner is told of `instance` in this environment."""
        return Problem.of(
            instance,
            self.delta,
            sigma=self._sigma,
            epsilon=self.epsilon,
            max_pulls_per_agent=self.max_pulls_per_agent,
            check=self._check,
            **self._told,
        )

    def told_values(self, instance: Instance) -> Values:
        """What a learner is told of `instance`, as numbers that vectorise: 0 stands for None."""
        hidden = {**HIDDEN, "max_pulls_per_agent": 0}
        told = asdict(self.problem_of(instance))
        told = {key: hidden[key] if value is None else value for key, value in told.items()}
        return told | {"support": np.array(told["support"])}

    def new_federation(self, instance_seed: Seed, play_seed: Seed) -> Federation:
        """A separate play, independent of this environment's episode."""
        return self.federation_on(self.draw_instance(instance_seed), play_seed)

    def federation_on(
        self, instance: Instance, play_seed: Seed, source: Source | None = None
    ) -> Federation:
        """A play on `instance` under these settings; `source` draws the rewards, if given."""
        return Federation(
            instance,
            self.problem_of(instance),
            play_seed,
            source=source,
            max_pulls=self.max_pulls,
            c_b=self.c_b,
            c_r=self.c_r,
        )

    @cached_property
    def batch_rewards(self) -> Any:
        """The reward model of all batches; None without a batch form or with an unusual law."""
        rewards = getattr(self._draw_batch(np.random.default_rng(0), 1), "rewards", None)
        return rewards if type(rewards) in (Gaussian, Bernoulli) else None

    def _draw_batch(self, rng: Rng, n: int) -> Any:
        if self.fixed_instance is not None:
            return Batch.repeat(self.fixed_instance, n)
        return self._generator.batch(rng, n) if hasattr(self._generator, "batch") else None

    @cached_property
    def always_told(self) -> Values:
        """`told_values` of any instance; of the separations, only what is the same for all."""
        return self.told_values(self.draw_instance(0))

    def told_of(self, arrays: Arrays, i: int) -> Values:
        """What is told of the i-th instance; `arrays` as in `draw_arrays`."""
        varied = {key: arrays[key].item(i) for key in ("eta", "eta1") if key in arrays}
        return self.always_told | varied | {"support": self.always_told["support"].copy()}

    def draw_arrays(self, rng: Rng, n: int) -> Arrays:
        """`n` instances at once, where there are `batch_rewards`.

        Returns (n, ...) the attributes of `Law` but `rewards` and, where the learner is told the
        truth of them, `eta` and `eta1`.
        """
        batch = self._draw_batch(rng, n)
        means = batch.means
        behind = means.max(axis=2, keepdims=True) - means
        arrays = {
            "means": means,
            "clusters": batch.clusters,
            "best": means.argmax(axis=2),
            "good": behind <= self.epsilon * (1 + 1e-9),  # as in `Instance.good_arms`
        }
        if self.fixed_instance is None:
            self.check_size(batch[0])
            for name, truth in batch.separation.items():
                value = self._told.get(name, TRUTH)
                if isinstance(value, str):
                    arrays[name] = np.maximum(truth, 0.0)
                elif value is not None and self._check:
                    self.problem_of(batch[int(truth.argmin())])  # refuses what it does not satisfy
        return arrays


def _source(instance: Any, generator: Any, settings: Values) -> Any:
    """Where instances come from: a fixed one, or a generator."""
    if instance is None:
        return make_generator(generator or "paper-small", **settings)
    if generator is not None:
        raise UserError(
            f"give an instance or a generator, not both; here the generator is {generator!r}. "
            "ClusteredBAI-v0 brings no generator of its own"
        )
    if isinstance(instance, str | PathLike):
        path = Path(instance)
        if not path.is_file():
            raise UserError(f"instance: there is no file {path}")
        if path.suffix.lower() != ".csv":
            instance = Instance.load(path)
        elif is_log(path) or "n_clusters" in settings:
            instance = Instance.from_logs(path, settings.pop("n_clusters", None))
        else:
            # A table of means says nothing of agents: a generator spreads any number of them.
            return make_generator("fixed-means", means=str(path), **settings)
    if not isinstance(instance, Instance):
        raise UserError(f"instance must be an Instance or the path of a file, got {instance!r}")
    if settings:
        raise UnknownSetting(
            f"got an unexpected keyword argument {min(settings)!r}: a setting of generators, but an "
            f"instance with {instance.n_agents} agents is given; use told={{...}} to change what the "
            "learner is told of it",
            settings,
        )
    return instance


class InstanceBuffer:
    """Draws instances ahead: one costs as much as a batch of a hundred.

    Batches double in size, so that short runs do not pay for what they do not use.

    Args:
        game: draws the instances; its generator has a batch form.
        size: of the first batch.
    """

    def __init__(self, game: GameSettings, size: int = 1) -> None:
        self._game = game
        self._size = size
        self._left = 0
        self._drawn: Arrays = {}

    def take(self, n: int, rng: Rng) -> tuple[Arrays, slice]:
        """The next `n` instances: arrays as in `draw_arrays`, and their rows in them."""
        if n > self._left:
            self._left = max(n, self._size)
            self._drawn = self._game.draw_arrays(rng, self._left)
            # At most 1,024 instances, or 2 MB of means.
            self._size = max(n, min(2 * self._size, 1024, 2**18 // self._drawn["means"][0].size))
        first = len(self._drawn["means"]) - self._left
        self._left -= n
        # Not cut out here: that takes a single environment 1.5 µs of a reset.
        return self._drawn, slice(first, first + n)
