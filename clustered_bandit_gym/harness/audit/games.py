"""The audit's games: instances on which a threshold that is a little too loose shows.

Easy instances hide bad thresholds: with a large gap any test is right long before it stops. So the
gaps here are tiny: an agent that stops wrongly does so because of noise alone, and how often that
happens is the level of its test. The sum of n pulls is one draw, so hard instances take no more
time than easy ones. Each game adds one thing: many agents or many arms (a missing union bound), a
runner-up within the cluster, skewed or empty clusters, loud or discrete rewards, another δ.

Where many arms tie behind the best one, they do so on a fine staircase. If they tied exactly, a
policy that lost the best arm could never separate the others: its error would show as a play that
does not end. One game is exactly flat.

Means are fixed; every trial shuffles arms and agents, so an index carries no information.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from clustered_bandit_gym._types import Rng, Values
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel
from clustered_bandit_gym.harness.settings import Cell

#: (M, K) mean rewards.
Means = Sequence[Sequence[float]]


@dataclass(frozen=True)
class AuditGame:
    """One game of the audit: a generator of instances, and what the learner is told of them.

    Attributes:
        name, why: for the report; `why` says which mistake the cell detects.
        means: (M, K) mean rewards before arms are shuffled.
        sizes: (M,) number of agents in each cluster.
        rewards: "gaussian", "bernoulli", or "jackpot": best arms pay 10 rarely, others 1 often.
        sigma: of Gaussian rewards.
        told: what replaces the truth in the learner's problem.
        delta_factor: δ of the cell as a multiple of the audit's.
        epsilon: an arm within ε of the best is right.
        shared: clusters share a best arm, against Assumption 1.
        in_scope: what the learner is told is true. Other games are reported, not scored.
        small: needs few pulls; suits policies that play the Gymnasium loop pull by pull.
        quick: part of the short audit.
    """

    name: str
    why: str
    means: Means
    sizes: Sequence[int]
    rewards: Literal["gaussian", "bernoulli", "jackpot"] = "gaussian"
    sigma: float = 1.0
    told: Values = field(default_factory=dict)
    delta_factor: float = 1.0
    epsilon: float = 0.0
    shared: bool = False
    in_scope: bool = True
    small: bool = False
    quick: bool = False

    def __call__(self, rng: Rng) -> Instance:
        """The cell's instance with arms and agents in random order."""
        means = np.array(self.means)[:, rng.permutation(len(self.means[0]))]
        clusters = rng.permutation(np.repeat(np.arange(len(self.sizes)), self.sizes))
        if self.rewards != "jackpot":
            law: RewardModel = Gaussian(self.sigma) if self.rewards == "gaussian" else Bernoulli()
            return Instance(means, clusters, law, allow_overlap=self.shared)
        best = means == means.max(axis=1, keepdims=True)
        ones = np.where(best, 0.0, means)
        tens = np.where(best, means / 10, 0.0)
        probabilities = np.stack([1 - ones - tens, ones, tens], axis=2)
        # The law says the means.
        law = Categorical(np.array([0.0, 1.0, 10.0]), probabilities)
        return Instance(None, clusters, law, allow_overlap=self.shared)

    def delta(self, delta: float) -> float:
        """δ of the cell, if the audit's is `delta`. At most a half: above, guessing suffices."""
        return min(delta * self.delta_factor, max(delta, 0.5))

    def env(self, delta: float, max_pulls: int) -> Cell:
        """The environment of the game."""
        told = {"told": self.told, "epsilon": self.epsilon, "check": self.in_scope}
        given = {"generator": self, "delta": delta, "max_pulls": max_pulls}
        return Cell("ClusteredBAI-v0", given | told)


def flat(
    n_clusters: int, n_arms: int, eta: float, top: float = 1.0, step: float = 0.0
) -> list[list[float]]:
    """Best arm m of cluster m at `top`, all others η lower: clusters differ by no more than
    Assumption 1 requires. With `step` the others descend: the first at top − η, each further one a
    step lower."""
    others = [top - eta - step * j for j in range(n_arms - 1)]
    return [[*others[:m], top, *others[m:]] for m in range(n_clusters)]


def near_tie(
    n_clusters: int, n_arms: int, eta: float, gap: float, top: float = 1.0
) -> list[list[float]]:
    """As `flat`, and arm M + m is a runner-up at distance `gap` in cluster m alone; K ≥ 2M."""
    means = flat(n_clusters, n_arms, eta, top)
    for m, row in enumerate(means):
        row[n_clusters + m] = top - gap
    return means


#: Four arms nearly tie with the first cluster's best one; the second cluster has a single agent.
ONE_APART: Means = ((1.0, 0.6, 0.99, 0.98, 0.97, 0.96), (0.6, 1.0, 0.5, 0.4, 0.3, 0.2))

