"""Uniform sampling with a generalised-likelihood-ratio stopping rule."""

from __future__ import annotations

from math import log, log1p
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.federation import Block, FederationView
from clustered_bandit_gym.game.payloads import ArmIndex
from clustered_bandit_gym.policies.sequential.cells import block_cells, leaders, not_shown_worse
from clustered_bandit_gym.policy import Policy


class UniformGLR(Policy):
    """Each agent pulls its arms in turn until its leader beats all others by a likelihood ratio.

    After n pulls of each arm the statistic of the leader against the runner-up is n·(difference of
    averages)²/(4σ²), the log-likelihood ratio of "they differ" to "they are equal" for Gaussian
    rewards. Agents share nothing: each stops on its own and sends its arm.

    It stops, after n pulls, above (1 + 1/n)·(ln(1 + n)/2 + ln(N(K − 1)/δ)): Robbins' normal mixture
    bounds by δ/(N(K − 1)) the probability that a worse arm ever beats an agent's best arm by that
    much, so the union over agents and arms is δ. Where the support of rewards is told, the leader
    has to beat every other arm by bets that adapt to the variance (`sequential.cells`), at the same
    level. With `epsilon` an agent stops once no other arm may be ε better than its leader. Proof in
    docs/engines.md.
    """

    name = "uniform-glr"
    guarantee = "delta-PC"

    def solve(self, federation: FederationView) -> Ints:
        p = federation.problem
        level = log(p.n_agents * max(1, p.n_arms - 1) / p.delta)
        epsilon = p.epsilon / p.sigma
        arms = federation.arms

        def pull_until_clear(block: Block) -> ArmIndex:
            answers = np.zeros(len(block), dtype=int)
            cells = block_cells(block, p.n_arms)
            rows = np.arange(len(block) if p.n_arms > 1 else 0)
            n = 0
            while rows.size:
                # A look each time the pulls have grown by 1%; bets take far longer to work out.
                times = max(1, n // (50 if cells.bets else 100))
                cells.pull(block, rows[:, None], arms, times)
                n += times
                means = cells.mean[rows]
                leader = means.argmax(axis=1)
                if cells.bets:
                    others = arms != leader[:, None]
                    second = leaders(means, others)
                    clear = cells.shows((rows, second), (rows, leader), epsilon, level)
                    # Where the runner-up is not shown worse, no arm is tried.
                    others &= clear[:, None]
                    open_ = not_shown_worse(cells, rows, leader, epsilon, level, others)
                    clear &= ~open_.any(axis=1)
                else:
                    needed = (1 + 1 / n) * (log1p(n) / 2 + level)
                    clear = statistic(means, n, epsilon) > needed
                answers[rows[clear]] = leader[clear]
                rows = rows[~clear]
            return ArmIndex(answers, among=p.n_arms)

        with federation.phase("identify"):
            return federation.local(federation.agents, pull_until_clear)


def statistic(averages: Floats, n: Any, epsilon: float = 0.0) -> Floats:
    """Leader against runner-up plus ε, from averages (..., K ≥ 2) of n pulls each, in units of σ."""
    top = np.partition(averages, -2, axis=-1)
    lead = top[..., -1] - top[..., -2] + epsilon
    return n * lead**2 / 4
