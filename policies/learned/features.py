"""What a learned player sees: features of a play's counts and means, and the arms it would recommend.

Agents are clustered softly by likelihood (`beliefs`): agents that look alike pool their pulls. Every feature is in
units of σ, and none changes when all means shift. An index carries no information, so (agent, arm) cells are sorted by
the value of a pull, and only the first `TOP` are shown: a plain network sees a small input of one size, whatever N and K
are, and its actions mean the same in every game.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.policies.learned.beliefs import Beliefs, infer

#: Features of each (agent, arm) cell, and of the play as a whole.
CELL_FEATURES = (
    "value of a pull",
    "log pulls",
    "never pulled",
    "log pooled pulls",
    "probability of being the best arm",
    "recommended",
    "log doubt about the agent",
    "pooled mean below the agent's best",
    "uncertainty of the pooled mean",
    "difference between the components",
    "log agents of the same cluster",
)
PLAY_FEATURES = (
    "log expected wrong agents",
    "log largest doubt",
    "log pulls per agent",
    "never pulled",
    "log separation",
    "log largest value of a pull",
)

#: Cells that a network sees and chooses from, and the length of the feature vector.
TOP = 8
SIZE = TOP * len(CELL_FEATURES) + len(PLAY_FEATURES)
#: Prior weight, in agents, of a cluster that has none.
_SPARSITY = 0.3
#: Elements of the largest arrays: what fits in a cache.
_BLOCK = 1 << 17
# Logarithms of doubts are cut here: e^-12 is far below any error rate one can measure in training.
_LOG_FLOOR = -12.0


@dataclass(frozen=True)
class Seen:
    """Features of E plays at once.

    Attributes:
        features: (E, TOP·C + G) float32: C features of each of the first cells, then G of the play.
        cells: (E, TOP) the first cells as flat numbers `agent * K + arm`, by decreasing value of a pull. In a game with
            fewer cells the last one is repeated.
        arms: (E, N) the recommended arm of each agent: the most probable one.
    """

    features: np.ndarray
    cells: Ints
    arms: Ints


class Features:
    """Turns counts and means of plays of one shape into features.

    Args:
        n_agents, n_arms: shape of a play.
        n_clusters: most clusters the agents can form; None if not told (then as many as agents or arms).
        eta: separation of Assumption 1; None if not told (then 0).
        sigma: scale of the rewards.
    """

    def __init__(
        self, n_agents: int, n_arms: int, n_clusters: int | None, eta: float | None, sigma: float
    ) -> None:
        self.n_agents, self.n_arms = n_agents, n_arms
        self._most = min(n_agents, n_arms, n_clusters or n_agents)
        self._scale = sigma if sigma > 0 else 1.0
        self._margin = (eta or 0.0) / self._scale
        self._block = max(1, _BLOCK // (n_agents * n_arms * n_arms))

    @property
    def size(self) -> int:
        """Length of the feature vector."""
        return SIZE

    def __call__(self, pulls: np.ndarray, means: np.ndarray) -> Seen:
        """Features of E plays from their counts (E, N, K) and means (E, N, K); means of cells without pulls are not
        read."""
        parts = [
            self._see(pulls[start : start + self._block], means[start : start + self._block])
            for start in range(0, len(pulls), self._block)
        ]
        if len(parts) == 1:
            return parts[0]
        return Seen(
            np.concatenate([one.features for one in parts]),
            np.concatenate([one.cells for one in parts]),
            np.concatenate([one.arms for one in parts]),
        )

    def _see(self, pulls: np.ndarray, means: np.ndarray) -> Seen:
        # The plays come last in all arrays inside: long contiguous rows, short sums over the leading axes.
        # Without order="C", NumPy would keep the plays first in memory.
        count = np.asarray(pulls).transpose(1, 2, 0).astype(np.float32, order="C")  # (N, K, E)
        none = count == 0
        mean = np.asarray(means).transpose(1, 2, 0).astype(np.float64, order="C")
        mean = np.where(none, 0.0, mean / self._scale)
        total = count.sum(axis=(0, 1))
        mean = mean - (count * mean).sum(axis=(0, 1)) / np.maximum(total, 1)
        beliefs = infer(
            count, (count * mean).astype(np.float32), self._margin, _SPARSITY, self._most
        )
        answer = beliefs.answer
        doubt = 1 - answer.max(axis=1)  # (N, E)
        arms = answer.argmax(axis=1)  # (N, E)
        value, between = value_of_a_pull(beliefs, doubt)
        member = beliefs.member[:, :, None]
        pooled = (member * beliefs.mean).sum(axis=1)
        variance = (member * beliefs.variance).sum(axis=1)
        together = (beliefs.member * beliefs.member.sum(axis=0)).sum(axis=1)

        value = np.log(value + 1e-9)
        order = np.argsort(-value.reshape(-1, total.size), axis=0, kind="stable")[:TOP]
        largest = value.max(axis=(0, 1))
        leader = np.arange(self.n_arms)[:, None] == arms[:, None]
        known = np.log1p((member / beliefs.variance).sum(axis=1))
        below = pooled.max(axis=1, keepdims=True) - pooled
        # In the order of CELL_FEATURES: each (N, K, E), or a shape that broadcasts to it.
        features = (
            np.maximum(value - largest, _LOG_FLOOR) / 4,
            np.log1p(count) / 3,
            none,
            known / 3,
            answer,
            leader,
            1 + _log(doubt)[:, None] / 6,
            np.minimum(below, 4.0) / 2,
            np.minimum(np.sqrt(variance), 2.0),
            np.minimum(np.sqrt(between), 2.0),
            np.log(together)[:, None] / 3,
        )
        if len(order) < TOP:
            order = np.pad(order, ((0, TOP - len(order)), (0, 0)), mode="edge")
        cells = np.empty((total.size, TOP, len(CELL_FEATURES)), dtype=np.float32)
        for number, one in enumerate(features):
            flat = np.broadcast_to(one, count.shape).reshape(-1, total.size)
            cells[:, :, number] = np.take_along_axis(flat, order, axis=0).T
        play = np.empty((len(PLAY_FEATURES), total.size), dtype=np.float32)
        play[0] = 1 + _log(doubt.sum(axis=0)) / 6
        play[1] = 1 + _log(doubt.max(axis=0)) / 6
        play[2] = np.log1p(total / self.n_agents) / 3
        play[3] = none.mean(axis=(0, 1))
        play[4] = math.log(self._margin + 0.1)
        play[5] = 1 + np.maximum(largest, _LOG_FLOOR) / 6
        whole = np.concatenate([cells.reshape(total.size, -1), play.T], axis=1)
        return Seen(whole, order.T, arms.T.astype(np.int64))


def value_of_a_pull(beliefs: Beliefs, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, K, E) how much a pull of each cell tells about open questions, and (N, K, E) its part about membership.

    A pull tells an agent's components apart in proportion to the variance of the arm's mean between them. It tells
    whether a rival or the leader is the best arm of a component in proportion to how far the arm's mean would have to
    move, if the rival were the best; that serves every agent of the component. Both count in proportion to the doubt
    about the agent. A rule of thumb, from which learning starts.
    """
    mean, variance, best = beliefs.mean, beliefs.variance, beliefs.best  # (K, K, E)
    member = beliefs.member[:, :, None]  # (N, K, 1, E)
    average = (member * mean).sum(axis=1)
    between = (member * (mean - average[:, None]) ** 2).sum(axis=1)
    leader = best.argmax(axis=1)[:, None]  # (K, 1, E)
    top, top_variance = (
        np.take_along_axis(mean, leader, axis=1),
        np.take_along_axis(variance, leader, axis=1),
    )
    both = variance + top_variance
    # Squared distance to the point where the two are equal, with the uncertainty of both, split by their variances.
    move = best * ((top - mean) ** 2 + both) / both**2
    is_leader = np.arange(mean.shape[1])[:, None] == leader
    move = np.where(is_leader, 0, move)
    within = np.where(
        is_leader, (move * top_variance**2).sum(axis=1, keepdims=True), move * variance**2
    )
    size = beliefs.member.sum(axis=0)[:, None]
    value = between + 2 * (member * (size * within)).sum(axis=1)
    return value * doubt[:, None], between


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, math.exp(_LOG_FLOOR)))
