"""Instances from logs: rows of an agent, an arm and a reward, without clusters."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.tables import Bandits, Rows, header_of, read_rows

#: Names that the column of agents may have.
AGENT = ("agent", "user")


@dataclass(frozen=True)
class Fit:
    """How well the bandits made from one half of the rows predict the other half.

    Attributes:
        error: root mean square difference between predicted means and averages of the held-out
            half, over pairs of an agent and an arm.
        noise: what `error` would be if the predictions were exact: the standard error of the
            averages.
        same_best: share of agents whose best arm is the same in both halves.
    """

    error: float
    noise: float
    same_best: float

    def __str__(self) -> str:
        return (
            f"held-out half: means are off by {self.error:.3g} (sampling noise alone: {self.noise:.3g}), "
            f"the best arm is the same for {self.same_best:.0%} of agents"
        )


def read_logs(source: Any) -> Rows:
    """Rows from a CSV file or a pandas frame with the columns agent (or user), arm and reward."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return replace(read_rows(path, _columns(header_of(path), str(path))), what="agent")
    if not hasattr(source, "columns"):
        raise UserError(
            f"logs are the path of a CSV file or a pandas frame, got {type(source).__name__}"
        )
    agent, arm, reward = _columns([str(name) for name in source.columns], "the frame")
    rewards = np.asarray(source[reward], dtype=np.float64)
    if not np.isfinite(rewards).all():
        raise UserError("rewards must be finite numbers")
    return Rows.of(list(source[agent]), list(source[arm]), rewards, "agent")


def _columns(header: list[str], origin: str) -> tuple[str, str, str]:
    agent = next((name for name in AGENT if name in header), None)
    if agent is None or not {"arm", "reward"} <= set(header):
        raise UserError(
            f"{origin}: expected the columns agent (or user), arm and reward, got {', '.join(header)}"
        )
    return agent, "arm", "reward"


def bandits_of(rows: Rows, n_clusters: int | None, origin: str) -> tuple[Bandits, Ints]:
    """The bandits, and the bandit of each agent (N,): one for each agent, or `n_clusters` of them."""
    if n_clusters is None:
        return rows.bandits(origin), np.arange(len(rows.group_names))
    labels = cluster(rows.means, n_clusters)
    names = tuple(f"cluster {m}" for m in range(n_clusters))
    pooled = replace(rows, groups=labels[rows.groups], group_names=names, what="cluster")
    return pooled.bandits(origin), labels


def cluster(means: Floats, n_clusters: int) -> Ints:
    """(N,) labels 0..M−1 of agents with average rewards `means` (N, K), by k-means; the best of 20
    starts.

    A missing average (NaN) counts as that of all agents together.
    """
    from scipy.cluster.vq import kmeans2

    n_agents = len(means)
    if not 1 <= n_clusters <= n_agents:
        raise UserError(
            f"clusters must be a number from 1 to {n_agents}, the agents; got {n_clusters}"
        )
    filled = np.where(np.isnan(means), np.nanmean(means, axis=0), means)
    best = np.inf
    labels = np.zeros(n_agents, dtype=np.int64)
    for start in range(20):
        centres, found = kmeans2(filled, n_clusters, minit="++", seed=start, missing="warn")
        loss = float(((filled - centres[found]) ** 2).sum())
        if loss < best and np.unique(found).size == n_clusters:
            best = loss
            labels = found.astype(np.int64)
    if best == np.inf:
        raise UserError(f"the agents do not fall into {n_clusters} different clusters; take fewer")
    return labels


def fit_of(rows: Rows, n_clusters: int | None) -> Fit | None:
    """How well half of the rows predicts the other half; None where too few pairs have two rows."""
    rng = np.random.default_rng(0)
    order = rng.permutation(rows.rewards.size)
    pair = (rows.groups * len(rows.arm_names) + rows.arms)[order]
    # Every second row of each pair, in random order.
    by_pair = np.argsort(pair, kind="stable")
    first_of_pair = np.searchsorted(pair[by_pair], pair[by_pair])
    held = np.zeros(order.size, dtype=np.bool_)
    held[order[by_pair]] = (np.arange(order.size) - first_of_pair) % 2 == 1
    known, unseen = (
        replace(rows, groups=rows.groups[part], arms=rows.arms[part], rewards=rows.rewards[part])
        for part in (~held, held)
    )
    both = (known.counts > 0) & (unseen.counts > 0)
    if not both.all(axis=1).any():
        return None
    predicted = known.means
    if n_clusters is not None:
        labels = cluster(known.means, n_clusters)
        pooled = replace(known, groups=labels[known.groups], group_names=("",) * n_clusters)
        predicted = pooled.means[labels]
    spread = np.array(
        [
            unseen.rewards[(unseen.groups == i) & (unseen.arms == k)].var()
            for i, k in np.argwhere(both)
        ]
    )
    difference = predicted[both] - unseen.means[both]
    whole = both.all(axis=1)
    same = predicted[whole].argmax(axis=1) == unseen.means[whole].argmax(axis=1)
    noise = np.sqrt(np.mean(spread / unseen.counts[both]))
    return Fit(float(np.sqrt(np.mean(difference**2))), float(noise), float(same.mean()))
