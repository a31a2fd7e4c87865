"""A game as the arguments of an environment describe it: instances, what the learner is told, prices and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import is_zipfile

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UnknownSetting, UserError
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.problem import TRUTH, Problem
from clustered_bandit_gym.game.seeds import Seed
from clustered_bandit_gym.game.source import Source
from clustered_bandit_gym.game.tables import is_log
from clustered_bandit_gym.generators.batch import Batch

_NOT_TOLD: dict[str, Any] = {
    "n_clusters": 0,
    "eta": 0.0,
    "eta1": 0.0,
    "support": (-np.inf, np.inf),
    "max_pulls_per_agent": 0,
}
_TOLD = ("n_clusters", "eta", "eta1", "support")


class Told(NamedTuple):
    """What a learner is told of many instances: what is the same for all, and arrays (n,) of what is not."""

    constant: dict[str, Any]
    varied: dict[str, Floats]


class GameSettings:
    """Draws instances and makes plays on them, without episodes. The arguments are those of `ClusteredBAIEnv`.

    Public: `n_agents`, `n_arms`, `delta`, `epsilon`, `max_pulls`, `max_pulls_per_agent`, `c_b`, `c_r`, `itemise`.
    """

    def __init__(
        self,
        instance: Instance | str | PathLike[str] | None = None,
        generator: str | Callable[[np.random.Generator], Instance] | None = None,
        generator_kwargs: dict[str, Any] | None = None,
        instance_seed: Seed | None = None,
        delta: float = 0.05,
        told: dict[str, Any] | None = None,
        sigma: float | None = None,
        check: bool = True,
        epsilon: float = 0.0,
        max_pulls: int | None = None,
        max_pulls_per_agent: int | None = None,
        c_b: float = 1.0,
        c_r: float = 32.0,
        itemise: bool = False,
        **settings: Any,
    ) -> None:
        if twice := sorted(set(settings) & set(generator_kwargs or {})):
            raise UserError(f"{', '.join(twice)}: given both as a keyword and in generator_kwargs")
        sizes = ("n_agents", "n_clusters", "n_arms", "eta")
        settings = {k: v for k, v in settings.items() if k not in sizes or v is not None}
        settings |= generator_kwargs or {}
        if told is not None and not isinstance(told, dict):
            raise UserError(f"told takes a dict of {', '.join(_TOLD)}, got {told!r}")
        if unknown := set(told or {}) - set(_TOLD):
            raise UserError(
                f"told takes {', '.join(_TOLD)}, got {', '.join(sorted(unknown))}; sigma has its own argument"
            )
        self._generator, declared, fixed = _source(instance, generator, settings)
        self._told = {**declared, **(told or {})}
        self._sigma, self._check, self.delta = sigma, bool(check), delta
        self.epsilon, self.max_pulls_per_agent = epsilon, max_pulls_per_agent
        self.max_pulls, self.itemise = max_pulls, bool(itemise)
        self.c_b, self.c_r = float(c_b), float(c_r)
        self._fixed: Instance | None = fixed
        if instance_seed is not None:
            self._fixed = self.draw_instance(instance_seed)
        # The sizes of the spaces come from an instance: a user's generator need not have attributes for them.
        sample = self.draw_instance(0) if self._fixed is None else self._fixed
        self.n_agents, self.n_arms = sample.n_agents, sample.n_arms
        # Refuses bad values of delta, told, max_pulls, c_b, c_r now rather than at reset.
        self.federation_on(sample, 0)

    def draw_instance(self, seed: Seed) -> Instance:
        """The instance that `seed` draws; where `instance` or `instance_seed` fixes one, that one whatever the seed."""
        if self._fixed is not None or self._generator is None:
            assert self._fixed is not None
            return self._fixed
        drawn = self._generator(np.random.default_rng(seed))
        if not isinstance(drawn, Instance):
            raise TypeError(f"the generator must return an Instance, got {type(drawn).__name__}")
        return drawn

    def check_size(self, instance: Instance) -> None:
        """`ValueError` if `instance` does not fit the spaces."""
        if (instance.n_agents, instance.n_arms) != (self.n_agents, self.n_arms):
            raise UserError(
                f"the generator drew {instance.n_agents} agents and {instance.n_arms} arms; an environment has fixed "
                f"spaces, here {self.n_agents} and {self.n_arms}; use a generator whose instances all have one size"
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

    @property
    def fixed_instance(self) -> Instance | None:
        """The instance of every episode, if `instance` or `instance_seed` fixes one."""
        return self._fixed

    def draw_batch(self, rng: np.random.Generator, n: int) -> Batch | None:
        """`n` instances at once, or None where the generator, or the law of the rewards, has no batch form."""
        if self._fixed is not None:
            return Batch.repeat(self._fixed, n)
        draw = getattr(self._generator, "batch", None)
        return None if draw is None else draw(rng, n)

    def told_values(self, instance: Instance) -> dict[str, Any]:
        """What a learner is told of `instance` as numbers that vectorise; `_NOT_TOLD` has what stands for None."""
        told = self.problem_of(instance).values()
        values = {key: _NOT_TOLD[key] if value is None else value for key, value in told.items()}
        return values | {"support": np.array(values["support"])}

    def problems_of(self, batch: Batch) -> Told:
        """`told_values` of all instances of `batch`."""
        first = batch[0] if self._fixed is None else self._fixed
        self.check_size(first)
        told = Told(self.told_values(first), {})
        if self._fixed is not None:
            return told
        for name, truth in (("eta", batch.eta), ("eta1", batch.eta1)):
            value = self._told.get(name, TRUTH)
            if isinstance(value, str):
                told.varied[name] = np.maximum(truth, 0.0)
            elif value is not None and self._check and (value > truth).any():
                # Beyond rounding it is an error, and the message names the clusters.
                self.problem_of(batch[int((value - truth).argmax())])
        return told

    def new_federation(self, instance_seed: Seed, play_seed: Seed) -> Federation:
        """A separate play, independent of this environment's episode. How a `Policy` is played, for any N."""
        return self.federation_on(self.draw_instance(instance_seed), play_seed)

    def federation_on(
        self, instance: Instance, play_seed: Seed, source: Source | None = None
    ) -> Federation:
        """A play on `instance` under this environment's settings; `source` draws the rewards, if given."""
        return Federation(
            instance,
            self.problem_of(instance),
            play_seed,
            source=source,
            max_pulls=self.max_pulls,
            c_b=self.c_b,
            c_r=self.c_r,
            itemise=self.itemise,
        )


