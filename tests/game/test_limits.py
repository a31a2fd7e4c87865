"""Good enough arms (`epsilon`) and the limit on the pulls of one agent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym import BudgetExceeded, Federation, Instance, Problem
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv
from clustered_bandit_gym.harness.bound import bound_of

NEAR = Instance([[0.8, 0.7, 0.0], [0.0, 0.2, 0.9]], [0, 1, 0], cbg.Gaussian(0.0))


def test_an_arm_within_epsilon_is_right() -> None:
    assert NEAR.good_arms().tolist() == NEAR.is_best.tolist()
    # 0.8 - 0.7 exceeds 0.1 in floating point.
    assert NEAR.good_arms(0.1).tolist() == [[True, True, False], [False, False, True]]
    assert NEAR.good_arms(2.0).all()
    for epsilon, right in ((0.0, [False, True, True]), (0.1, [True, True, True])):
        play = Federation(NEAR, Problem.of(NEAR, 0.1, epsilon=epsilon), 0)
        assert play.stop([1, 2, 0]).agent_correct.tolist() == right
        env = ClusteredBAIEnv(NEAR, epsilon=epsilon)
        env.reset(seed=0)
        info = env.step((cbg.STOP, [1, 2, 0]))[4]
        assert info["agent_correct"].tolist() == right
        envs = ClusteredBAIVectorEnv(2, instance=NEAR, epsilon=epsilon)
        envs.reset(seed=0)
        envs.recommendations = np.array([[1, 2, 0]] * 2)
        infos = envs.step(np.full(2, 9))[4]
        assert infos["agent_correct"].tolist() == [right] * 2


@pytest.mark.parametrize("epsilon", [-0.1, np.nan, np.inf])
def test_epsilon_is_checked(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be a finite number >= 0"):
        Problem.of(NEAR, 0.1, epsilon=epsilon)


def test_rows_tell_epsilon_and_no_bound_is_shown() -> None:
    problem = Problem.of(NEAR, 0.1, epsilon=0.1)
    assert problem.to_dict()["epsilon"] == 0.1
    unit = Instance(NEAR.means, NEAR.clusters)
    assert bound_of(unit, Problem.of(unit, 0.1)) is not None
    assert bound_of(unit, Problem.of(unit, 0.1, epsilon=0.1)) is None
    row = cbg.play("uniform", ClusteredBAIEnv(NEAR, epsilon=0.1, sigma=0.1), seed=0)
    assert (row["epsilon"], row["max_pulls_per_agent"], row["bound"]) == (0.1, None, None)


def play(limit: int) -> Federation:
    return Federation(NEAR, Problem.of(NEAR, 0.1, max_pulls_per_agent=limit), 0)


@pytest.mark.parametrize(
    "pull",
    [
        lambda p: p.pull([1, 0, 1], [0, 0, 1], [2, 5, 2]),
        lambda p: p.pull([[0], [1]], [[0, 1]], 2),
        lambda p: p.pull(1, 0, 6),
        lambda p: p.local([1], lambda block: cbg.Reals(block.pull_grid(2))),
    ],
)
def test_limit_of_an_agent_is_kept_before_drawing(pull: Any) -> None:
    federation = play(5)
    federation.pull(1, 2, 2)
    before = federation.pulls_per_agent.copy()
    with pytest.raises(
        BudgetExceeded, match=r"agent 1 has made 2 pulls; .* max_pulls_per_agent = 5"
    ):
        pull(federation)
    assert federation.pulls_per_agent.tolist() == before.tolist()
    federation.pull([0, 1, 2], 0, [5, 3, 5])
    assert federation.pulls_per_agent.tolist() == [5, 5, 5]


def test_limit_of_an_agent_in_an_environment() -> None:
    env = ClusteredBAIEnv(NEAR, max_pulls_per_agent=1)
    assert env.reset(seed=0)[1]["max_pulls_per_agent"] == 1
    for agent in range(3):
        env.step((cbg.PULL, (agent, 0)))
    with pytest.raises(BudgetExceeded, match="agent 2"):
        env.step((cbg.PULL, (2, 0)))
    flat = cbg.FlatClusteredBAIEnv(NEAR, max_pulls_per_agent=1)
    flat.reset(seed=0)
    flat.step(0)
    with pytest.raises(BudgetExceeded, match="agent 0"):
        flat.step(0)
    assert flat.federation.ledger.summary()["reals_up"] == 1, "what is refused costs nothing"
    with pytest.raises(ValueError, match="max_pulls_per_agent and autoreset_mode"):
        ClusteredBAIVectorEnv(2, max_pulls_per_agent=3)
    row = cbg.play("uniform", ClusteredBAIEnv(NEAR, max_pulls_per_agent=1, sigma=0.1), seed=0)
    assert row["outcome"] == "budget"
    assert row["max_pulls_per_agent"] == 1
    with pytest.raises(ValueError, match="max_pulls_per_agent must be a whole number"):
        ClusteredBAIEnv(NEAR, max_pulls_per_agent=0)
