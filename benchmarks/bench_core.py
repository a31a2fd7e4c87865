"""Drawing rewards, and the size of a play with a million agents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks import Figure, ratio, seconds
from clustered_bandit_gym import (
    Bernoulli,
    Block,
    Categorical,
    Federation,
    Gaussian,
    Problem,
    Reals,
    theory,
)
from clustered_bandit_gym.generators import PaperRandom

ROWS = 10**6


def _federation(n_agents: int, n_clusters: int = 20, n_arms: int = 100) -> Federation:
    instance = PaperRandom(n_agents, n_clusters, n_arms)(np.random.default_rng(0))
    return Federation(instance, Problem.of(instance, 0.05), seed=1)


def figures() -> Iterator[Figure]:
    rng = np.random.default_rng(2)

    def normals() -> np.ndarray:
        return rng.standard_normal(ROWS)

    central = _federation(10_000)
    agents = rng.integers(10_000, size=ROWS)
    arms = rng.integers(100, size=ROWS)
    times = rng.integers(1, 10_000, size=ROWS)
    yield Figure(
        "central pull, 10^6 rows (random agents, arms, times) / rng.standard_normal(10^6)",
        ratio(lambda: central.pull(agents, arms, times), normals),
        4.0,
    )

    grid = _federation(10_000)
    block = Block(grid, np.arange(10_000))
    rows, columns = np.arange(10_000)[:, None], np.arange(100)[None, :]
    yield Figure(
        "block.pull of a grid, 10^4 agents x 100 arms / rng.standard_normal(10^6)",
        ratio(lambda: block.pull(rows, columns, 7), normals),
        2.0,
    )
    whole = _federation(10_000)
    yield Figure(
        "the same through federation.local, K reals sent up / rng.standard_normal(10^6)",
        ratio(lambda: whole.local(whole.agents, lambda b: Reals(b.pull_grid(7))), normals),
    )
    yield from _reward_models(rng)

    instance = PaperRandom()(np.random.default_rng(3))
    yield Figure(
        "lower bound of the paper's second data set (M = 20, K = 100), certified to 1%",
        seconds(lambda: theory.instance_lower_bound(instance, 1e-10), repeats=1)[0],
        60.0,
        unit="s",
    )
    yield Figure(
        "Instance and Federation with 10^6 agents and 100 arms", _megabytes(), 200.0, unit="MB"
    )


def _reward_models(rng: np.random.Generator) -> Iterator[Figure]:
    """Cost of a billion pulls of an arm against one pull of it: the sum is one draw."""
    means = rng.uniform(0.1, 0.9, (20, 100))
    laws = rng.dirichlet(np.ones(5), (20, 100))
    clusters, arms = rng.integers(20, size=10**5), rng.integers(100, size=10**5)
    for model in (Gaussian(), Bernoulli(), Categorical(np.linspace(0, 1, 5), laws)):
        yield Figure(
            f"{type(model).__name__}: 10^9 pulls / 100 pulls of an arm",
            ratio(
                lambda model=model: model.average(rng, means, clusters, arms, 10**9),
                lambda model=model: model.average(rng, means, clusters, arms, 100),
                repeats=5,
            ),
            4.0,
        )


def _megabytes() -> float:
    """Peak of what is allocated in a fresh process, while both are made and used."""
    script = """
import tracemalloc
import numpy as np
import clustered_bandit_gym as cbg
from clustered_bandit_gym.generators import PaperRandom
tracemalloc.start()
instance = PaperRandom(10**6)(np.random.default_rng(0))
federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.05), seed=0)
federation.pull(federation.agents, 3)
federation.stop(np.zeros(10**6, dtype=int))
print(tracemalloc.get_traced_memory()[1] / 2**20)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return float(done.stdout)