def _source(
    instance: Instance | str | PathLike[str] | None, generator: Any, settings: dict[str, Any]
) -> tuple[Callable[[np.random.Generator], Instance] | None, dict[str, Any], Instance | None]:
    """Where instances come from: the generator, what it declares, and the fixed instance if there is one."""
    if isinstance(instance, str | PathLike) and not Path(instance).is_file():
        raise UserError(
            f"instance: there is no file {instance}; expected a CSV file of means or of (cluster, arm, reward) rows, "
            "or a file that `Instance.save` wrote"
        )
    if instance is not None and generator is not None:
        raise UserError(
            f"give an instance or a generator, not both; here the generator is {generator!r}. ClusteredBAI-v0 brings "
            "no generator of its own"
        )
    if (
        isinstance(instance, str | PathLike)
        and str(instance).lower().endswith(".csv")
        and is_log(instance)
    ):
        settings = dict(settings)
        instance = Instance.from_logs(instance, settings.pop("n_clusters", None))
    if isinstance(instance, str | PathLike) and str(instance).lower().endswith(".csv"):
        # A table of means says nothing of agents: a generator spreads any number of them.
        instance, generator, settings = None, "fixed-means", {"means": str(instance), **settings}
    if instance is not None:
        if settings:
            raise UnknownSetting(
                f"got an unexpected keyword argument {min(settings)!r}; "
                f"{', '.join(sorted(settings))}: settings of a generator, but an instance is given; "
                "use told={...} to change what the learner is told of it"
            )
        if isinstance(instance, str | PathLike):
            instance = _load(instance)
        if not isinstance(instance, Instance):
            raise UserError(f"instance must be an Instance or the path of a file, got {instance!r}")
        return None, {}, instance
    from clustered_bandit_gym.generators import generator_class, make_generator

    name = "paper-small" if generator is None else generator
    if isinstance(name, str) and ":" not in name:
        known = [field.name for field in fields(generator_class(name)) if field.init]  # type: ignore[arg-type]
        if unknown := sorted(set(settings) - set(known)):
            raise UnknownSetting(
                f"got an unexpected keyword argument {unknown[0]!r}: neither the environment nor its "
                f"generator {name!r} has a setting {', '.join(unknown)}; the generator has "
                f"{', '.join(known)} (told={{...}} changes what the learner is told)"
            )
    made = make_generator(name, **settings)
    return made, dict(getattr(made, "declared", {})), None


def _load(path: str | PathLike[str]) -> Instance:
    """A saved instance. What is no archive at all is refused here: NumPy would advise to unpickle it."""
    if Path(path).is_file() and not is_zipfile(path):
        raise UserError(f"{path} is not a saved Instance; `Instance.save` writes one")
    return Instance.load(path)
