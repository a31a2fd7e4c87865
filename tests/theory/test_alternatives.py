from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from bound_reference import cheapest

from clustered_bandit_gym import Bernoulli, Categorical, Gaussian, Instance
from clustered_bandit_gym.generators import RandomFamily
from clustered_bandit_gym.theory.alternatives import (
    Changes,
    Moves,
    Truth,
    change_bandit,
    hardest,
    new_bandit,
    new_best_arm,
    rows_of,
)
from clustered_bandit_gym.theory.laws import laws_of

Family = Callable[[Truth], Changes]
KINDS = ["gaussian", "bernoulli", "categorical"]


def drawn(
    kind: str, seed: int, n_clusters: int = 3, n_arms: int = 5, empty: bool = False
) -> Instance:
    generate = RandomFamily(
        7, n_clusters, n_arms, eta=0.2, eta1=0.01, gap=0.02, rewards=kind, sizes="equal"
    )
    instance = generate(np.random.default_rng(seed))
    clusters = np.minimum(instance.clusters, n_clusters - 2) if empty else instance.clusters
    return Instance(None if kind == "categorical" else instance.means, clusters, instance.rewards)


def truth_of(instance: Instance, eta: float, spare: bool = False) -> Truth:
    sizes = np.bincount(instance.clusters, minlength=instance.n_clusters)
    return Truth(laws_of(instance), sizes, eta, spare or bool((sizes == 0).any()))


def pulls_of(truth: Truth, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(1, 50, (truth.n_played, truth.n_arms))


def asked(
    family: Family, truth: Truth, pulls: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Moves, Changes]:
    """Values (A,) and coefficients (A, M·K) of the possible alternatives of a family."""
    changes = family(truth)
    moves = hardest(truth, pulls, changes)
    n = changes.answer.size
    rows = rows_of(moves, pulls, n).toarray()
    assert len(rows) == n, "these instances leave room for every alternative"
    return rows @ pulls.ravel(), rows, moves, changes


def alternative(
    truth: Truth, moves: Moves, changes: Changes, a: int, family: Family
) -> tuple[np.ndarray, np.ndarray]:
    """Means (M, K) and the bandit of each agent in alternative a, with the new answer the best by a
    hair.
    """
    means = truth.laws.means.copy()
    if changes.changed[a] < 0:
        means = np.vstack([means, np.zeros(truth.n_arms)])
    if family is new_bandit:
        means[changes.changed[a]] = truth.laws.means[changes.source[a]]
    own = moves.alternative == a
    means[moves.bandit[own], moves.arm[own]] = moves.target[own]
    means[changes.changed[a], changes.answer[a]] += 1e-9
    clusters = np.repeat(np.arange(len(truth.sizes)), truth.sizes)
    if changes.source[a] >= 0:
        new = changes.changed[a] % len(means)
        clusters[np.flatnonzero(clusters == changes.source[a])[0]] = new
    return means, clusters


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", [change_bandit, new_best_arm, new_bandit])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_every_alternative_lies_in_the_class_and_changes_an_answer(
    family: Family, kind: str, share: float
) -> None:
    """Assumption 1 with the told η, as `Instance` checks it; means inside the support; some agent's
    answer differs.
    """
    for seed in range(2):
        for empty in (False, True):
            instance = drawn(kind, seed, empty=empty)
            eta = share * instance.eta
            truth = truth_of(instance, eta, spare=family is new_bandit)
            values, _, moves, changes = asked(family, truth, pulls_of(truth, seed))
            assert values.size > 0
            for a in range(values.size):
                means, clusters = alternative(truth, moves, changes, a, family)
                if kind != "gaussian":
                    assert means.min() >= 0
                    assert means.max() <= 1 + 1e-9
                other = Instance(means, clusters, Gaussian(), allow_ties=True, allow_overlap=True)
                if other.n_clusters > 1:
                    assert other.eta >= eta - 2e-9
                agents = np.flatnonzero(clusters == changes.changed[a] % len(means))
                assert agents.size > 0
                assert np.all(other.agent_best_arms[agents] == changes.answer[a])
                before = np.repeat(truth.best, truth.sizes)
                assert np.any(other.agent_best_arms != before)


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_coefficients_are_those_of_the_alternative(kind: str) -> None:
    """Σ P·KL with the divergence of the moved laws, agent by agent: all agents of a cluster share
    its pulls equally.
    """
    instance = drawn(kind, 3, empty=True)
    truth = truth_of(instance, 0.7 * instance.eta)
    pulls = pulls_of(truth, 5)
    for family in (new_best_arm, new_bandit):
        values, _, moves, changes = asked(family, truth, pulls)
        for a in range(0, values.size, 3):
            means, clusters = alternative(truth, moves, changes, a, family)
            means[changes.changed[a], changes.answer[a]] -= 1e-9
            expected, origin = 0.0, np.repeat(np.arange(len(truth.sizes)), truth.sizes)
            for m, j in zip(origin, clusters, strict=True):
                laws = truth.laws[m]
                kl = laws.kl(laws.moved_to(means[j]))
                expected += float(kl @ pulls[m]) / truth.sizes[m]
            assert values[a] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_hardest_members_by_a_general_solver(kind: str) -> None:
    """SLSQP over all means (or laws) of all bandits, with Assumption 1 written out.

    Exact up to its own accuracy.
    """
    for seed in range(1):
        instance = drawn(kind, 10 + seed, n_clusters=2, n_arms=3)
        sizes = np.bincount(instance.clusters)
        eta = 0.8 * instance.eta
        truth = truth_of(instance, eta)
        pulls = pulls_of(truth, seed)
        values, rows, _, changes = asked(change_bandit, truth, pulls)
        for a in range(values.size):
            m, j = changes.source[a], changes.changed[a]
            shares = np.eye(2)
            shares[m] -= shares[m] / sizes[m]
            shares[m, j] += 1 / sizes[m]
            value, row = cheapest(instance, pulls, eta, shares, tuple(truth.best))
            assert values[a] == pytest.approx(value, rel=1e-4)
            assert rows[a].reshape(2, 3) == pytest.approx(row, rel=0.02, abs=2e-3)
        values, _, _, changes = asked(new_best_arm, truth, pulls)
        for a in range(values.size):
            best = truth.best.copy()
            best[changes.changed[a]] = changes.answer[a]
            value, _ = cheapest(instance, pulls, eta, np.eye(2), tuple(best))
            assert values[a] == pytest.approx(value, rel=1e-4, abs=1e-9)


