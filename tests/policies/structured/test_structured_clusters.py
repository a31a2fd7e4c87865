"""StructuredBAI with `assume=clusters`: clusters may share a best arm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies import StructuredBAI, make
from clustered_bandit_gym.policies.structured.representatives import Teams

#: False-alarm rate of every test that counts errors.
RARE = 1e-9
#: Clusters 0 and 1 share the best arm.
SHARED = [[0.9, 0.5, 0.3, 0.1], [0.9, 0.3, 0.6, 0.2], [0.2, 0.9, 0.3, 0.4]]
#: The same with a near tie in each cluster.
CLOSE = [[0.9, 0.8, 0.3, 0.1], [0.9, 0.3, 0.8, 0.2], [0.2, 0.9, 0.3, 0.8]]


def play(
    means: list[list[float]],
    clusters: np.ndarray,
    delta: float,
    seed: int = 0,
    rewards: cbg.RewardModel | None = None,
    **told: float | None,
) -> cbg.Federation:
    instance = cbg.Instance(means, clusters, rewards, allow_overlap=True)
    problem = cbg.Problem.of(instance, delta, **{"eta": None, "eta1": None, **told})
    federation = cbg.Federation(instance, problem, seed=seed)
    federation.stop(StructuredBAI(assume="clusters").solve(federation))
    return federation


@pytest.mark.parametrize("rewards", [cbg.Gaussian(), cbg.Bernoulli()])
@pytest.mark.parametrize(
    ("means", "clusters"),
    [
        (SHARED, np.arange(30) % 3),
        (SHARED, np.array([0, 1, 2])),
        (SHARED, np.array([0] * 20 + [1, 2])),
        (SHARED, np.arange(8) % 2),
        (SHARED[:1], np.zeros(5, dtype=int)),
        ([[0.9, 0.1], [0.9, 0.5], [0.2, 0.6]], np.arange(12) % 3),
    ],
    ids=[
        "equal",
        "singletons",
        "skew",
        "an empty cluster",
        "one cluster",
        "more clusters than arms",
    ],
)
def test_right_answers_where_clusters_share_best_arms(
    means: list[list[float]], clusters: np.ndarray, rewards: cbg.RewardModel
) -> None:
    federation = play(means, clusters, 1e-9, rewards=rewards)
    assert federation.judgement is not None
    assert federation.judgement.correct


def test_errors_with_shared_best_arms_are_no_more_frequent_than_delta() -> None:
    trials, delta, wrong = 40, 0.3, 0
    for seed in range(trials):
        federation = play(CLOSE, np.array([0] * 5 + [1] * 2 + [2] * 3), delta, seed)
        assert federation.judgement is not None
        wrong += not federation.judgement.correct
    assert wrong <= binom.isf(RARE, trials, delta)


def test_assumption_1_would_be_wrong_there() -> None:
    """Without `assume` the same game is answered wrongly or not at all: the option is needed."""
    instance = cbg.Instance(CLOSE, np.arange(12) % 3, allow_overlap=True)
    wrong = 0
    for seed in range(5):
        problem = cbg.Problem.of(instance, 0.01, eta=0.3, check=False)
        federation = cbg.Federation(instance, problem, seed=seed, max_pulls=10**7)
        try:
            wrong += not federation.stop(StructuredBAI().solve(federation)).correct
        except cbg.BudgetExceeded:
            wrong += 1
    assert wrong >= 4


def test_the_work_on_best_arms_is_shared_within_a_cluster() -> None:
    """A gap of 0.02 takes 10^5 pulls or more of two arms; no agent makes more than a part of them."""
    means = [[0.9, 0.88, 0.0], [0.0, 0.9, 0.2]]
    federation = play(means, np.arange(40) % 2, 0.05)
    assert federation.judgement is not None
    assert federation.judgement.correct
    assert federation.judgement.clustering_errors == 0
    assert federation.pulls_by_phase["best arms"] > 50_000
    assert federation.pulls_per_agent.max() < 0.25 * federation.pulls_by_phase["best arms"]


def test_teams_split_pulls_evenly_and_average_them() -> None:
    instance = cbg.Instance([[1.0, 0.0], [0.0, 1.0]], [0, 1, 0, 1, 1], cbg.Gaussian(0.0))
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1, sigma=1.0))
    teams = Teams(federation, np.array([0, 1, 0, 1, 1]))
    means = teams.pull(np.array([1, 0]), np.array([1, 1]), np.array([5, 1]))
    assert means.tolist() == [1.0, 0.0]
    assert federation.pulls_per_agent.tolist() == [1, 2, 0, 2, 1]


def test_it_needs_m() -> None:
    instance = cbg.Instance(SHARED, np.arange(6) % 3, allow_overlap=True)
    problem = cbg.Problem.of(instance, 0.1, n_clusters=None, eta=None, eta1=None)
    with pytest.raises(UserError, match="requires n_clusters"):
        make("structured-bai:assume=clusters").solve(cbg.Federation(instance, problem))
    with pytest.raises(UserError, match="assume must be"):
        make("structured-bai:assume=nothing")
