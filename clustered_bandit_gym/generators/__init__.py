"""Where instances come from: callables `rng -> Instance`."""

from clustered_bandit_gym.generators.base import (
    GENERATORS,
    Batch,
    InstanceGenerator,
    RandomMeans,
    generator_class,
    make_generator,
)
from clustered_bandit_gym.generators.fixed_means import FixedMeans
from clustered_bandit_gym.generators.paper import (
    PAPER_SMALL_MEANS,
    PaperFlat,
    PaperRandom,
    PaperSmall,
)
from clustered_bandit_gym.generators.synthetic import NearTie, RandomFamily, Tiny

__all__ = [
    "GENERATORS",
    "PAPER_SMALL_MEANS",
    "Batch",
    "FixedMeans",
    "InstanceGenerator",
    "NearTie",
    "PaperFlat",
    "PaperRandom",
    "PaperSmall",
    "RandomFamily",
    "RandomMeans",
    "Tiny",
    "generator_class",
    "make_generator",
]