def test_no_alternative_is_cheaper_nearby() -> None:
    """The value is concave in P and its coefficients are a supergradient: every cut holds at every
    other P.
    """
    instance = drawn("bernoulli", 1, empty=True)
    truth = truth_of(instance, 0.5 * instance.eta)
    points = [pulls_of(truth, seed) for seed in range(6)]
    for family in (change_bandit, new_best_arm, new_bandit):
        found = [asked(family, truth, point) for point in points]
        for _, rows, _, _ in found:
            for point, (there, *_) in zip(points, found, strict=True):
                assert np.all(rows @ point.ravel() >= there * (1 - 1e-8))


def test_where_the_support_leaves_no_room() -> None:
    """An arm cannot become the best of a bandit whose best arm is certain, and arms at the ends of
    the support move.
    """
    sure = Instance([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]], [0, 1], Bernoulli())
    truth = truth_of(sure, 0.9)
    values = asked(new_best_arm, truth, np.ones((2, 3)))[0]
    # Arm 2 must reach t and arm 0, certain so far, fall to t, in both bandits arm 2 be 0.9 worse
    # than the best.
    assert np.all(values > 0)
    laws = np.array([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]])
    truth = truth_of(Instance(None, [0, 1], Categorical(np.array([0.0, 1.0, 2.0]), laws)), 0.25)
    values = asked(change_bandit, truth, np.ones((2, 2)))[0]
    assert np.all(values > 0)
