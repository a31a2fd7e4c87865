"""Three policies that are not δ-correct: what the audit must catch, and mistakes worth reading.

Each is written as one would write it, with one thing wrong. None belongs on a scoreboard.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.game.federation import Block, Federation
from clustered_bandit_gym.game.payloads import ArmIndex
from clustered_bandit_gym.policy import Policy


class StopsEarly(Policy):
    """Takes η for the smallest gap: pulls every arm as often as a gap of η asks, once and for all,
    and stops.

    With n = ⌈4σ² ln(NK/δ)/η²⌉ pulls of each arm, an arm η below the best looks better with
    probability at most exp(−nη²/(4σ²)) ≤ δ/(NK), which adds up to δ: right, wherever every gap is
    at least η. But η of Assumption 1 is the distance to the best arms of *other* clusters. A
    runner-up within the cluster may be as close as it likes, and there
    the agents guess: a true error near 1.
    """

    name = "stops-early"
    guarantee = "none: wrong as soon as a gap is below eta"

    def solve(self, federation: Federation) -> np.ndarray:
        p = federation.problem
        # A single cluster has no η (it is told as infinity); 1 replaces it.
        eta = p.eta if p.eta is not None and math.isfinite(p.eta) else 1.0
        times = math.ceil(4 * p.sigma**2 * math.log(p.n_agents * p.n_arms / p.delta) / eta**2)

        def find_best(block: Block) -> ArmIndex:
            return ArmIndex(block.pull_grid(max(1, times)).argmax(axis=1), among=p.n_arms)

        return federation.local(federation.agents, find_best)


class ForgetsUnion(Policy):
    """Every agent runs a sharp test of its own at level δ. Each is right with probability 1 − δ;
    all of them are not.

    An agent pulls all arms equally often and looks after every 10% more pulls. It stops when the
    generalised likelihood ratio of its leader against every rival passes the bound of the one-sided
    normal mixture at level δ/(K − 1), which holds at all looks at once. What is missing is the
    union over agents: `delta / n_agents` in place of `delta`, as in ``ForgetsUnion(union=True)``,
    which is δ-correct.

    True error at δ = 0.1: an agent with two arms 0.01 apart is wrong with probability 0.0472 ±
    0.0007, 0.02 apart with 0.0421 ± 0.0006 (400,000 agents each). Agents are independent, so 20 of
    them err with probability 0.62 and 0.58, the 40 of the audit's cell "one cluster" with 0.855,
    the 200 of "many agents" with 0.9998: far above 2δ.
    """

    name = "forgets-union"
    guarantee = "none: delta for each agent instead of for all together"

    def __init__(self, union: bool = False) -> None:
        self.union = union

    def solve(self, federation: Federation) -> np.ndarray:
        p = federation.problem
        delta = p.delta / p.n_agents if self.union else p.delta
        log_bound = math.log(max(1, p.n_arms - 1) / delta)

        def find_best(block: Block) -> ArmIndex:
            arms = np.arange(p.n_arms)
            answer = np.zeros(len(block), dtype=np.int64)
            rows = np.arange(len(block) if p.n_arms > 1 else 0)
            sums = np.zeros((rows.size, p.n_arms))
            pulls = 0
            while rows.size:
                batch = 1 + pulls // 10
                pulls += batch
                sums += batch * block.pull(rows[:, None], arms[None, :], batch)
                second, first = np.partition(sums, -2, axis=1)[:, -2:].T
                done = log_mixture((first - second) / p.sigma, 2.0 * pulls) >= log_bound
                answer[rows[done]] = sums[done].argmax(axis=1)
                rows, sums = rows[~done], sums[~done]
            return ArmIndex(answer, among=p.n_arms)

        return federation.local(federation.agents, find_best)


def log_mixture(lead: Floats, variance: float, rho: float = 2.0) -> Floats:
    """Log of the one-sided normal mixture martingale of a random walk at `lead` with `variance` so
    far.

    If the walk's drift is at most 0, ∫ exp(θ·lead − θ²·variance/2) dπ(θ), with π the law of the
    absolute value of a normal variable of variance 1/ρ, ever reaches 1/α with probability at most
    α.
    """
    total = variance + rho
    return (
        math.log(2)
        + 0.5 * math.log(rho / total)
        + lead**2 / (2 * total)
        + log_ndtr(lead / math.sqrt(total))
    )


class Guesses(Policy):
    """Pulls nothing and names an arm at random for every agent."""

    name = "guesses"
    guarantee = "none"

    def solve(self, federation: Federation) -> np.ndarray:
        p = federation.problem

        def guess(block: Block) -> ArmIndex:
            return ArmIndex((block.random(1)[:, 0] * p.n_arms).astype(np.int64), among=p.n_arms)

        return federation.local(federation.agents, guess)


BAD_POLICIES: tuple[type[Policy], ...] = (StopsEarly, ForgetsUnion, Guesses)
