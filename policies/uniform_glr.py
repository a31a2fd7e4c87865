"""Uniform sampling with a generalised-likelihood-ratio stopping rule: a baseline for adaptive
policies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import FederationView
from clustered_bandit_gym.game.payloads import ArmIndex
from clustered_bandit_gym.policies.sequential.running_means import RunningMeans
from clustered_bandit_gym.policy import Policy

#: The statistic is computed after every pull of all arms up to this many, then each time their
#: number has grown by 1%.
EVERY = 100
#: The same for bets, which take a hundred times as long to work out: each time the number has grown
#: by 2%.
EVERY_BET = 50


class UniformGLR(Policy):
    """Each agent pulls its arms in turn and stops when its leader beats every other arm by a
    likelihood ratio.

    After n pulls of each arm the statistic of the leader against the runner-up is n·(difference of
    averages)²/(4σ²), the log-likelihood ratio of "they differ" to "they are equal" for Gaussian
    rewards. Agents share nothing: each stops on its own and sends its arm.

    Where the support of rewards is told, and with the default threshold, the leader has to beat
    every other arm by bets that adapt to the variance (`sequential.cells`), at the same level
    δ/(N(K − 1)). They are e-processes under every law in the interval for which the leader is not
    better, so the union bound is the same.

    With `epsilon` an agent stops once no other arm may be ε better than its leader. Only the pairs
    of its best arm with a leader that is ε worse, or more, can err: the union is over no more
    pairs.

    Args:
        threshold: stop above this value of the statistic. None (the default) takes, after n pulls,
            (1 + 1/n)·(ln(1 + n)/2 + ln(N(K − 1)/δ)): Robbins' normal mixture bounds by δ/(N(K − 1))
            the probability that a worse arm ever beats an agent's best arm by that much, so the
            union over agents and arms is δ. Any other number has no such guarantee; it serves to
            plot error against pulls.
    """

    name = "uniform-glr"
    guarantee = "delta-PC with the default threshold"

    def __init__(self, threshold: float | None = None) -> None:
        if threshold is not None and not (math.isfinite(threshold) and threshold >= 0):
            raise UserError(f"threshold must be a number >= 0 or None, got {threshold}")
        self.threshold = threshold

    def solve(self, federation: FederationView) -> np.ndarray:
        p = federation.problem
        level = math.log(p.n_agents * max(1, p.n_arms - 1) / p.delta)
        epsilon = p.epsilon / p.sigma if p.epsilon else 0.0

        def pull_until_clear(block: Block) -> ArmIndex:
            answers = np.zeros(len(block), dtype=np.int64)
            tally = RunningMeans(block, np.arange(p.n_arms))
            rows = np.arange(len(block) if p.n_arms > 1 else 0)
            bets = self.threshold is None and tally.bounded
            n = 0
            while rows.size:
                times = max(1, n // (EVERY_BET if bets else EVERY))
                tally.pull(rows.repeat(p.n_arms), np.tile(np.arange(p.n_arms), rows.size), times)
                n += times
                means = tally.means[rows]
                leader = means.argmax(axis=1)
                if bets:
                    clear = beats_all(tally, rows, leader, level, epsilon)
                else:
                    needed = self.threshold
                    if needed is None:
                        needed = (1 + 1 / n) * (math.log1p(n) / 2 + level)
                    clear = statistic(means, n, 1.0, epsilon) > needed
                answers[rows[clear]] = leader[clear]
                rows = rows[~clear]
            return ArmIndex(answers, among=p.n_arms)

        with federation.phase("identify"):
            return federation.local(federation.agents, pull_until_clear)


def beats_all(
    tally: RunningMeans, rows: Ints, leader: Ints, level: float, epsilon: float = 0.0
) -> np.ndarray:
    """(n,) whether no other arm may be ε better than leader[i] at rows[i], each with `level` nats.

    The runner-up is tried first. Where it is not shown worse, the others are not looked at.
    """
    index, means = np.arange(rows.size), tally.means[rows]
    means[index, leader] = -np.inf
    among = np.zeros(means.shape, dtype=bool)
    among[index, means.argmax(axis=1)] = True
    clear: np.ndarray = np.logical_or.reduce(
        tally.worse(rows, leader, level, among, epsilon), axis=1
    )
    hope = np.flatnonzero(clear)
    if hope.size:
        others = ~among[hope]
        others[np.arange(hope.size), leader[hope]] = False
        shown = tally.worse(rows[hope], leader[hope], level, others, epsilon)
        clear[hope] = (shown == others).all(axis=1)
    return clear


def statistic(averages: Floats, n: Any, sigma: float, epsilon: float = 0.0) -> Floats:
    """Leader against runner-up plus ε, from averages (..., K ≥ 2) of n pulls each: (...)."""
    top = np.partition(averages, -2, axis=-1)
    lead = top[..., -1] - top[..., -2] + epsilon
    if sigma == 0:
        return np.where(lead > 0, np.inf, 0.0)
    return n * lead**2 / (4 * sigma**2)
