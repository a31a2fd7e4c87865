"""Generators by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from inspect import signature
from typing import Any

from clustered_bandit_gym._types import Rng
from clustered_bandit_gym.errors import UnknownSetting, UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.generators.base import InstanceGenerator
from clustered_bandit_gym.generators.fixed_means import FixedMeans
from clustered_bandit_gym.generators.paper import PaperFlat, PaperRandom, PaperSmall
from clustered_bandit_gym.generators.synthetic import NearTie, RandomFamily, Tiny
from clustered_bandit_gym.imports import load_object

GENERATORS: dict[str, type[InstanceGenerator]] = {
    kind.name: kind
    for kind in (PaperSmall, PaperRandom, PaperFlat, NearTie, RandomFamily, Tiny, FixedMeans)
}
#: Generators that bring data with them, "module:class": imported when first asked for.
LAZY_GENERATORS = {
    "flights": "clustered_bandit_gym.datasets.generators:Flights",
    "movielens": "clustered_bandit_gym.datasets.generators:MovieLens",
    "movielens-like": "clustered_bandit_gym.datasets.generators:MovieLensLike",
    "yelp": "clustered_bandit_gym.datasets.generators:Yelp",
    "yelp-like": "clustered_bandit_gym.datasets.generators:YelpLike",
}


def make_generator(
    name_or_callable: str | Callable[[Rng], Instance], **settings: Any
) -> Callable[[Rng], Instance]:
    """The generator of that name with these settings; a callable is returned as it is and takes
    none.

    ``module:attribute`` names one of your own: a class is called with the settings and must return
    a generator; a function ``f(rng, **settings) -> Instance`` is the generator.

    Raises:
        UserError: unknown name or setting; the message lists what is known.
    """
    if not isinstance(name_or_callable, str):
        if not callable(name_or_callable):
            raise UserError(
                f"a generator is a name or a callable rng -> Instance, got {name_or_callable!r}"
            )
        if settings:
            raise UserError(
                f"settings {sorted(settings)} were given for a generator that is already made"
            )
        return name_or_callable
    if ":" in name_or_callable:
        return _own(name_or_callable, settings)
    kind = generator_class(name_or_callable)
    known = [one.name for one in fields(kind) if one.init]  # type: ignore[arg-type]
    if unknown := sorted(set(settings) - set(known)):
        raise UnknownSetting(
            f"got an unexpected keyword argument {unknown[0]!r}: neither the environment nor its "
            f"generator {name_or_callable!r} has a setting {', '.join(unknown)}; the generator has "
            f"{', '.join(known)} (told={{...}} changes what the learner is told)"
        )
    return kind(**settings)


def _own(spec: str, settings: dict[str, Any]) -> Callable[[Rng], Instance]:
    """A generator of the user's, ``module:attribute``."""
    target = load_object(spec, f"generator {spec!r}")
    try:
        if isinstance(target, type):
            made = target(**settings)
        else:
            signature(target).bind(None, **settings)
            made = partial(target, **settings) if settings else target
    except TypeError as error:
        raise UserError(f"generator {spec!r}: {error}") from None
    if not callable(made):
        raise UserError(
            f"generator {spec!r}: its objects are not callable; define __call__(self, rng)"
        )
    return made


def generator_class(name: str) -> type[InstanceGenerator]:
    """The class of that name; `ValueError` lists what is known."""
    if name in LAZY_GENERATORS:
        return load_object(LAZY_GENERATORS[name], f"generator {name!r}")
    if name not in GENERATORS:
        raise UserError(
            f"unknown generator {name!r}; known: {', '.join([*GENERATORS, *LAZY_GENERATORS])}, or module:callable"
        )
    return GENERATORS[name]
