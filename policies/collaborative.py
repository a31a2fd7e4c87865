"""Collaborative learning in R rounds: all agents search for the best arm of one bandit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.errors import NotApplicable, UserError
from clustered_bandit_gym.game.checks import whole
from clustered_bandit_gym.game.federation import FederationView
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.sequential.paired import shows_drift
from clustered_bandit_gym.policy import Policy, require

#: Precision of the first and of the planned last round, in units of σ. Rewards in [0, 1] have
#: σ = 1/2, so their means differ by at most the first.
FIRST = 2.0
LAST = 0.01
#: Nats that `drift_evidence` costs at most for being valid at all times, for gaps from LAST to FIRST
#: and levels up to 30 nats.
MIXING = 4.0


class CollaborativeBAI(Policy):
    """Successive elimination with the pulls of each arm shared by all agents, in few rounds.

    Plays problems with one cluster (M = 1 told). In each round the centre orders equally many pulls
    of every arm that is left, spread evenly over the agents, and pools their averages; it drops the
    arms that are shown to be worse than the leader. The precision of the rounds shrinks by a fixed
    ratio, from 2σ in the first to `gap` in round R. If arms are left then, rounds go on and the
    pulls double: the answer is right with probability at least 1 − δ whatever the gaps are.

    The model is that of Tao, Zhang and Zhou (2019, arXiv:1904.03293), elimination with a precision
    that shrinks geometrically that of Hillel, Karnin, Koren, Lempel and Somekh (2013,
    arXiv:1311.0800). Adapted: all pulls since the start count, not those of a round only; paired
    differences are tested with a boundary that is valid at all times instead of a union bound over
    rounds; single pulls are spread over agents where an arm needs fewer pulls than there are agents.

    Args:
        rounds: planned number of rounds R. Fewer rounds: more pulls.
        gap: precision of round R, in the units of the rewards: R rounds suffice with probability at
            least 1 − δ if the best arm is ahead by this much, or if ε is at least this, for gaps
            from 0.01σ to 2σ and ln((K − 1)/δ) up to 30. None for ε, or for 0.01σ if ε is 0.

    Error: K − 1 walks at δ/(K − 1); proof in docs/engines.md.

    Communication: an order and a real for each agent, arm left and round. Averages of ordered pulls
    are not rounded.
    """

    name = "collaborative"
    guarantee = "delta-PC if M = 1 is told; proof in docs/engines.md"

    def __init__(self, rounds: int = 16, gap: float | None = None) -> None:
        if gap is not None and not gap > 0:
            raise UserError(f"gap must be positive (or None), got {gap}")
        self.rounds = whole(rounds, "rounds")
        self.gap = gap

    def solve(self, federation: FederationView) -> Ints:
        p = federation.problem
        (m,) = require(self.name, p, "n_clusters")
        if m != 1:
            raise NotApplicable(
                f"{self.name} plays problems with one cluster, but M = {m}; use cluster-then-bai"
            )
        rounds = count(1)

        def order(counts: Floats, left: Bools) -> Ints:
            more = max(1, self.pulls_after(p, next(rounds), level) - int(counts.max()))
            # Shared out in turn, going on after the last round: agents differ by one pull at most.
            each, rest = divmod(more, p.n_agents)
            turn = federation.agents[:, None] - int(counts.sum()) - rest * np.arange(left.sum())
            times = np.zeros((p.n_agents, p.n_arms), dtype=int)
            times[:, left[0]] = each + (turn % p.n_agents < rest)
            return times

        labels = np.zeros(p.n_agents, dtype=int)
        level = np.log(max(1, p.n_arms - 1) / p.delta)
        return search(federation, labels, order, level, np.zeros((3, 1, p.n_arms)))

    def pulls_after(self, p: Problem, number: int, level: float) -> int:
        """Pulls of each arm left, by all agents together, after so many rounds, at least.

        Enough that a gap as large as the round's precision is shown, also if its walk falls short
        by what it falls short with probability e^−level. A round has at least one pull of each arm.
        """
        last = (self.gap or p.epsilon or LAST * p.sigma) / p.sigma
        to_go = self.rounds - number
        if to_go >= 0:
            precision = last * max(FIRST / last, 1.5) ** (to_go / max(self.rounds - 1, 1))
        else:
            precision = last * 2 ** (to_go / 2)
        spread = np.sqrt(2 * level) + np.sqrt(2 * (level + MIXING))
        return int(np.ceil(2 * (spread / precision) ** 2))


def search(
    federation: FederationView,
    labels: Ints,
    order: Callable[[Floats, Bools], Ints],
    level: float,
    tables: Floats,
) -> Ints:
    """(N,) the best arm of each agent's cluster, from pulls that the agents of a cluster share.

    Args:
        labels: (N,) the cluster of each agent, which are reported.
        order: (counts, left) -> (N, K) the pulls of the next round, of the arms that are `left`
            (M, K) in clusters that are not finished.
        level: nats that each walk of two arms has to reach.
        tables: (3, M, K) sums and numbers of the pulls so far, which are added to, and how far
            rounding may have moved the sums.
    """
    p = federation.problem
    federation.report_clusters(labels)
    total, counts, off = tables
    active = np.ones(total.shape, dtype=bool)
    with federation.phase("identify"):
        while True:
            per_pull = 1 / np.maximum(counts, 1)
            leader, active, unfinished = eliminate(
                p, total * per_pull, active, counts, level, off * per_pull
            )
            if not unfinished.any():
                return leader[labels]
            times = order(counts, active & unfinished[:, None])
            agents, arms = np.nonzero(times)
            each = times[agents, arms]
            cells = (labels[agents], arms)
            np.add.at(total, cells, each * federation.pull(agents, arms, each))
            np.add.at(counts, cells, each)


def eliminate(
    p: Problem, means: Floats, left: Bools, n: Floats | int, level: float, off: Floats
) -> tuple[Ints, Bools, Bools]:
    """Drop the arms that are shown worse than the leader, at each of r agents or clusters.

    Args:
        means: (r, K) averages of `n` pulls of each arm.
        left: (r, K) the arms that are left.
        n: a number, or (r, K).
        level: nats that each walk of two arms has to reach.
        off: (r, K) how far rounding may have moved the averages.

    Returns:
        (r,) the leaders, (r, K) the arms that are left now, and (r,) where the leader is not yet
        shown to be within ε of all of them.
    """
    means = np.where(left, means, -np.inf)
    leader = means.argmax(axis=1, keepdims=True)
    rivals = left & (np.arange(p.n_arms) != leader)
    least = np.take_along_axis(means - off, leader, axis=1)
    behind = np.where(rivals, least - (means + off), 0.0)
    worse = shows_drift(n / 2 * behind / p.sigma, n / 2, level)
    within = shows_drift(n / 2 * (behind + p.epsilon) / p.sigma, n / 2, level)
    return leader[:, 0], left & ~worse, (rivals & ~within).any(axis=1)
