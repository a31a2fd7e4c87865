"""The judge: right and wrong arms, clustering errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_plays import noiseless

from clustered_bandit_gym import (
    Federation,
    Instance,
    PlayOver,
    Problem,
)
from clustered_bandit_gym.game.judge import misplaced


def test_judge() -> None:
    federation = noiseless()
    judgement = federation.stop([0, 1, 2, 0])
    assert not judgement.correct
    assert judgement.agent_correct.tolist() == [True, True, False, True]
    assert judgement.wrong_agents == 1
    assert judgement.arms.tolist() == [0, 1, 2, 0]
    assert (judgement.clustering_errors, judgement.arm_errors) == (None, None)
    assert federation.judgement is judgement
    assert noiseless().stop([0, 1, 1, 0]).correct
    for late in (
        lambda: federation.stop([0, 1, 1, 0]),
        lambda: federation.pull(0, 0),
        lambda: federation.local([0], lambda block: None),
    ):
        with pytest.raises(PlayOver, match="has stopped"):
            late()


def test_any_tied_arm_is_right() -> None:
    instance = Instance([[0.5, 0.5, 0.1], [0.1, 0.0, 0.3]], [0, 0, 0, 1], allow_ties=True)
    judgement = Federation(instance, Problem.of(instance, 0.1)).stop([0, 1, 2, 2])
    assert judgement.agent_correct.tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    "arms", [[0, 1, 1], [[0, 1, 1, 0]], [0, 1, 1, 3], [0, 1, 1, -1], [0.0, 1, 1, 0], 0]
)
def test_bad_recommendations(arms: Any) -> None:
    federation = noiseless()
    with pytest.raises(ValueError):
        federation.stop(arms)
    assert federation.stop([0, 1, 1, 0]).correct, "a refused recommendation does not end the play"


def test_judge_tells_clustering_errors_from_arm_errors() -> None:
    federation = noiseless([0, 0, 0, 1, 1])
    federation.report_clusters([7, 7, -1, 7, -1])
    judgement = federation.stop([0, 2, 0, 0, 0])
    # Label 7 is mostly cluster 0, so agent 3 is misplaced; label -1 is a draw, which goes to cluster 0: agent 4.
    assert judgement.clustering_errors == 2
    assert judgement.wrong_agents == 3
    assert judgement.arm_errors == 1, "agent 1 was placed rightly and still got the wrong arm"
    for labels in ([0, 1], [0.5] * 5, [[0] * 5]):
        with pytest.raises(ValueError, match="cluster labels"):
            federation.report_clusters(labels)


@given(st.lists(st.tuples(st.integers(-2, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_misplaced_by_brute_force(rows: list[tuple[int, int]]) -> None:
    labels, clusters = np.array(rows, dtype=np.int64).T
    majority = {}
    for label in set(labels.tolist()):
        counts = Counter(clusters[labels == label].tolist())
        majority[label] = min(counts, key=lambda cluster: (-counts[cluster], cluster))
    expected = [
        majority[label] != cluster
        for label, cluster in zip(labels.tolist(), clusters.tolist(), strict=True)
    ]
    assert misplaced(labels, clusters).tolist() == expected
