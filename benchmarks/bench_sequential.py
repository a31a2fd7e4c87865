"""The policies of local sequential tests: processor time of a play over that of BAI-Cl++."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import process_time

import numpy as np

from benchmarks import Figure, seconds
from clustered_bandit_gym import Federation, Instance, Policy, Problem
from clustered_bandit_gym.generators import PaperFlat, PaperRandom, PaperSmall
from clustered_bandit_gym.policies import BAIClPlusPlus, FrugalBAI, StructuredBAI

DELTA, AGENTS = 1e-10, 1000
#: These ratios in version 0.1.0. As for the schemes, the target is at most twice that.
FIRST = {
    ("structured-bai", "PaperSmall"): 9.24,
    ("structured-bai", "PaperRandom"): 9.20,
    ("structured-bai", "PaperFlat"): 8.44,
    ("frugal-bai", "PaperSmall"): 10.4,
    ("frugal-bai", "PaperRandom"): 7.76,
    ("frugal-bai", "PaperFlat"): 7.13,
}
#: Instances of each data set, and plays of each of which the fastest counts.
INSTANCES, REPEATS = 5, 5


def figures() -> Iterator[Figure]:
    policies: tuple[Policy, ...] = (BAIClPlusPlus(), StructuredBAI(), FrugalBAI())
    for generator in (PaperSmall(AGENTS), PaperRandom(AGENTS), PaperFlat(AGENTS)):
        times = []
        for seed in range(INSTANCES):
            instance = generator(np.random.default_rng(seed))
            times.append(
                seconds(
                    *(_play(p, instance, seed) for p in policies),
                    repeats=REPEATS,
                    clock=process_time,
                )
            )
        plain, *others = (median(column) for column in zip(*times, strict=True))
        for policy, time in zip(policies[1:], others, strict=True):
            family = type(generator).__name__
            name = f"{policy.name}: processor time of a play of {family}, N = {AGENTS} / bai-cl++'s"
            yield Figure(name, time / plain, 2 * FIRST[policy.name, family])


def _play(policy: Policy, instance: Instance, seed: int) -> Callable[[], object]:
    return partial(_solve, policy, instance, seed)


def _solve(policy: Policy, instance: Instance, seed: int) -> np.ndarray:
    return policy.solve(Federation(instance, Problem.of(instance, DELTA), seed=seed))
