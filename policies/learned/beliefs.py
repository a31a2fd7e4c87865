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

#: Rounds of refinement. With 2, a player needs more pulls; with 5, as many as with 3.
ROUNDS = 3
#: Prior variance of a mean around the overall average, in σ²; its weight in pulls, against the variance in the data.
_PRIOR_VARIANCE, _PRIOR_WEIGHT = 0.5, 8.0
_LEAST_VARIANCE = 0.01
# Φ(x) is the logistic function of x(a + b·x²) up to 2e-4, also in the tails that matter here (|x| < 5), and several
# times cheaper. Beyond ±4.5 nothing is gained by telling probabilities apart.
_A, _B, _FAR = 1.5976, 0.07056, 4.5
_TINY = 1e-12
#: Products of so many factors fit in a float32: probabilities down to Φ(−4.5), numbers of pulls up to 1e9.
_FACTORS = 4


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


def infer(
    count: Singles, total: Singles, margin: float, sparsity: float, most: int, rounds: int = ROUNDS
) -> Beliefs:
    """Beliefs from counts (N, K, E) and sums of rewards (N, K, E), the latter in σ and centred per play.

    Args:
        margin: η/σ, how much worse the best arms of other components are.
        sparsity: prior weight of a component without agents, in agents.
        rounds: of refinement.
        most: largest number of components that have agents.
    """
    n_arms = count.shape[1]
    pulls = count.sum(axis=(0, 1))
    squares = (total * total / np.maximum(count, 1)).sum(axis=(0, 1)) - (count > 0).sum(axis=(0, 1))
    # Between-cell variance estimated from the data, shrunk towards the default.
    tau2 = (_PRIOR_WEIGHT * _PRIOR_VARIANCE + np.maximum(squares, 0)) / (_PRIOR_WEIGHT + pulls)
    precision = (1 / np.maximum(tau2, _LEAST_VARIANCE)).astype(np.float32)

    own_variance = 1 / (count + precision)
    member = _best(total * own_variance, own_variance, None, margin)  # each agent alone
    cell_count, cell_total = count[:, None], total[:, None]  # (N, 1, K, E)
    cell_mean = cell_total / np.maximum(cell_count, 1)
    # Pulls (prior included) and rewards of component k: without the agent's own in front, with all of them behind.
    known = np.empty((2, count.shape[0], n_arms, *count.shape[1:]), dtype=np.float32)
    summed = np.empty_like(known)
    for _ in range(rounds):
        weight = member[:, :, None]  # (N, K, 1, E)
        _without_own(weight * cell_count, known[0])
        known[0] += precision
        _without_own(weight * cell_total, summed[0])
        np.add(known[0], cell_count, out=known[1])
        np.add(summed[0], cell_total, out=summed[1])
        variance = 1 / known
        mean = summed * variance
        off = cell_mean - mean[0]
        off *= off
        off *= cell_count
        spread = known[1] * variance[0]
        off /= spread
        score = off.sum(axis=2)
        score += _log_product(spread)
        score *= -0.5
        rest = member.sum(axis=0) - member
        score += np.log(rest + np.float32(sparsity))
        first = _log_first(mean, variance, _present(member, most), margin)
        score += first[1]
        score -= first[0]
        score -= score.max(axis=1, keepdims=True)
        member = np.exp(score, out=score)
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


def _without_own(own: Singles, out: Singles) -> None:
    """Sums over the other agents: of `own` (N, K, K, E), into `out`."""
    np.subtract(own.sum(axis=0), own, out=out)


def _present(member: Singles, most: int) -> Singles:
    """(K, E) probability that a component has an agent; together at most `most`."""
    absent = 1 - np.minimum(member, np.float32(0.9999))
    present = 1 - absent.prod(axis=0)
    return present * np.minimum(1, most / present.sum(axis=0))


def _phi(x: Singles) -> Singles:
    """The standard normal distribution function, approximately. Overwrites `x`."""
    np.maximum(x, -_FAR, out=x)
    square = x * x
    square *= -_B
    square -= _A
    x *= square
    np.exp(x, out=x)
    x += 1
    return np.reciprocal(x, out=x)


def _log_product(factors: Singles) -> Singles:
    """Sum of logarithms along the last axis but one, as logarithms of products: those cost more than a product."""
    parts = range(0, factors.shape[-2], _FACTORS)
    return sum(np.log(factors[..., start : start + _FACTORS, :].prod(axis=-2)) for start in parts)


def _wins(lead: Singles, variance: Singles, elsewhere: Singles | None, margin: float) -> Singles:
    """Probability that a difference with this mean and variance is positive; where `elsewhere`, above the margin."""
    scale = 1 / np.sqrt(variance)
    lead *= scale
    shifted = None if elsewhere is None or margin <= 0 else lead - np.float32(margin) * scale
    wins = _phi(lead)
    if shifted is not None:
        shifted = _phi(shifted)
        shifted -= wins
        shifted *= elsewhere
        wins += shifted
    return wins


def _log_first(mean: Singles, variance: Singles, present: Singles, margin: float) -> Singles:
    """(..., K, E) log-probability that arm k is the best of component k, from (..., K, K, E) posteriors."""
    k = mean.shape[-2]
    diagonal = (*mean.shape[:-3], k * k, mean.shape[-1])
    own_mean = mean.reshape(diagonal)[..., :: k + 1, None, :]
    own_variance = variance.reshape(diagonal)[..., :: k + 1, None, :]
    wins = _wins(own_mean - mean, own_variance + variance, present, margin)
    wins.reshape(diagonal)[..., :: k + 1, :] = 1
    return _log_product(wins)


def _best(mean: Singles, variance: Singles, elsewhere: Singles | None, margin: float) -> Singles:
    """(R, K, E) probability that each arm is the best of its row, from posteriors (R, K, E) of independent means.

    `elsewhere` (R, K, E): probability that the arm is the best of another component, hence worse here by the margin.
    """
    others = None if elsewhere is None else elsewhere[:, None]
    wins = _wins(
        mean[:, :, None] - mean[:, None], variance[:, :, None] + variance[:, None], others, margin
    )
    k = mean.shape[1]
    wins.reshape(len(mean), k * k, -1)[:, :: k + 1] = 1
    log = _log_product(wins)
    best = np.exp(log - log.max(axis=1, keepdims=True))
    return best / best.sum(axis=1, keepdims=True)
