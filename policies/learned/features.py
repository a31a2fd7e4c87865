"""What a learned player sees: features of a play's counts and means, and the arms it would recommend.

The paper's model is small enough to be enumerated when there are few agents: a *hypothesis* says which agents form a
group and which arm is best in each group. Under a hypothesis the agents of a group pool their pulls, the groups' best
arms differ, and in each group the best arms of the others are at least η worse (Assumption 1). Its score is the
largest Gaussian log-likelihood of the data under these constraints; scores as exponents of weights give, for each agent
and arm, the weight of "this is the agent's best arm". These weights are features, not error probabilities.

Every feature is in units of σ, does not change when all means shift, and follows the agents and arms when they are
renumbered: an index carries no information, so what was learned on one instance applies to another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import UserError

#: Features of each (agent, arm) cell, and of the play as a whole.
CELL_FEATURES = (
    "log pulls",
    "never pulled",
    "log pooled pulls",
    "weight as best arm",
    "recommended",
    "doubt about the agent",
    "pooled mean below the agent's best",
    "spread of the mean over hypotheses",
    "spread relative to the largest",
    "difference between the two best answers",
)
PLAY_FEATURES = ("log doubt", "log expected wrong agents", "score lead", "log pulls", "never pulled", "log separation")

#: More hypotheses than this and the features cost more than the network.
MAX_HYPOTHESES = 2_000

#: Multiplications in one product of matrices (hypotheses × terms × plays). OpenBLAS starts threads above this, which
#: cost more here than they save and wait for each other on a busy machine; smaller tables also stay in the cache.
MAX_PRODUCT = 1 << 18

# Weight, in pulls, of the overall average in the mean of a cell: stands in where nothing has been pulled yet.
_PRIOR_PULLS = 0.01
# Smaller spreads over hypotheses, in σ, are rounding errors of a difference of squares.
_LEAST_SPREAD = 1e-3
# Logarithms of weights are cut here: e^-12 is far below any error rate one can measure in training.
_LOG_FLOOR = -12.0


@dataclass(frozen=True)
class Seen:
    """Features of E plays at once.

    Attributes:
        features: (E, N·K·C + G) float32: C features of each cell, agent by agent, then G of the play.
        arms: (E, N) the recommended arm of each agent: the answer of largest weight.
    """

    features: np.ndarray
    arms: Ints


class Features:
    """Turns counts and means of plays of one shape into features.

    Args:
        n_agents, n_arms: shape of a play.
        n_clusters: most groups the agents can form; None if not told (then as many as agents or arms).
        eta: separation of Assumption 1; None if not told (then 0).
        sigma: scale of the rewards.
    """

    def __init__(self, n_agents: int, n_arms: int, n_clusters: int | None, eta: float | None, sigma: float) -> None:
        self.n_agents, self.n_arms = n_agents, n_arms
        most = min(n_agents, n_arms, n_clusters or n_agents)
        self._scale = sigma if sigma > 0 else 1.0
        self._margin = (eta or 0.0) / self._scale
        count = sum(_stirling2(n_agents, g) * math.perm(n_arms, g) for g in range(1, most + 1))
        if count > MAX_HYPOTHESES:
            raise UserError(
                f"{n_agents} agents, {n_arms} arms and up to {most} clusters make {count:,} hypotheses; learned "
                f"players weigh every one and take at most {MAX_HYPOTHESES:,}: use fewer agents, arms or clusters"
            )
        self.n_hypotheses = count
        self._enumerate(most)

    @property
    def size(self) -> int:
        """Length of the feature vector."""
        return self.n_agents * self.n_arms * len(CELL_FEATURES) + len(PLAY_FEATURES)

    def _enumerate(self, most: int) -> None:
        """Tables of hypotheses. A *term* is a group of agents, its best arm and the set of the other groups' best arms:
        what the likelihood of the group depends on; a hypothesis is a sum of terms."""
        n, k = self.n_agents, self.n_arms
        terms: dict[tuple[tuple[int, ...], int, frozenset[int]], int] = {}
        members: list[list[int]] = []
        answers: list[list[int]] = []
        for groups in _partitions(n, most):
            for best in itertools.permutations(range(k), len(groups)):
                answer = [0] * n
                used = []
                for group, arm in zip(groups, best, strict=True):
                    key = (group, arm, frozenset(best) - {arm})
                    used.append(terms.setdefault(key, len(terms)))
                    for agent in group:
                        answer[agent] = arm
                members.append(used)
                answers.append(answer)
        size = len(terms)
        self._of_agent = np.zeros((size, n))  # (T, N): the agent belongs to the term's group
        self._drop = np.zeros((k, size, 1))  # (K, T, 1): how far the arm must lie below the group's best
        self._is_best = np.zeros((k, size, 1), dtype=bool)
        for t, (group, arm, others) in enumerate(terms):
            self._of_agent[t, list(group)] = 1
            self._drop[list(others), t] = self._margin
            self._is_best[arm, t] = True
        self._best_row = np.array([arm for _, arm, _ in terms]), np.arange(size)
        self._in_hypothesis = np.zeros((len(members), size))  # (H, T)
        for h, used in enumerate(members):
            self._in_hypothesis[h, used] = 1
        self._answers, index = np.unique(np.array(answers), axis=0, return_inverse=True)  # (A, N)
        self._answer_of = np.zeros((len(self._answers), len(members)))  # (A, H)
        self._answer_of[index.ravel(), np.arange(len(members))] = 1
        self._answer_hypothesis = index.ravel()
        # Plays looked at in one go.
        self._block = max(1, MAX_PRODUCT // (len(members) * size))
        self._names = (self._answers[:, :, None] == np.arange(k)).astype(float)  # (A, N, K)

    def __call__(self, pulls: np.ndarray, means: np.ndarray) -> Seen:
        """Features of E plays from their counts (E, N, K) and means (E, N, K); means of cells without pulls are not
        read."""
        parts = [
            self._see(pulls[start : start + self._block], means[start : start + self._block])
            for start in range(0, len(pulls), self._block)
        ]
        if len(parts) == 1:
            return parts[0]
        return Seen(np.concatenate([one.features for one in parts]), np.concatenate([one.arms for one in parts]))

    def _see(self, pulls: np.ndarray, means: np.ndarray) -> Seen:
        # The plays come last in all arrays inside: long contiguous rows, short sums over the leading axes.
        count = np.asarray(pulls, dtype=np.float64).transpose(2, 1, 0)  # (K, N, E)
        none = count == 0
        mean = np.where(none, 0.0, np.asarray(means, dtype=np.float64).transpose(2, 1, 0) / self._scale)
        total = count.sum(axis=(0, 1))
        mean = mean - (count * mean).sum(axis=(0, 1)) / np.maximum(total, 1)
        weighted = count * mean

        # Each term's constrained fit. With the group's data n_k, m_k and the best arm at t, arm k's mean is
        # min(m_k, t − drop_k). The likelihood is largest at t = the largest average of m_best and any of the m_k +
        # drop_k; starting from m_best, leaving out what lies below t raises t until it stays, in at most K − 1 rounds.
        n = self._of_agent @ (count + _PRIOR_PULLS)  # (K, T, E)
        m = (self._of_agent @ weighted) / n
        pushed = m + self._drop
        n_best, m_best = n[self._best_row], m[self._best_row]  # (T, E)
        top = m_best
        for _ in range(self.n_arms - 1):
            active = np.where((pushed > top) & ~self._is_best, n, 0.0)
            top = (n_best * m_best + (active * pushed).sum(axis=0)) / (n_best + active.sum(axis=0))
        fit = np.where(self._is_best, top, np.minimum(m, top - self._drop))
        score = 0.5 * (n * fit * (2 * m - fit)).sum(axis=0)  # log-likelihood, less what all hypotheses share

        by_hypothesis = self._in_hypothesis @ score  # (H, E)
        best = by_hypothesis.max(axis=0)
        weight = np.exp(by_hypothesis - best)
        weight /= weight.sum(axis=0)
        by_answer = self._answer_of @ weight  # (A, E)
        term_weight = self._in_hypothesis.T @ weight  # (T, E)
        as_best = np.tensordot(self._names, by_answer, axes=(0, 0)).transpose(1, 0, 2)  # (K, N, E)
        spread_in = self._of_agent.T  # (N, T)
        pooled = spread_in @ (term_weight * fit)
        second = spread_in @ (term_weight * fit * fit)
        spread = np.sqrt(np.maximum(second - pooled**2, _LEAST_SPREAD**2))
        pooled_count = spread_in @ (term_weight * n)

        first = by_answer.argmax(axis=0)
        arms = self._answers[first]  # (E, N)
        same_answer = self._answer_hypothesis[:, None] == first  # (H, E)
        others = np.where(same_answer, -np.inf, by_hypothesis)
        leading = np.where(same_answer, by_hypothesis, -np.inf).argmax(axis=0)
        difference = np.abs(self._fit_of(leading, fit) - self._fit_of(others.argmax(axis=0), fit))
        lead = best - others.max(axis=0)

        by_answer[first, np.arange(total.size)] = 0.0
        doubt = by_answer.sum(axis=0)
        sure = as_best.max(axis=0)  # (N, E)
        recommended = np.arange(self.n_arms)[:, None, None] == arms.T  # (K, N, E)
        cells = np.empty((len(CELL_FEATURES), *count.shape), dtype=np.float32)
        cells[0] = np.log1p(count) / 3
        cells[1] = none
        cells[2] = np.log1p(pooled_count) / 3
        cells[3] = as_best
        cells[4] = recommended
        cells[5] = 1 + _log(1 - sure) / 6
        cells[6] = np.minimum(pooled.max(axis=0) - pooled, 4.0) / 2
        cells[7] = np.minimum(spread, 4.0)
        cells[8] = 1 + np.log(spread / spread.max(axis=(0, 1))) / 4
        cells[9] = np.minimum(difference, 4.0) / 2
        play = np.empty((len(PLAY_FEATURES), total.size), dtype=np.float32)
        play[0] = 1 + _log(doubt) / 6
        play[1] = 1 + _log((1 - sure).sum(axis=0)) / 6
        play[2] = np.minimum(lead, -_LOG_FLOOR) / 6
        play[3] = np.log1p(total) / 5
        play[4] = none.mean(axis=(0, 1))
        play[5] = math.log(self._margin + 0.1)
        flat = cells.transpose(3, 2, 1, 0).reshape(total.size, -1)
        return Seen(np.concatenate([flat, play.T], axis=1), arms)

    def _fit_of(self, hypothesis: Ints, fit: Floats) -> Floats:
        """Means (K, N, E) under one hypothesis for each play (E,)."""
        return self._of_agent.T @ (self._in_hypothesis[hypothesis].T * fit)


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, math.exp(_LOG_FLOOR)))


def _partitions(n: int, most: int) -> Iterator[list[tuple[int, ...]]]:
    """Every way to put 0..n−1 into at most `most` groups."""

    def extend(item: int, groups: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
        if item == n:
            yield groups
            return
        for g in range(len(groups)):
            yield from extend(item + 1, [*groups[:g], (*groups[g], item), *groups[g + 1 :]])
        if len(groups) < most:
            yield from extend(item + 1, [*groups, (item,)])

    yield from extend(0, [])


def _stirling2(n: int, g: int) -> int:
    """Number of ways to put n agents into exactly g groups."""
    return sum((-1) ** (g - j) * math.comb(g, j) * j**n for j in range(g + 1)) // math.factorial(g)
