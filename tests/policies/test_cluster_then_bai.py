"""Cluster first, then search: right where M is told, also where clusters share a best arm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies import make
from clustered_bandit_gym.testing import check_policy


def play(
    means: list[list[float]], clusters: list[int], delta: float, seed: int, **told: object
) -> cbg.Federation:
    instance = cbg.Instance(means, clusters, allow_ties=True, allow_overlap=True)
    problem = cbg.Problem.of(instance, delta, eta=None, eta1=None, **told)
    federation = cbg.Federation(instance, problem, seed)
    federation.stop(make("cluster-then-bai").solve(federation))
    return federation


SHARED = [[1.0, 0.7, 0.0], [1.0, 0.0, 0.7], [0.0, 0.4, 1.0]]


def test_error_rate_where_clusters_share_a_best_arm() -> None:
    """100 plays at δ = 0.3: at most 30% wrong; false-alarm rate below 1e-9 (exact binomial)."""
    clusters = [0, 1, 2, 0, 1, 2, 0, 0]
    plays = [play(SHARED, clusters, 0.3, seed) for seed in range(100)]
    wrong = sum(not f.judgement.correct for f in plays if f.judgement)
    assert wrong <= binom.isf(1e-9, 100, 0.3)
    assert np.median([f.judgement.clustering_errors for f in plays if f.judgement]) == 0


def test_agents_of_a_cluster_share_the_work() -> None:
    """With 40 agents in a cluster, the busiest one pulls far less than one agent alone needs."""
    tie = [[1.0, 0.97, 0.0], [0.0, 0.5, 1.0]]
    alone = play(tie, [0, 1], 1e-9, 0)
    many = play(tie, [0] * 40 + [1] * 2, 1e-9, 0)
    assert many.pulls_per_agent[:40].max() < 0.2 * alone.pulls_per_agent[0]


def test_one_cluster_is_collaborative_learning_in_few_rounds() -> None:
    federation = play([[1.0, 0.9, 0.5, 0.0]], [0] * 50, 1e-9, 3)
    assert federation.judgement is not None
    assert federation.judgement.correct
    assert federation.rounds < 30
    assert "cluster" not in federation.pulls_by_phase


def test_an_empty_cluster_does_not_keep_it_from_ending() -> None:
    federation = play(SHARED, [0, 0, 2, 2], 1e-9, 1)
    assert federation.judgement is not None
    assert federation.judgement.correct


def test_epsilon_ends_a_near_tie() -> None:
    tie = [[1.0, 0.9999, 0.0], [0.0, 0.5, 1.0]]
    federation = play(tie, [0, 1, 0, 1], 1e-9, 2, epsilon=0.1)
    assert federation.judgement is not None
    assert federation.judgement.correct
    assert federation.pulls < 10**6


def test_averages_that_arrive_rounded_are_not_taken_for_exact() -> None:
    """Single precision has steps of 0.06σ at a million σ: near ties there must wait for phase 2.

    5 plays at δ = 1e-9: a wrong answer has probability below 5e-9.
    """
    large = 1e6 + 0.03125
    means = [[large, large + 2e-3, 0.0], [large, large + 2e-3, 0.02]]
    for seed in range(5):
        federation = play(means, [0, 0, 1, 1], 1e-9, seed)
        assert federation.judgement is not None
        assert federation.judgement.correct


def test_it_needs_m_and_keeps_the_contract() -> None:
    with pytest.raises(cbg.errors.UserError, match="n_clusters"):
        play(SHARED, [0, 1, 2], 0.1, 0, n_clusters=None)
    check_policy(make("cluster-then-bai"))
