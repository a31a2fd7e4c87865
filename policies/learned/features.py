"""What a learned player sees: features of a play's counts and means, and the arms it would name.

Agents are clustered softly by likelihood (`beliefs`): agents that look alike pool their pulls. Every
feature is in units of σ, and none changes when all means shift. An index carries no information, so
(agent, arm) cells are sorted by the value of a pull, and only the first `TOP` are shown: a network
sees an input of one size, whatever N and K are, and its actions mean the same in every game.

Features of a cell: value of a pull, log pulls, never pulled, log pooled pulls, probability of being
the agent's best arm, recommended, log doubt about the agent, pooled mean below the agent's best,
uncertainty of the pooled mean, difference between the components, log agents of the same cluster.

Features of the play: log expected wrong agents, log largest doubt, log pulls per agent, share of
cells never pulled, log separation, log largest value of a pull.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from clustered_bandit_gym._types import Array, Ints
from clustered_bandit_gym.policies.learned.beliefs import Beliefs, infer

#: Cells that a network sees and chooses from.
TOP = 8
#: Features of the play, which come last.
PLAY = 6
#: Length of the feature vector: eleven features of each cell, and those of the play.
SIZE = TOP * 11 + PLAY


class Seen(NamedTuple):
    """Features of E plays at once.

    Attributes:
        features: (E, SIZE) float32: those of the first cells, then those of the play.
        cells: (E, TOP) the first cells as flat numbers `agent * K + arm`, by decreasing value of a
            pull. In a game with fewer cells the last one is repeated.
        arms: (E, N) the recommended arm of each agent: the most probable one.
    """

    features: Array
    cells: Ints
    arms: Ints


class Features:
    """Turns counts and means of plays into features.

    Args:
        n_clusters: most clusters the agents can form; None if not told.
        eta: separation of Assumption 1; None if not told (then 0).
        sigma: scale of the rewards.
    """

    def __init__(self, n_clusters: int | None, eta: float | None, sigma: float) -> None:
        self._n_clusters = n_clusters
        self._scale = sigma
        self._margin = (eta or 0.0) / sigma

    def __call__(self, pulls: Array, means: Array) -> Seen:
        """Features of E plays from counts (E, N, K) and means (E, N, K).

        Means of cells without pulls are not read.
        """
        n_plays, n_agents, n_arms = pulls.shape
        # The largest arrays have N·K² numbers per play; 2^17 of them fit in a cache.
        at_once = max(1, 2**17 // (n_agents * n_arms**2))
        cuts = range(at_once, n_plays, at_once)
        parts = map(self._see, np.split(pulls, cuts), np.split(means, cuts))
        return Seen(*map(np.concatenate, zip(*parts, strict=True)))

    def _see(self, pulls: Array, means: Array) -> Seen:
        """The features of plays that fit in a cache."""
        n_plays, n_agents, n_arms = pulls.shape
        most = min(n_agents, n_arms, self._n_clusters or n_agents)
        # Inside, plays are the last axis: long contiguous rows, short sums over the leading axes.
        count = np.moveaxis(pulls, 0, 2).astype(np.float32, order="C")  # (N, K, E)
        never = count == 0
        mean = np.moveaxis(means, 0, 2).astype(float, order="C")
        mean = np.where(never, 0.0, mean / self._scale)
        pulled = count.sum(axis=(0, 1))
        mean -= (count * mean).sum(axis=(0, 1)) / np.maximum(pulled, 1)
        beliefs = infer(count, (count * mean).astype(np.float32), self._margin, most)

        answer = beliefs.answer
        doubt = 1 - answer.max(axis=1)  # (N, E)
        arms = answer.argmax(axis=1)  # (N, E)
        member = beliefs.member[:, :, None]
        pooled_mean = (member * beliefs.mean).sum(axis=1)
        between = (member * (beliefs.mean - pooled_mean[:, None]) ** 2).sum(axis=1)
        value = value_of_a_pull(beliefs, doubt, between)
        log_value = np.log(value + 1e-9)
        largest = log_value.max(axis=(0, 1))
        pooled_pulls = (member / beliefs.variance).sum(axis=1)
        uncertainty = np.sqrt((member * beliefs.variance).sum(axis=1))
        together = (beliefs.member * beliefs.member.sum(axis=0)).sum(axis=1)
        below = pooled_mean.max(axis=1, keepdims=True) - pooled_mean
        of_cells = (  # each (N, K, E), or a shape that broadcasts to it
            np.maximum(log_value - largest, -12) / 4,
            np.log1p(count) / 3,
            never,
            np.log1p(pooled_pulls) / 3,
            answer,
            np.arange(n_arms)[:, None] == arms[:, None],
            _log(doubt)[:, None],
            np.minimum(below, 4) / 2,
            np.minimum(uncertainty, 2),
            np.minimum(np.sqrt(between), 2),
            np.log(together)[:, None] / 3,
        )
        of_play = (
            _log(doubt.sum(axis=0)),
            _log(doubt.max(axis=0)),
            np.log1p(pulled / n_agents) / 3,
            never.mean(axis=(0, 1)),
            np.full(n_plays, math.log(self._margin + 0.1)),
            1 + np.maximum(largest, -12) / 6,
        )
        order = np.argsort(-log_value.reshape(-1, n_plays), axis=0, kind="stable")[:TOP]
        order = np.pad(order, ((0, TOP - len(order)), (0, 0)), mode="edge")
        table = np.stack(np.broadcast_arrays(*of_cells), axis=2).reshape(-1, 11, n_plays)
        cells = np.take_along_axis(table, order[:, None], axis=0).reshape(-1, n_plays)
        features = np.concatenate([cells, np.stack(of_play)]).T.astype(np.float32, order="C")
        return Seen(features, order.T, arms.T)


def value_of_a_pull(beliefs: Beliefs, doubt: Array, between: Array) -> Array:
    """(N, K, E) how much a pull of each cell tells.

    A pull tells an agent's components apart in proportion to the variance of the arm's mean
    `between` them (N, K, E). It tells whether a rival or the leader is the best arm of a component
    in proportion to how far the arm's mean would have to move, if the rival were the best; that
    serves every agent of the component. Both count in proportion to the doubt (N, E) about the
    agent. A rule of thumb.
    """
    mean, variance, best = beliefs.mean, beliefs.variance, beliefs.best  # (K, K, E)
    leader = best.argmax(axis=1)[:, None]  # (K, 1, E)
    is_leader = np.arange(mean.shape[1])[:, None] == leader
    top = np.take_along_axis(mean, leader, axis=1)
    top_variance = np.take_along_axis(variance, leader, axis=1)
    both = variance + top_variance
    # Squared distance to the point where both are equal, split in proportion to their variances.
    move = np.where(is_leader, 0, best * ((top - mean) ** 2 + both) / both**2)
    of_leader = (move * top_variance**2).sum(axis=1, keepdims=True)
    within = np.where(is_leader, of_leader, move * variance**2)
    size = beliefs.member.sum(axis=0)[:, None]
    value = between + 2 * (beliefs.member[:, :, None] * size * within).sum(axis=1)
    return value * doubt[:, None]


def _log(doubt: Array) -> Array:
    """Logarithm, scaled; e^-12 is far below any error rate that training can measure."""
    return 1 + np.log(np.maximum(doubt, math.exp(-12))) / 6
