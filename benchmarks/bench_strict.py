"""What strict mode costs: processor time of strict plays against plain ones, on the paper's settings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import process_time

import numpy as np

from benchmarks import Figure, seconds
from clustered_bandit_gym import Federation, Instance, Policy, Problem
from clustered_bandit_gym.generators import PaperFlat, PaperRandom, PaperSmall
from clustered_bandit_gym.policies import BAICl, BAIClPlusPlus, ClBAI, NaiveSE

N_AGENTS = 1000
DELTA = 1e-10
#: Plays of each scheme: how many agents BAI-Cl draws in its first phase depends on the seed.
SEEDS = range(4)


def figures() -> Iterator[Figure]:
    for number, generator in enumerate(
        (PaperSmall(N_AGENTS), PaperRandom(N_AGENTS), PaperFlat(N_AGENTS)), start=1
    ):
        instance = generator(np.random.default_rng(0))
        for policy in (NaiveSE(), ClBAI(), BAICl(), BAIClPlusPlus()):
            # The best time of every single play: a play takes milliseconds, so that most of them run undisturbed.
            jobs = [
                partial(_play, policy, instance, seed, strict)
                for strict in (True, False)
                for seed in SEEDS
            ]
            times = seconds(*jobs, repeats=100, clock=process_time)
            strict, plain = sum(times[: len(SEEDS)]), sum(times[len(SEEDS) :])
            name = f"{policy.name}: strict mode over plain, data set {number}, N = {N_AGENTS}, processor time"
            yield Figure(name, strict / plain, 1.05)


def _play(policy: Policy, instance: Instance, seed: int, strict: bool) -> None:
    play = Federation(instance, Problem.of(instance, DELTA), seed=seed)
    policy.solve(play.view(strict))  # type: ignore[arg-type]
