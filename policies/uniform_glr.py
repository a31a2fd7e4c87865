"""Uniform sampling with a generalised-likelihood-ratio stopping rule: a baseline for adaptive policies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmIndex
from clustered_bandit_gym.policy import Policy

#: The statistic is computed after every pull of all arms up to this many, then each time their number has grown by 1%.
EVERY = 100


class UniformGLR(Policy):
    """Each agent pulls its arms in turn and stops when its leader beats every other arm by a likelihood ratio.

    After n pulls of each arm the statistic of the leader against the runner-up is n·(difference of averages)²/(4σ²),
    the log-likelihood ratio of "they differ" to "they are equal" for Gaussian rewards. Agents share nothing: each stops
    on its own and sends its arm.

    Args:
        threshold: stop above this value of the statistic. None (the default) takes, after n pulls,
            (1 + 1/n)·(ln(1 + n)/2 + ln(N(K − 1)/δ)): Robbins' normal mixture bounds by δ/(N(K − 1)) the
            probability that a worse arm ever beats an agent's best arm by that much, so the union over agents and
            arms is δ. Any other number has no such guarantee; it serves to plot error against pulls.
    """

    name = "uniform-glr"
    guarantee = "delta-PC with the default threshold"

    def __init__(self, threshold: float | None = None) -> None:
        if threshold is not None and not (math.isfinite(threshold) and threshold >= 0):
            raise UserError(f"threshold must be a number >= 0 or None, got {threshold}")
        self.threshold = threshold

    def solve(self, federation: Federation) -> np.ndarray:
        p = federation.problem
        tests = p.n_agents * max(1, p.n_arms - 1)

        def pull_until_clear(block: Block) -> ArmIndex:
            answers = np.zeros(len(block), dtype=np.int64)
            if p.n_arms == 1:
                return ArmIndex(answers, among=1)
            rows = np.arange(len(block))
            arms = np.arange(p.n_arms)[None, :]
            sums = np.zeros((rows.size, p.n_arms))
            n = 0
            while rows.size:
                times = max(1, n // EVERY)
                sums += times * block.pull(rows[:, None], arms, times)
                n += times
                limit = self.threshold
                if limit is None:
                    limit = (1 + 1 / n) * (math.log1p(n) / 2 + math.log(tests / p.delta))
                clear = statistic(sums / n, n, p.sigma) > limit
                answers[rows[clear]] = sums[clear].argmax(axis=1)
                rows, sums = rows[~clear], sums[~clear]
            return ArmIndex(answers, among=p.n_arms)

        with federation.phase("identify"):
            return federation.local(federation.agents, pull_until_clear)


def statistic(averages: Floats, n: Any, sigma: float) -> Floats:
    """Leader against runner-up, from averages (..., K ≥ 2) of n pulls each: (...)."""
    top = np.partition(averages, -2, axis=-1)
    lead = top[..., -1] - top[..., -2]
    if sigma == 0:
        return np.where(lead > 0, np.inf, 0.0)
    return n * lead**2 / (4 * sigma**2)
