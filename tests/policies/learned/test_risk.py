"""The expected penalty of a stop in training: against the truth, and what SB3 keeps of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sb3_contrib")

import torch
from stable_baselines3.common.callbacks import BaseCallback

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.features import Features, doubt_of
from clustered_bandit_gym.policies.learned.network import CellRisk, recommended
from clustered_bandit_gym.policies.learned.risk import ExpectedPenalty
from clustered_bandit_gym.policies.learned.training import TrainSettings, make_model, make_vec_env

SETTINGS = TrainSettings(n_envs=32, n_steps=32, width=8, max_pulls=30, error_penalty=8.0, seed=1)


class Keep(BaseCallback):
    """What goes into the buffer: rewards, ends, what really happened, and what a stop would have got wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[float, float, int]] = []
        self.batches: list[tuple[np.ndarray, np.ndarray]] = []

    def _on_step(self) -> bool:
        for i, info in enumerate(self.locals["infos"]):
            if info.get("TimeLimit.truncated") is False:
                before = torch.as_tensor(self.model._last_obs[i : i + 1])
                with torch.no_grad():
                    expected = float(self.model.policy.mlp_extractor.risk.wrong_agents(before))
                self.rows.append((float(self.locals["rewards"][i]), expected, info["wrong_agents"]))
        return True


def test_mistakes_are_those_of_the_truth() -> None:
    env = make_vec_env(SETTINGS)
    env.seed(2)
    env.reset()
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(20):
        obs, *_ = env.step(rng.integers(12, size=32))
        arms = recommended(torch.as_tensor(obs)).numpy().reshape(32, 4, 3).argmax(axis=2)
        truth = np.stack([env.envs.instance(i).agent_best_arms for i in range(32)])
        np.testing.assert_array_equal(env.mistakes(), arms != truth)
        found += int((arms != truth).sum())
    assert 0 < found < 20 * 32 * 4
    raw = cbg.SB3VecEnv("ClusteredBAI-Tiny-v0", n_envs=2)
    raw.reset()
    with pytest.raises(UserError, match="features"):
        raw.mistakes()


def test_risk_starts_from_the_beliefs() -> None:
    see = Features(4, 3, 2, 0.5, 0.4)
    rng = np.random.default_rng(0)
    seen = see(rng.integers(1, 9, (50, 4, 3)), rng.normal(size=(50, 4, 3)))
    features = torch.from_numpy(seen.features)
    risk: CellRisk = make_model(SETTINGS, make_vec_env(SETTINGS)).policy.mlp_extractor.risk
    with torch.no_grad():
        wrong = risk.wrong_agents(features).numpy()
    doubts = doubt_of(seen.features[:, :-6].reshape(50, 4, 3, -1)[:, :, 0, 6])
    np.testing.assert_allclose(wrong, doubts.sum(axis=1), rtol=1e-3, atol=1e-4)


def test_stops_are_paid_what_is_to_be_expected_and_the_expectation_is_learned() -> None:
    """The risk starts far off (2 added to all log-odds) and must come to the share of mistakes that is seen.

    All is seeded. Over the last rollouts the number of stops is above 500 and a stop errs on up to 4 agents: the
    tolerance, 0.3 agents a stop, is 6 standard errors of the mean number of wrong agents (standard deviation below 1).
    """
    env = make_vec_env(SETTINGS)
    model = make_model(SETTINGS, env)
    risk: Any = model.policy.mlp_extractor.risk
    with torch.no_grad():
        risk.last.bias.fill_(2.0)
        model.policy.mlp_extractor.actor.rule[1] = 0.9  # stops early, and is often wrong
    for group in model.policy.optimizer.param_groups:
        group["lr"] = 0.0
    model.lr_schedule = lambda _: 0.0  # the player stays as it is
    keep = Keep()
    model.learn(32 * 32 * 24, callback=[ExpectedPenalty(8.0), keep])
    paid, expected, wrong = np.array(keep.rows).T
    np.testing.assert_allclose(paid, -8 * expected, rtol=1e-5)
    last = slice(-600, None)
    assert expected[:50].mean() - wrong[:50].mean() > 0.8
    assert abs(expected[last].mean() - wrong[last].mean()) < 0.3
    assert wrong[last].std() < 1.2
    # A good forecast tells stops apart.
    assert np.corrcoef(expected[last], wrong[last])[0, 1] > 0.15
