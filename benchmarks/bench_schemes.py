"""The four schemes: time against bare normals, Cl-BAI's graph, a million agents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import Figure, ratio, seconds
from clustered_bandit_gym import Block, Federation, Instance, Policy, Problem
from clustered_bandit_gym.generators import PaperFlat, PaperRandom
from clustered_bandit_gym.policies import BAICl, BAIClPlusPlus, ClBAI, NaiveSE
from clustered_bandit_gym.policies.engines import elimination
from clustered_bandit_gym.policies.paper.graph import components

DELTA = 1e-10
#: Targets: twice what version 0.1.0 took, whose code had special paths for single agents.
TIMES = {"naive": 2.7, "cl-bai": 2.8, "bai-cl": 5.0, "bai-cl++": 6.0}


def figures() -> Iterator[Figure]:
    instance = PaperFlat(10_000)(np.random.default_rng(0))
    for policy in (NaiveSE(), ClBAI(), BAICl(), BAIClPlusPlus()):
        yield Figure(
            f"{policy.name}: third data set, N = 10^4, K = 100, M = 20 / as many normals as rows",
            _against_normals(policy, instance),
            TIMES[policy.name],
        )
    instance = PaperRandom(10_000)(np.random.default_rng(0))
    for policy in (NaiveSE(), ClBAI(), BAICl(), BAIClPlusPlus()):
        yield Figure(
            f"{policy.name}: the same on the second data set (many small rounds)",
            _against_normals(policy, instance),
        )
    yield from _graph(instance)
    for name in ("NaiveSE", "BAIClPlusPlus"):
        (few, _), (many, peak) = _alone(name, 10**4), _alone(name, 10**6)
        yield Figure(f"{name}: time per agent, N = 10^6 / N = 10^4", many / few, 1.5)
        yield Figure(
            f"{name}: peak memory of the process at N = 10^6, K = 100", peak, 4096, unit="MB"
        )


def _play(instance: Instance, seed: int = 0) -> Federation:
    return Federation(instance, Problem.of(instance, DELTA), seed=seed)


def _against_normals(policy: Policy, instance: Instance) -> float:
    """Several trials, since how many agents BAI-Cl draws in its first phase depends on the seed (72 on average)."""

    def trials() -> None:
        for seed in range(6):
            policy.solve(_play(instance, seed))

    # Draws of SE; the single rows with which BAI-Cl++ checks candidates are not even counted.
    drawn = []

    def count(block: Block, rows: Any, arms: Any, times: Any) -> Any:
        if not isinstance(times, int):
            drawn.append(np.broadcast(rows, arms, times).size)
        return pull(block, rows, arms, times)

    pull = Block.pull
    with patch.object(Block, "pull", count):
        trials()
    rows = sum(drawn) // 6
    rng = np.random.default_rng(2)

    def normals() -> None:
        for _ in range(6):
            rng.standard_normal(rows)

    return ratio(trials, normals, repeats=9, clock=process_time)


def _graph(instance: Instance) -> Iterator[Figure]:
    """Cl-BAI's components against the eliminations that come before them."""
    play = _play(instance)
    assert play.problem.eta is not None
    block = Block(play, play.agents)
    n, k = instance.n_agents, instance.n_arms
    gamma, precision = (DELTA / (12 * n * k)) ** (4 / 3), 2 * play.problem.eta / 17
    active, estimates = elimination.elimination(block, np.arange(k), gamma, precision)
    left = np.flatnonzero(active.sum(axis=1) > 1)
    found = components(estimates[left], active[left], play.problem.eta / 2)
    yield Figure(
        f"Cl-BAI's graph, second data set, N = 10^4: agents left ({found.max() + 1} components)",
        left.size,
        unit="",
    )
    value = ratio(
        lambda: components(estimates[left], active[left], play.problem.eta / 2),
        lambda: elimination.elimination(block, np.arange(k), gamma, precision),
        repeats=5,
        clock=process_time,
    )
    yield Figure("Cl-BAI's graph / the pulls before it", value, 1.0)
    noisy = estimates[left] + np.random.default_rng(3).normal(
        0, play.problem.eta / 4, (left.size, k)
    )
    value = seconds(lambda: components(noisy, active[left], play.problem.eta / 2), repeats=1)[0]
    yield Figure("the same with noise that breaks clusters into many components", value, unit="s")


def _alone(policy: str, n_agents: int) -> tuple[float, float]:
    """Seconds per agent and peak megabytes of a play in a process of its own."""
    script = f"""
import time
import numpy as np
import clustered_bandit_gym as cbg
from clustered_bandit_gym import policies
from clustered_bandit_gym.generators import PaperFlat
instance = PaperFlat({n_agents})(np.random.default_rng(0))
best = float("inf")
for _ in range({9 if n_agents <= 10**4 else 1}):
    play = cbg.Federation(instance, cbg.Problem.of(instance, {DELTA}), seed=1)
    start = time.process_time()
    play.stop(policies.{policy}().solve(play))
    best = min(best, time.process_time() - start)
# Not ru_maxrss, which starts from the size of the process that started this one.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(best / {n_agents}, int(peak.split()[1]) / 2**10)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    time_per_agent, peak = done.stdout.split()
    return float(time_per_agent), float(peak)
