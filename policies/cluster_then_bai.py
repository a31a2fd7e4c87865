"""Cluster all agents first, then search for one best arm per cluster: the plain way to share."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.federation import Block, FederationView
from clustered_bandit_gym.game.payloads import Reals
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.collaborative import eliminate, search
from clustered_bandit_gym.policies.sequential.paired import drift_evidence
from clustered_bandit_gym.policy import Policy, require

#: A real that is sent may be off by this part of its size: it arrives in single precision.
ROUNDING = 2.0**-23


class ClusterThenBAI(Policy):
    """Phase 1 clusters the agents; in phase 2 the agents of a cluster search for its best arm.

    Phase 1 ("cluster"): in each round every agent pulls every arm equally often and sends its
    averages. The centre picks M agents that differ most, and assigns an agent to the one of them
    that it is not shown to differ from. It ends when the M agents are shown to differ from each
    other and every other agent from all but one of them, or when every agent's own averages name
    its best arm. Representatives come first in active clustering with bandit feedback, too (Thuot,
    Carpentier, Giraud and Verzelen 2024, arXiv:2406.11485; see also arXiv:2503.11209). Adapted:
    uniform sampling, fixed confidence, e-processes.

    Phase 2 ("identify"): in each round every agent pulls the arms that are left in its cluster; the
    centre pools the averages of a cluster and drops the arms that are shown to be worse. With a
    single cluster there is no phase 1; see `CollaborativeBAI` for a planned number of rounds.

    Needs M, the number of clusters that have agents, and no assumption on the means: clusters may
    share a best arm.

    Args:
        growth: factor from the pulls after one round to those after the next. Larger: fewer rounds,
            more pulls.

    Error: δ/4 for pairs of agents of one cluster that are shown to differ, δ/4 for arms shown by an
    agent's own averages, δ/2 for those shown by pooled averages; proof in docs/engines.md. Averages
    of phase 1 arrive rounded: every test takes them to be off by `ROUNDING` against what it is to
    show.

    Communication: K reals up from each agent in a round of phase 1, an order and a real for each
    agent and arm left in a round of phase 2.
    """

    name = "cluster-then-bai"
    guarantee = "delta-PC if M is told; clusters may share a best arm"

    def __init__(self, growth: float = 1.5) -> None:
        if not growth > 1:
            raise UserError(f"growth must be larger than 1, got {growth}")
        self.growth = float(growth)

    def solve(self, federation: FederationView) -> Ints:
        p = federation.problem
        (m,) = require(self.name, p, "n_clusters")
        zeros = np.zeros(p.n_agents, dtype=int)
        if p.n_arms == 1:
            return zeros
        labels = zeros if m == 1 else None
        n = 0
        # Sums and numbers of pulls, and how far rounding may have moved the sums.
        seen = np.zeros((3, p.n_agents, p.n_arms))
        sums, counts, off = seen
        everything = np.ones_like(sums, dtype=bool)
        own_level = np.log(4 * p.n_agents * (p.n_arms - 1) / p.delta)

        def send_averages(block: Block) -> Reals:
            return Reals(block.pull_grid(times))

        with federation.phase("cluster"):
            while labels is None:
                times = 1 + int(n * (self.growth - 1))
                n += times
                averages = federation.local(federation.agents, send_averages)
                sums += times * averages
                counts += times
                off += times * ROUNDING * np.abs(averages)
                leader, _, open_ = eliminate(p, sums / n, everything, n, own_level, off / n)
                if not open_.any():
                    return leader
                labels = _cluster(p, sums / n, off / n, n, m)
        sizes = np.bincount(labels)
        tables = np.zeros((3, m, p.n_arms))
        np.add.at(tables.swapaxes(0, 1), labels, seen.swapaxes(0, 1))

        def order(counts: Floats, left: Bools) -> Ints:
            times = 1 + ((self.growth - 1) * counts / sizes[:, None]).astype(int)
            return (left * times)[labels]

        level = np.log(2 * m * (p.n_arms - 1) / p.delta)
        return search(federation, labels, order, level, tables)


def _cluster(p: Problem, means: Floats, off: Floats, n: int, m: int) -> Ints | None:
    """(N,) cluster labels, once M agents differ and each agent differs from all but one of them.

    Representatives are chosen one by one: the next is the agent that differs most from all so far.
    """
    level = np.log(2 * p.n_agents * max(1, p.n_agents - 1) / p.delta)

    def differ(agent: int) -> Floats:
        """(N,) evidence that an agent's means differ from those of `agent`.

        Half of it is the average over arms, for bandits that differ in few of them, and half the
        product, for those that differ in many: if all means are equal, arms are independent, and
        both are e-processes.
        """
        walk = n / 2 * (means - means[agent]) / p.sigma
        walk_off = n / 2 * (off + off[agent]) / p.sigma
        up = drift_evidence(walk - walk_off, n / 2, level)
        down = drift_evidence(-walk - walk_off, n / 2, level)
        of_arm = np.logaddexp(up, down) - np.log(2)
        average = np.logaddexp.reduce(of_arm, axis=1) - np.log(p.n_arms)
        evidence = np.logaddexp(average, of_arm.sum(axis=1)) - np.log(2)
        evidence[agent] = -np.inf
        return evidence

    evidence = [differ(0)]
    for _ in range(m - 1):
        nearest = np.min(evidence, axis=0)
        furthest = int(nearest.argmax())
        if nearest[furthest] < level:  # fewer than M agents are shown to differ from each other
            return None
        evidence.append(differ(furthest))
    differs = np.array(evidence) >= level
    return differs.argmin(axis=0) if (differs.sum(axis=0) == m - 1).all() else None
