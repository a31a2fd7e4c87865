"""What the proof relies on is in evidence.py and budget.py; planning and scheduling cannot cause an
error.
"""

from __future__ import annotations

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies import StructuredBAI
from clustered_bandit_gym.policies.structured import best_arms, policy
from clustered_bandit_gym.policies.structured.classify import Plan
from clustered_bandit_gym.policies.structured.representatives import Representatives


class RandomDiscovery:
    """Promotes anybody."""

    def __init__(self, reps: Representatives) -> None:
        self.reps, self.goal = reps, reps.budgets.n_clusters
        self.left = reps.federation.rng.permutation(reps.federation.problem.n_agents).tolist()

    def run(self) -> bool:
        while len(self.reps) < self.goal and self.left:
            self.reps.add(self.left.pop())
        return len(self.reps) == self.goal

    def drop(self, row: int) -> None:
        self.reps.drop(row)

    def again(self) -> None: ...


class RandomPullPlan:
    """Any arms, any number of pulls."""

    def __init__(self, reps: Representatives, needed: np.ndarray) -> None:
        self.reps = reps

    def times(self) -> np.ndarray:
        rng, n = self.reps.federation.rng, self.reps.n
        return np.where(
            rng.random(n.shape) < 0.3, np.ceil(rng.random(n.shape) * np.minimum(n + 20, 500)), 0
        )


def random_choice(self: Plan) -> None:
    """Any arm in any test, any kind of test, any expectation of the pulls that it takes."""
    rng, (r, k) = self.reps.federation.rng, self.reps.n.shape
    self.assumed = rng.random((r, r)) < (0.0 if self.eta is None else 0.3)
    self.arms = np.where(self.assumed, self.best[:, None], rng.integers(k, size=(r, r)))
    self.each = rng.uniform(10, 500, (r, k))
    self.pulls = self.each.sum(axis=1)


@pytest.mark.parametrize("told", [{"eta": 0.15}, {"eta": None}, {"n_clusters": None, "eta": 0.15}])
def test_random_schedules_give_right_answers(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, float | None]
) -> None:
    """δ = 1e-11 and three plays: a wrong answer has probability below 1e-10, whatever is pulled when."""
    monkeypatch.setattr(policy, "Discovery", RandomDiscovery)
    monkeypatch.setattr(best_arms, "PullPlan", RandomPullPlan)
    monkeypatch.setattr(Plan, "_choose", random_choice)
    means = [[1.0, 0.8, 0.6, 0.5], [0.85, 1.0, 0.6, 0.5], [0.85, 0.8, 1.0, 0.5]]
    instance = cbg.Instance(means, np.array([0] * 4 + [1] * 5 + [2] * 3))
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 1e-11, **told), seed=0)
    assert federation.stop(StructuredBAI().solve(federation)).correct
