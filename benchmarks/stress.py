"""Errors at a large delta on hard instances, where a flaw in a proof would show.

    python -m benchmarks stress                     20 plays of each case
    python -m benchmarks stress --trials 115        5,060 plays in all

Prints errors and plays for each case, policy and delta. Exit code 1 if some policy errs more often
than delta allows: such a count has a probability below 1e-4 under the guarantee.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.panel import play
from clustered_bandit_gym import Bernoulli, Federation, Gaussian, Instance, Problem

POLICIES = ("frugal-bai", "structured-bai")
DELTAS = (0.3, 0.1)
MAX_PULLS = 10**11


def near_ties() -> np.ndarray:
    """(3, 10) means with a runner-up 0.05 behind each best arm."""
    means = np.minimum(np.random.default_rng(0).uniform(0, 1, (3, 10)), 0.7)
    for cluster in range(3):
        means[cluster, cluster] = 1.0
        means[cluster, 5 + cluster] = 0.95
    return means


def flat(m: int, k: int) -> np.ndarray:
    """(m, k) means: the best arm 1, all others 0.5."""
    return np.where(np.eye(m, k) > 0, 1.0, 0.5)


#: Name: means, agents in each cluster, rewards, what is told.
CASES: dict[str, tuple[Any, list[int], Any, dict[str, Any]]] = {
    "near ties": (near_ties(), [4, 4, 4], Gaussian(), {}),
    "tight eta": ([[0.5, 0.2, 0.1, 0], [0.2, 0.5, 0.1, 0]], [10, 10], Gaussian(), {}),
    "flat": (flat(4, 8), [8, 7, 8, 7], Gaussian(), {}),
    "singletons": (flat(4, 6) + 0.1 * near_ties()[:1, :6], [1, 1, 1, 1], Gaussian(), {}),
    "skew 400:1": ([[1, 0.2, 0.1, 0], [0.2, 1, 0.1, 0]], [400, 1], Gaussian(), {}),
    "far from zero": ([[101, 100.5, 100.2], [100.3, 101.2, 100.4]], [9, 9], Gaussian(), {}),
    "coins near 0 and 1": ([[0.98, 0.7, 0.02], [0.6, 0.99, 0.01]], [8, 8], Bernoulli(), {}),
    "rare coins": ([[0.1, 0.02, 0.01], [0.01, 0.08, 0.02]], [6, 6], Bernoulli(), {}),
    "tight coins": ([[0.7, 0.4, 0.5], [0.4, 0.7, 0.5]], [5, 5], Bernoulli(), {}),
    "support untold": ([[0.7, 0.4, 0.5], [0.4, 0.7, 0.5]], [5, 5], Bernoulli(), {"support": None}),
    "M untold": ([[0.7, 0.4, 0.5], [0.4, 0.7, 0.5]], [5, 5], Bernoulli(), {"n_clusters": None}),
}


def errors(name: str, policy: str, delta: float, trials: int) -> int:
    """Wrong answers in plays of one case; agents are shuffled in each."""
    means, sizes, rewards, told = CASES[name]
    wrong = 0
    for trial in range(trials):
        clusters = np.repeat(np.arange(len(sizes)), sizes)
        np.random.default_rng([7, trial]).shuffle(clusters)
        instance = Instance(np.array(means, dtype=float), clusters, rewards)
        seed = np.random.SeedSequence([8, trial, int(1000 * delta)])
        problem = Problem.of(instance, delta, **told)
        federation = Federation(instance, problem, seed, max_pulls=MAX_PULLS)
        wrong += play(policy, federation).wrong
    return wrong


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks stress", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--policies", nargs="+", default=POLICIES, metavar="POLICY")
    options = parser.parse_args(arguments)
    failed = 0
    for policy in options.policies:
        for delta in DELTAS:
            total = 0
            for name in CASES:
                wrong = errors(name, policy, delta, options.trials)
                failed += binom.sf(wrong - 1, options.trials, delta) < 1e-4
                total += wrong
                print(f"{policy:<16} delta {delta} {name:<20} {wrong}/{options.trials}", flush=True)
            print(f"{policy:<16} delta {delta} all: {total}/{options.trials * len(CASES)}")
    return 1 if failed else 0
