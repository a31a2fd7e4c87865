"""The lower bound over a class of instances."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from clustered_bandit_gym.theory import information_needed

#: 1 − 1/e. On [0, 1 − 1/e], −ln(1 − u) ≤ u/(1 − 1/e), by convexity.
_KNEE = 1 - math.exp(-1)


def minimax_lower_bound(
    n_agents: int, n_clusters: int, n_arms: int, gap: float, delta: float, sigma: float = 1.0
) -> float:
    """Expected pulls that every δ-PC learner needs on some instance whose gaps are all at least
    `gap` = Δ.

    On the paper's instance (bandit m has mean μ + Δ at arm m ≤ M and μ elsewhere, Gaussian with
    standard deviation σ) two things have to be found out, by pulls of different arms, so that their
    costs add up:

    * best arms, by pulls of arms k > M: raising one of them to μ + 2Δ in an occupied bandit gives
      another instance of the class, at a divergence of (2Δ)²/2σ² a pull;
    * assignment, by pulls of arms k ≤ M: moving an agent to another bandit changes two of them by
      Δ, at Δ²/2σ² a pull.

    The larger of two bounds: all bandits occupied as evenly as can be, with kl(δ, 1 − δ) for
    either; and the average over uniformly random assignments, which charges
    `assignment_information` per agent. See docs/lower-bounds.md.
    """
    if min(n_agents, n_clusters, n_arms) < 1 or n_arms < n_clusters:
        raise ValueError(
            f"need N, M >= 1 and K >= M, got N = {n_agents}, M = {n_clusters}, K = {n_arms}"
        )
    if not (gap > 0 and sigma > 0):
        raise ValueError(f"gap and sigma must be positive, got {gap} and {sigma}")
    needed, unit = information_needed(delta), sigma**2 / gap**2
    per_bandit = (n_arms - n_clusters) * needed * unit / 2
    if n_clusters == 1:
        return per_bandit
    spread = min(n_agents, n_clusters) * per_bandit + n_agents * 2 * needed * unit
    occupied = n_clusters * -math.expm1(n_agents * math.log1p(-1 / n_clusters))
    drawn = (
        occupied * per_bandit
        + n_agents * 2 * assignment_information(n_agents, n_clusters, delta) * unit
    )
    return max(spread, drawn)


def assignment_information(n_agents: int, n_clusters: int, delta: float) -> float:
    """Nats per agent that a δ-PC learner collects on average when agents are assigned to M known
    bandits uniformly at random: about ln(N(M − 1)/(1.6δ)) for small δ, since *all* N agents must be
    right at once.

    With φ(e) = (1 − e − e/(M − 1))·ln((M − 1)(1 − e)/e), the information behind a posterior error
    of e, it is the minimum over 0 ≤ a ≤ δ/c of (1 − a)·φ((δ − ca)/(cN(1 − a))), where c = 1 − 1/e
    and a is the probability of giving up: a learner may be wrong about everybody with a probability
    near δ. docs/lower-bounds.md derives it.
    """
    if n_agents < 1 or n_clusters < 2:
        raise ValueError(f"need N >= 1 and M >= 2, got N = {n_agents}, M = {n_clusters}")
    needed = information_needed(delta)

    def information(error: float) -> float:
        if error <= 0:
            return math.inf
        if error >= 1 - 1 / n_clusters:
            return 0.0
        rivals = n_clusters - 1
        return (1 - error - error / rivals) * math.log(rivals * (1 - error) / error)

    def at(given_up: float) -> float:
        left = 1 - given_up
        return (
            left * information((delta - _KNEE * given_up) / (_KNEE * n_agents * left))
            if left > 0
            else 0.0
        )

    # Convex in `given_up` (the perspective of a convex function). The bounded search may stop short
    # of an end.
    most = min(delta / _KNEE, 1.0)
    found = minimize_scalar(
        at, bounds=(0.0, most), method="bounded", options={"xatol": 1e-12 * most}
    )
    return max(needed, min(at(0.0), float(found.fun)))
