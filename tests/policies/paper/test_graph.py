"""Cl-BAI's graph: components against all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from clustered_bandit_gym.policies.paper.graph import components


def brute_force(estimates: np.ndarray, active: np.ndarray, width: float) -> np.ndarray:
    n = estimates.shape[0]
    edges = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(n):
            either = active[i] | active[j]
            edges[i, j] = bool(np.all(np.abs(estimates[i] - estimates[j])[either] <= width))
    return connected_components(edges, directed=False)[1]


def in_order_of_appearance(labels: np.ndarray) -> list[int]:
    names: dict[int, int] = {}
    return [names.setdefault(label, len(names)) for label in labels.tolist()]


@pytest.mark.parametrize("seed", range(60))
def test_components_are_exact(seed: int) -> None:
    """From loose clouds, where components are long chains, to tight ones, where they are cliques."""
    rng = np.random.default_rng(seed)
    n, n_arms, n_clusters = (
        int(rng.integers(1, 45)),
        int(rng.integers(1, 7)),
        int(rng.integers(1, 5)),
    )
    centres = rng.random((n_clusters, n_arms))
    estimates = centres[rng.integers(n_clusters, size=n)] + rng.choice(
        [0.02, 0.1, 0.4]
    ) * rng.standard_normal((n, n_arms))
    active = rng.random((n, n_arms)) < rng.choice([0.3, 0.6, 0.9])
    active[np.arange(n), rng.integers(n_arms, size=n)] = True
    width = float(rng.choice([0.05, 0.15, 0.3]))
    expected = in_order_of_appearance(brute_force(estimates, active, width))
    assert components(estimates, active, width).tolist() == expected


def test_the_random_graphs_are_of_every_kind() -> None:
    """A chain that no pivot covers, agents of one pivot that are not adjacent to each other, sets that differ."""
    chain = np.arange(30)[:, None] * 0.1
    held = np.ones((30, 1), dtype=bool)
    assert components(chain, held, 0.11).tolist() == [0] * 30
    assert components(chain, held, 0.09).tolist() == list(range(30))
    shuffled = np.random.default_rng(0).permutation(30)
    assert components(chain[shuffled], held, 0.11).tolist() == [0] * 30
    # Arm 1 tells the two apart, but neither holds it.
    assert components(
        np.array([[0.0, 0.0], [0.0, 9.0]]), np.array([[True, False]] * 2), 0.1
    ).tolist() == [0, 0]
    assert components(
        np.array([[0.0, 0.0], [0.0, 9.0]]), np.array([[True, False], [True, True]]), 0.1
    ).tolist() == [
        0,
        1,
    ]
    assert components(np.empty((0, 3)), np.empty((0, 3), dtype=bool), 0.1).tolist() == []


def test_an_edge_at_the_very_width_counts() -> None:
    estimates, held = np.array([[0.0], [0.5], [1.25]]), np.ones((3, 1), dtype=bool)
    assert components(estimates, held, 0.5).tolist() == [0, 0, 1]
    assert components(estimates, held, 0.75).tolist() == [0, 0, 0]