# fmt: off
GAMES: tuple[AuditGame, ...] = (
    AuditGame("near tie", "a runner-up 0.01 below the best arm, far within eta",
        near_tie(3, 6, 0.3, 0.01), (8, 8, 8), quick=True),
    AuditGame("many agents",
        "200 chances to be wrong, K = M = 2: a union over agents that was forgotten",
        flat(2, 2, 0.02), (100, 100), quick=True),
    AuditGame("flat", "15 arms tie exactly behind the best",
        flat(4, 16, 0.03), (6, 6, 6, 6)),
    AuditGame("nearly flat", "15 arms close behind the best: a union over arms that was forgotten",
        flat(4, 16, 0.02, step=0.003), (6, 6, 6, 6), quick=True),
    AuditGame("as many clusters as arms", "K = M = 6: all are best arms",
        flat(6, 6, 0.02, step=0.003), (5,) * 6),
    AuditGame("skewed clusters", "two agents have a cluster of their own, 36 share one",
        near_tie(4, 8, 0.3, 0.02), (1, 1, 2, 36), quick=True),
    AuditGame("one agent apart",
        "one agent beside 1,599 with near ties: budgets for clusters of equal size",
        ONE_APART, (1599, 1), delta_factor=3.0),
    AuditGame("empty clusters", "two of five clusters have no agent",
        near_tie(5, 10, 0.3, 0.02), (10, 0, 10, 0, 5)),
    AuditGame("one cluster", "M = 1: there is no eta",
        flat(1, 2, 0.01), (40,)),
    AuditGame("one agent", "N = 1, and 29 rivals close behind",
        flat(1, 30, 0.02, step=0.003), (1,)),
    AuditGame("small eta1",
        "a cluster's best arm is nearly as good in the other: eta = 0.5, eta1 = 0.05",
        ((1.0, 0.5, 0.98, 0.0), (0.95, 1.5, 0.0, 1.48)), (12, 12)),
    AuditGame("eta as a lower bound",
        "told eta and eta1 are a quarter of the truth, as they may be",
        near_tie(3, 6, 0.8, 0.02), (8, 8, 8), told={"eta": 0.2, "eta1": 0.2}),
    AuditGame("Bernoulli", "coins near 1/2, where they are loudest",
        flat(2, 4, 0.02, top=0.53, step=0.003), (15, 15), rewards="bernoulli", quick=True),
    AuditGame("jackpots", "best arms pay 10 once in twenty pulls, others 1 half of the time",
        near_tie(2, 4, 0.25, 0.02, top=0.5), (10, 10), rewards="jackpot"),
    AuditGame("loud noise", "sigma = 4 around means near -30: nothing is in [0, 1]",
        flat(2, 4, 0.1, top=-30.0, step=0.01), (12, 12), sigma=4.0),
    AuditGame("good enough", "arms within epsilon are right, others just beyond it are not",
        ((1.0, 0.7, 0.99, 0.7, 0.97), (0.7, 1.0, 0.7, 0.99, 0.97)), (10, 10), epsilon=0.02),
    AuditGame("small delta", "a fifth of delta",
        flat(2, 2, 0.02), (20, 20), delta_factor=0.2),
    AuditGame("large delta", "three times delta: errors may be frequent, up to a point",
        flat(2, 4, 0.02, step=0.003), (10, 10), delta_factor=3.0),
    AuditGame("small game", "few agents, few pulls",
        near_tie(2, 4, 0.6, 0.3), (3, 3), sigma=0.5, small=True, quick=True),
    AuditGame("small flat game", "30 chances to be wrong, few pulls",
        flat(2, 2, 0.15), (15, 15), sigma=0.5, small=True),
    AuditGame("small Bernoulli game", "one cluster of coins",
        flat(1, 3, 0.25, top=0.65, step=0.05), (5,), rewards="bernoulli", small=True),
    AuditGame("shared best arm", "coins; two of three clusters have the same best arm",
        ((0.9, 0.8, 0.3, 0.2), (0.9, 0.2, 0.8, 0.3), (0.3, 0.2, 0.8, 0.9)), (8, 4, 8),
        rewards="bernoulli", told={"eta": None, "eta1": None}, shared=True),
    AuditGame("eta told too large", "told eta and eta1 are 2.5 times the truth",
        flat(3, 6, 0.2), (8, 8, 8), told={"eta": 0.5, "eta1": 0.5}, in_scope=False, quick=True),
    AuditGame("M told too small", "told 2 clusters, there are 3",
        near_tie(3, 6, 0.5, 0.05), (8, 8, 8), told={"n_clusters": 2}, in_scope=False),
    AuditGame("M told too large", "told 4 clusters, there are 3",
        near_tie(3, 6, 0.5, 0.05), (8, 8, 8), told={"n_clusters": 4}, in_scope=False),
    AuditGame("shared best arm, eta told", "two clusters have the same best arm",
        ((1.0, 0.9, 0.3, 0.2), (1.0, 0.4, 0.9, 0.2), (0.3, 0.2, 0.5, 1.0)), (8, 8, 8),
        told={"eta": 0.3, "eta1": 0.3}, shared=True, in_scope=False),
)
# fmt: on
