"""Soft clustering of agents by likelihood: who shares a bandit with whom, and which arm is best.

Assumption 1 says that clusters have different best arms. So a cluster can be named by its best arm:
*component* k is the cluster whose best arm is k, and an agent belongs to one of K components.
Memberships q (N, K) start from each agent's own data and are refined in a few rounds. In each round
the agents of a component pool their pulls in proportion to their memberships, every arm's mean in a
component has a Gaussian posterior, and the new membership of an agent is proportional to

    (weight of the others in the component) × (likelihood of the agent's data given the others' data)
    × (how much the agent's data raise the probability that arm k is the best of component k).

This is mean-field inference, not an exact posterior: its weights are inputs of a network, not error
probabilities. Renumbering agents or arms renumbers the results. The cost is O(N·K²).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from clustered_bandit_gym._types import Array


class Beliefs(NamedTuple):
    """Beliefs about E plays, plays last, in single precision. Means are in σ, relative to the play's overall average.

    Attributes:
        member: (N, K, E) membership of each agent in each component.
        best: (K, K, E) entry (k, l): probability that arm l is the best of component k.
        answer: (N, K, E) probability that arm l is the agent's best.
        mean, variance: (K, K, E) posterior of arm l's mean in component k.
    """

    member: Array
    best: Array
    answer: Array
    mean: Array
    variance: Array


def infer(count: Array, total: Array, margin: float, most: int, rounds: int = 3) -> Beliefs:
    """Beliefs from counts (N, K, E) and sums of rewards (N, K, E), in σ and centred per play.

    Args:
        margin: η/σ, how much worse the best arms of other components are.
        most: largest number of components that have agents.
        rounds: of refinement. With 2, a player needs more pulls; with 5, as many as with 3.
    """
    # Variance of the cells' means: 0.5 with the weight of 8 pulls, and what the data say.
    squares = total**2 / np.maximum(count, 1) - (count > 0)
    between = np.maximum(squares.sum(axis=(0, 1)), 0)
    prior = (8 * 0.5 + between) / (8 + count.sum(axis=(0, 1)))
    precision = 1 / np.maximum(prior, np.float32(0.01))
    own_variance = 1 / (count + precision)
    member = _best(total * own_variance, own_variance)  # each agent alone
    for _ in range(rounds):
        member = _refine(member, count, total, precision, margin, most)

    weight = member[:, :, None]
    variance = 1 / ((weight * count[:, None]).sum(axis=0) + precision)
    mean = (weight * total[:, None]).sum(axis=0) * variance
    present = _present(member, most)
    best = _best(mean, variance)
    for _ in range(2):
        # Best arms differ: another component's best is not this one's, and below it by the margin.
        free = np.log1p(-np.minimum(present[:, None] * best, 0.9999))
        free = np.exp(_others(free))
        best = _best(mean, variance, 1 - free[:, None], margin) * free
        best /= best.sum(axis=1, keepdims=True) + 1e-12
    answer = (weight * best).sum(axis=1)
    return Beliefs(member, best, answer, mean, variance)


def _refine(
    member: Array, count: Array, total: Array, precision: Array, margin: float, most: int
) -> Array:
    """(N, K, E) memberships after one more round."""
    weight = member[:, :, None]
    count, total = count[:, None], total[:, None]  # (N, 1, K, E)
    # Posterior of each arm in each component without the agent's own data, (N, K, K, E).
    others_count = _others(weight * count) + precision
    others_total = _others(weight * total)
    others_mean = others_total / others_count
    # And as if the agent belonged to the component.
    all_count = others_count + count
    all_mean = (others_total + total) / all_count

    spread = all_count / others_count
    off = total / np.maximum(count, 1) - others_mean
    score = -0.5 * (count * off**2 / spread + np.log(spread)).sum(axis=2)
    # A component without agents has the weight of 0.3 of them.
    score += np.log(_others(member) + np.float32(0.3))
    present = _present(member, most)
    score += _log_first(all_mean, 1 / all_count, present, margin)
    score -= _log_first(others_mean, 1 / others_count, present, margin)
    return _softmax(score)


def _others(values: Array) -> Array:
    """The sum of all other rows, for each row."""
    return values.sum(axis=0) - values


def _present(member: Array, most: int) -> Array:
    """(K, E) probability that a component has an agent; together at most `most`."""
    absent = 1 - np.minimum(member, np.float32(0.9999))
    present = 1 - absent.prod(axis=0)
    return present * np.minimum(1, most / present.sum(axis=0))


def _log_first(mean: Array, variance: Array, present: Array, margin: float) -> Array:
    """(N, K, E) log-probability that arm k is the best of component k, from (N, K, K, E)."""
    own_mean = np.einsum("nkke->nke", mean)[:, :, None]
    own_variance = np.einsum("nkke->nke", variance)[:, :, None]
    return _log_wins(own_mean - mean, own_variance + variance, present, margin)


def _best(
    mean: Array, variance: Array, elsewhere: Array | float = 0.0, margin: float = 0.0
) -> Array:
    """(R, K, E) probability that each arm is the best of its row, from posteriors (R, K, E).

    `elsewhere` (R, 1, K, E): probability that the arm is the best of another component.
    """
    lead = mean[:, :, None] - mean[:, None]
    both = variance[:, :, None] + variance[:, None]
    return _softmax(_log_wins(lead, both, elsewhere, margin))


def _log_wins(lead: Array, variance: Array, elsewhere: Array | float, margin: float) -> Array:
    """(R, K, E) log-probability that arm k beats all other arms l, from leads (R, K, K, E).

    With probability `elsewhere` arm l is the best arm of another component; then the margin counts.
    """
    scale = 1 / np.sqrt(variance)
    wins = _phi(lead * scale)
    if margin > 0:
        wins += elsewhere * (_phi((lead - np.float32(margin)) * scale) - wins)
    itself = np.eye(lead.shape[1], dtype=bool)[:, :, None]
    return np.where(itself, 0, np.log(wins)).sum(axis=2)


def _softmax(score: Array) -> Array:
    """(R, K, E) probabilities over axis 1; SciPy's softmax takes 15 µs for its checks."""
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def _phi(x: Array) -> Array:
    """The normal distribution function up to 2e-4, in a third of the time of SciPy's.

    Below −4.5 nothing is gained by telling values apart.
    """
    x = np.maximum(x, np.float32(-4.5))
    return expit(x * (1.5976 + 0.07056 * x * x))
