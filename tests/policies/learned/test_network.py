"""The network: symmetric in agents and arms, and the rule before training."""

from __future__ import annotations

import numpy as np
import pytest

from clustered_bandit_gym.policies.learned.features import STOP_BELOW, Features, stop_threshold

pytest.importorskip("sb3_contrib")

import torch
from learned_models import small

from clustered_bandit_gym.policies.learned.network import CellScores
from clustered_bandit_gym.policies.learned.training import make_model, make_vec_env


def test_scores_follow_the_agents_and_arms() -> None:
    torch.manual_seed(0)
    network = CellScores(16)
    rng = np.random.default_rng(0)
    pulls, means = rng.integers(1, 9, (30, 4, 3)), rng.normal(size=(30, 4, 3))
    agents, arms = rng.permutation(4), rng.permutation(3)
    see = Features(4, 3, 2, 0.5, 0.4)
    seen = see(pulls, means)
    with torch.no_grad():
        a = network(torch.from_numpy(seen.features)).numpy()
        moved = see(pulls[:, agents][:, :, arms], means[:, agents][:, :, arms])
        b = network(torch.from_numpy(moved.features)).numpy()
    np.testing.assert_allclose(b[:, -1], a[:, -1], atol=0.02)
    before, after = (scores[:, :-1].reshape(-1, 4, 3) for scores in (a, b))
    np.testing.assert_allclose(after, before[:, agents][:, :, arms], rtol=0.005, atol=0.02)


def test_training_starts_from_the_rule_whatever_the_seed() -> None:
    """Stable-Baselines3 initialises the layers of a policy; the actor must still be the rule when it is done."""
    for algo in ("maskable-ppo", "ppo", "a2c"):
        for seed in (0, 1):
            settings = small(algo, seed=seed)
            env = make_vec_env(settings)
            env.seed(5)
            features = torch.as_tensor(env.reset())
            for _ in range(20):
                features = torch.as_tensor(env.step(np.arange(8))[0])
            with torch.no_grad():
                scores = make_model(settings, env).policy.mlp_extractor.actor(features)
            sharpness, threshold, stop_sharpness = 12.0, stop_threshold(STOP_BELOW), 24.0
            value = features[:, :-6].reshape(8, 12, -1)[..., 0]
            stop = stop_sharpness * (threshold - features[:, -6:-5])
            pull = torch.log_softmax(sharpness * value, dim=1) + torch.nn.functional.logsigmoid(
                -stop
            )
            torch.testing.assert_close(
                scores, torch.cat([pull, torch.nn.functional.logsigmoid(stop)], dim=1)
            )


def test_scores_are_probabilities_whatever_the_size() -> None:
    network = CellScores(16)
    for n, k in ((4, 3), (20, 8)):
        see = Features(n, k, 2, 0.5, 0.4)
        rng = np.random.default_rng(0)
        seen = see(rng.integers(0, 9, (5, n, k)), rng.normal(size=(5, n, k)))
        with torch.no_grad():
            scores = network(torch.from_numpy(seen.features))
        np.testing.assert_allclose(scores.exp().sum(dim=1).numpy(), 1, rtol=1e-4)
