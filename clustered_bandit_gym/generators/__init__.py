"""Where instances come from: callables `rng -> Instance`."""

from clustered_bandit_gym.generators.base import (
    GENERATORS,
    LAZY_GENERATORS,
    PAPER_SMALL_MEANS,
    REWARDS,
    SIZES,
    InstanceGenerator,
    NearTie,
    PaperFlat,
    PaperRandom,
    PaperSmall,
    RandomFamily,
    Tiny,
    generator_class,
    make_generator,
)

__all__ = [
    "GENERATORS",
    "LAZY_GENERATORS",
    "PAPER_SMALL_MEANS",
    "REWARDS",
    "SIZES",
    "InstanceGenerator",
    "NearTie",
    "PaperFlat",
    "PaperRandom",
    "PaperSmall",
    "RandomFamily",
    "Tiny",
    "generator_class",
    "make_generator",
]
