"""What the schemes should do, re-derived from the paper in plain Python: no engine, no NumPy, one agent at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Pulls(NamedTuple):
    """One round at one agent: which arms, how often each."""

    r: int
    arms: tuple[int, ...]
    times: int


def n_r(n_arms: int, gamma: float, r: int, sigma: float = 1.0) -> int:
    epsilon = 1 / 2**r
    return math.ceil(8 * sigma * sigma * math.log(4 * n_arms * r * r / gamma) / (epsilon * epsilon))


def se(
    means: Sequence[float], arms: Sequence[int], gamma: float, rounds: float, sigma: float = 1.0
) -> tuple[list[int], list[Pulls]]:
    """Algorithm 2 on noiseless rewards: what is left of `arms`, and the rounds played."""
    initial, left, played, r = len(arms), list(arms), [], 0
    while len(left) > 1 and r < rounds:
        r += 1
        played.append(Pulls(r, tuple(left), n_r(initial, gamma, r, sigma)))
        best = max(means[k] for k in left)
        left = [k for k in left if means[k] >= best - 1 / 2**r]
    return left, played


def total(played: Sequence[Pulls]) -> int:
    return sum(len(one.arms) * one.times for one in played)


def rounds_cl_bai(eta: float) -> int:
    return math.ceil(math.log(17 / eta, 2))


def rounds_bai_cl(eta: float) -> int:
    return math.ceil(math.log(1 / eta, 2) + 1)


def gamma_cl_bai(delta: float, n_agents: int, n_arms: int) -> float:
    return math.exp(4 / 3 * (math.log(delta) - math.log(12 * n_agents * n_arms)))


def gamma_bai_cl(delta: float, n_clusters: int) -> float:
    return (
        delta
        * (math.log(n_clusters) - math.log(n_clusters - 1))
        / (math.log(3 * n_clusters) - math.log(delta))
    )


def check_pulls(log_term: float, eta1: float, sigma: float = 1.0) -> int:
    return math.ceil(32 * sigma * sigma * log_term / (eta1 * eta1))


def binomial_bits(n_arms: int, at_most: int) -> int:
    """⌈log2 Σ_{i≤m} C(K, i)⌉, counted with factorials."""
    count = sum(
        math.factorial(n_arms) // (math.factorial(i) * math.factorial(n_arms - i))
        for i in range(at_most + 1)
    )
    bits = 0
    while 2**bits < count:
        bits += 1
    return bits
