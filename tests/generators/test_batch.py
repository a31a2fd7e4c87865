"""Instances drawn in batches have the law of instances drawn one by one, and keep every promise of their generator.

Tests of laws have fixed seeds and fail by chance with probability below 1e-9 each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import clustered_bandit_gym as cbg
from clustered_bandit_gym.generators import Batch, make_generator

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper-small": ("paper-small", {}),
    "paper-random": ("paper-random", {"n_agents": 6, "n_clusters": 3, "n_arms": 7}),
    "paper-flat": (
        "paper-flat",
        {"n_agents": 5, "n_clusters": 4, "n_arms": 6, "sizes": "power", "alpha": 1.0},
    ),
    "near-tie": ("near-tie", {}),
    "random": ("random", {"n_agents": 5, "n_clusters": 3, "n_arms": 5, "rewards": "bernoulli"}),
    "one cluster": ("random", {"n_clusters": 1, "n_arms": 3}),
    "tiny": ("tiny", {}),
    "as many arms": ("tiny", {"n_clusters": 3}),
}
N = 800


def features(means: np.ndarray, clusters: np.ndarray) -> dict[str, np.ndarray]:
    """Numbers (n,) that see the parts of an instance and how they hang together."""
    ordered = np.sort(means, axis=2)
    best = means.argmax(axis=2)
    return {
        "best mean": ordered[:, 0, -1],
        "runner-up": ordered[:, 0, -2],
        "arm 0": means[:, 0, 0],
        "last arm in the last bandit": means[:, -1, -1],
        "rival": np.take_along_axis(means[:, -1], best[:, :1], axis=1)[:, 0],
        "agent 0's mean": means[np.arange(len(means)), clusters[:, 0], 0],
        "agents in cluster 0": (clusters == 0).sum(axis=1),
        "cluster of the last agent": clusters[:, -1],
        "best arm": best[:, 0],
    }


@pytest.mark.parametrize("name", KINDS)
def test_same_law_as_one_by_one(name: str) -> None:
    kind, settings = KINDS[name]
    generator: Any = make_generator(kind, **settings)
    batch = generator.batch(np.random.default_rng(1), N)
    assert batch.means.shape == (N, generator.n_clusters, generator.n_arms)
    assert batch.clusters.shape == (N, generator.n_agents)
    rng = np.random.default_rng(2)
    singles = [generator(rng) for _ in range(N)]
    ours = features(batch.means, batch.clusters)
    theirs = features(
        np.stack([one.means for one in singles]), np.stack([one.clusters for one in singles])
    )
    for key in ours:
        if np.ptp(np.concatenate([ours[key], theirs[key]])) < 1e-12:
            continue
        assert scipy.stats.ks_2samp(ours[key], theirs[key], method="asymp").pvalue > 1e-9, key


@pytest.mark.parametrize("name", KINDS)
def test_every_instance_keeps_the_promises(name: str) -> None:
    kind, settings = KINDS[name]
    generator: Any = make_generator(kind, **settings)
    batch = generator.batch(np.random.default_rng(3), 40)
    for i in range(40):
        one = batch[i]  # refuses ties and overlaps
        assert one.rewards == generator(np.random.default_rng(0)).rewards
        assert one.eta == batch.separation["eta"][i]
        assert one.eta1 == batch.separation["eta1"][i]
        assert set(one.best_arms.tolist()) == set(batch.means[i].argmax(axis=1).tolist())
        assert cbg.Problem.of(one, 0.1, **generator.declared).n_clusters == generator.n_clusters


def test_settings_without_a_batch_form_say_so() -> None:
    generator: Any = make_generator("random", rewards="categorical")
    assert generator.batch(np.random.default_rng(0), 3) is None
    with pytest.raises(ValueError, match="generators without batches"):
        cbg.ClusteredBAIVectorEnv(num_envs=3, generator=generator)


def test_told_values_follow_the_instances() -> None:
    """Near-tie declares the truth: η differs from instance to instance and is told as it is."""
    envs = cbg.ClusteredBAIVectorEnv(num_envs=4, generator="near-tie")
    _, infos = envs.reset(seed=0)
    assert infos["eta"].tolist() == [envs.instance(i).eta for i in range(4)]
    with pytest.raises(ValueError, match=r"told eta = 0\.9"):
        cbg.ClusteredBAIVectorEnv(num_envs=2, generator="tiny", told={"eta": 0.9}).reset(seed=0)


def test_a_repeated_instance_shares_its_arrays() -> None:
    one = cbg.Instance(np.eye(2), [0, 1])
    batch = Batch.repeat(one, 3)
    assert batch.means.shape == (3, 2, 2)
    assert batch[2] == one
    assert np.shares_memory(batch.means, one.means)
