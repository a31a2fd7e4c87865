"""Soft clustering of agents by likelihood: who shares a bandit with whom, and which arm is best there.

Assumption 1 says that clusters have different best arms. So a cluster can be named by its best arm: *component* k is
the cluster whose best arm is k, and an agent belongs to one of K components. Memberships q (N, K) start from each
agent's own data and are refined in a few rounds. In each round the agents of a component pool their pulls in
proportion to their memberships, every arm's mean in a component has a Gaussian posterior, and the new membership of an
agent is proportional to

    (weight of the others in the component) × (likelihood of the agent's data given the others' data)
    × (how much the agent's data raise the probability that arm k is the best of component k).

This is mean-field inference, not an exact posterior: its weights are inputs of a network, not error probabilities. All
operations treat agents alike and arms alike, so renumbering them renumbers the results, and the cost is O(N·K²) where
enumerating every grouping would be exponential in N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Singles = np.ndarray  # float32

#: Rounds of refinement. More change the memberships by less than the noise of a few pulls.
ROUNDS = 5
#: Prior variance of a mean around the overall average, in σ²; its weight in pulls, against the variance in the data.
_PRIOR_VARIANCE, _PRIOR_WEIGHT = 0.5, 8.0
_LEAST_VARIANCE = 0.01
# Φ(x) is the logistic function of x(a + b·x²) up to 2e-4, also in the tails that matter here (|x| < 5), and several
# times cheaper. Beyond ±4.5 nothing is gained by telling probabilities apart.
_A, _B, _FAR = 1.5976, 0.07056, 4.5
_TINY = 1e-12


@dataclass(frozen=True)
class Beliefs:
    """Beliefs about E plays at once, plays last. Means are in σ, relative to the play's overall average.

    Attributes:
        member: (N, K, E) membership of each agent in each component.
        best: (K, K, E) entry (k, l): probability that arm l is the best of component k.
        answer: (N, K, E) probability that arm l is the agent's best.
        mean, variance: (K, K, E) posterior of arm l's mean in component k.
    """

    member: Singles
    best: Singles
    answer: Singles
    mean: Singles
    variance: Singles


def infer(count: Singles, total: Singles, margin: float, sparsity: float, most: int, rounds: int = ROUNDS) -> Beliefs:
    """Beliefs from counts (N, K, E) and sums of rewards (N, K, E), the latter in σ and centred per play.

    Args:
        margin: η/σ, how much worse the best arms of other components are.
        sparsity: prior weight of a component without agents, in agents.
        rounds: of refinement.
        most: largest number of components that have agents.
    """
    n_arms = count.shape[1]
    eye = np.eye(n_arms, dtype=bool)[..., None]
    pulls = count.sum(axis=(0, 1))
    squares = (total * total / np.maximum(count, 1)).sum(axis=(0, 1)) - (count > 0).sum(axis=(0, 1))
    # Between-cell variance estimated from the data, shrunk towards the default.
    tau2 = (_PRIOR_WEIGHT * _PRIOR_VARIANCE + np.maximum(squares, 0)) / (_PRIOR_WEIGHT + pulls)
    precision = (1 / np.maximum(tau2, _LEAST_VARIANCE)).astype(np.float32)

    own_variance = 1 / (count + precision)
    member = _best(total * own_variance, own_variance, None, margin)  # each agent alone
    cell_count, cell_total = count[:, None], total[:, None]  # (N, 1, K, E)
    cell_mean = cell_total / np.maximum(cell_count, 1)
    for _ in range(rounds):
        weight = member[:, :, None]  # (N, K, 1, E)
        others = (weight * cell_count).sum(axis=0) - weight * cell_count  # (N, K, K, E)
        others_total = (weight * cell_total).sum(axis=0) - weight * cell_total
        variance = 1 / (others + precision)
        mean = others_total * variance
        spread = 1 + cell_count * variance
        off = cell_mean - mean
        score = -0.5 * (np.log(spread) + cell_count * off * off / spread).sum(axis=2)
        rest = member.sum(axis=0) - member
        score += np.log(rest + sparsity)
        present = _present(member, most)
        score -= _log_first(mean, variance, present, margin, eye)
        joint_variance = 1 / (others + cell_count + precision)
        joint_mean = (others_total + cell_total) * joint_variance
        score += _log_first(joint_mean, joint_variance, present, margin, eye)
        score -= score.max(axis=1, keepdims=True)
        member = np.exp(score)
        member /= member.sum(axis=1, keepdims=True)
    weight = member[:, :, None]
    variance = 1 / ((weight * cell_count).sum(axis=0) + precision)
    mean = (weight * cell_total).sum(axis=0) * variance
    present = _present(member, most)
    best = _best(mean, variance, None, margin)
    for _ in range(2):
        # Best arms differ: an arm that is another component's best is not this one's, and lies below it by the margin.
        free = np.log1p(-np.minimum(present[:, None] * best, 0.9999))
        free = np.exp(free.sum(axis=0) - free)
        best = _best(mean, variance, 1 - free, margin) * free
        best /= best.sum(axis=1, keepdims=True) + _TINY
    answer = (weight * best[None]).sum(axis=1)
    return Beliefs(member, best, answer, mean, variance)


def _present(member: Singles, most: int) -> Singles:
    """(K, E) probability that a component has an agent; together at most `most`."""
    present = 1 - np.exp(np.log1p(-np.minimum(member, 0.9999)).sum(axis=0))
    return present * np.minimum(1, most / present.sum(axis=0))


def _phi(x: Singles) -> Singles:
    """The standard normal distribution function, approximately."""
    x = np.clip(x, -_FAR, _FAR)
    return 1 / (1 + np.exp(-x * (_A + _B * x * x)))


def _log_first(mean: Singles, variance: Singles, present: Singles, margin: float, eye: np.ndarray) -> Singles:
    """(N, K, E) log-probability that arm k is the best of component k, from (N, K, K, E) posteriors."""
    k = np.arange(mean.shape[1])
    lead = mean[:, k, k][:, :, None] - mean
    scale = 1 / np.sqrt(variance[:, k, k][:, :, None] + variance)
    wins = _phi(lead * scale)
    if margin > 0:
        wins += present * (_phi((lead - margin) * scale) - wins)
    return np.log(np.where(eye, np.float32(1), wins)).sum(axis=2)


def _best(mean: Singles, variance: Singles, elsewhere: Singles | None, margin: float) -> Singles:
    """(R, K, E) probability that each arm is the best of its row, from posteriors (R, K, E) of independent means.

    `elsewhere` (R, K, E): probability that the arm is the best of another component, hence worse here by the margin.
    """
    lead = mean[:, :, None] - mean[:, None]  # (R, l, l', E)
    scale = 1 / np.sqrt(variance[:, :, None] + variance[:, None])
    wins = _phi(lead * scale)
    if elsewhere is not None and margin > 0:
        wins += elsewhere[:, None] * (_phi((lead - margin) * scale) - wins)
    k = np.arange(mean.shape[1])
    wins[:, k, k] = 1
    log = np.log(wins).sum(axis=2)
    best = np.exp(log - log.max(axis=1, keepdims=True))
    return best / best.sum(axis=1, keepdims=True)
