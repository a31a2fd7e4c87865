"""Your own feature extractor: shared weights for all agents, which are then averaged.

The board reads plain stacks of layers from a model file (`sb3:model.zip`). Any other model plays through a
`StepPolicy` around `model.predict`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

import clustered_bandit_gym as cbg

QUICK = bool(os.environ.get("CLUSTERED_BANDIT_QUICK"))


class AgentAverage(BaseFeaturesExtractor):
    """(pulls, means) of each agent -> a shared layer -> every agent's code, and the average over agents."""

    def __init__(self, observation_space: spaces.Dict, width: int = 32) -> None:
        n_agents, n_arms = observation_space["pulls"].shape  # type: ignore[misc]
        super().__init__(observation_space, features_dim=(n_agents + 1) * width)
        self.code = torch.nn.Sequential(torch.nn.Linear(2 * n_arms, width), torch.nn.ReLU())

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        inputs = torch.cat([observations["pulls"].log1p(), observations["means"]], dim=2)
        codes = self.code(inputs.float())
        return torch.cat([codes.flatten(1), codes.mean(dim=1)], dim=1)


env = cbg.SB3VecEnv(
    "ClusteredBAI-Tiny-v0", n_envs=64, pull_cost=0.01, error_penalty=4.0, max_pulls=300
)
kwargs: dict[str, Any] = {"features_extractor_class": AgentAverage, "net_arch": [64]}
model = PPO(
    "MultiInputPolicy",
    env,
    n_steps=32 if QUICK else 128,
    batch_size=1024,
    gamma=1.0,
    policy_kwargs=kwargs,
    seed=0,
    device="cpu",
)
model.learn(2_000 if QUICK else 1_000_000)


class Extractor(cbg.StepPolicy):
    """The model on the board; deterministic."""

    name = "extractor"

    def act(self, obs: dict[str, np.ndarray], info: dict[str, Any]) -> Any:
        action = int(model.predict(obs, deterministic=True)[0])
        n_agents, n_arms = obs["pulls"].shape
        if action == n_agents * n_arms:
            return cbg.STOP, obs["means"].argmax(axis=1)
        return cbg.PULL, divmod(action, n_arms)


model.save("extractor-quick.zip" if QUICK else "extractor.zip")
board = cbg.evaluate(
    [Extractor(), "uniform-glr"],
    "ClusteredBAI-Tiny-v0",
    trials=2 if QUICK else 500,
    max_pulls=100 if QUICK else 5_000,
    progress=False,
)
print(board)
