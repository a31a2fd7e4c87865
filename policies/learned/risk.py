"""The penalty of a stop in training: what is to be expected, not what happened. Needs the `rl` extra.

A player errs in one episode of a hundred, and then loses as much as hundreds of pulls cost: paid by the outcome, the
reward of a stop is a rare event with a large variance. In training the truth is known in *every* state: would a stop
now be wrong? A small network (`network.CellRisk`) learns the answer from all states of the rollouts, tens of times as
many as there are stops, and a stop is paid what it says. What is learned is judged by outcomes: validation and
evaluation know nothing of this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

from clustered_bandit_gym.policies.learned.network import CellRisk, recommended

_LEARNING_RATE, _BATCH, _EPOCHS = 4e-3, 512, 2


class ExpectedPenalty(BaseCallback):
    """Replaces the reward of a stop by −`penalty` times the expected number of wrong agents, and fits the expectation.

    For PPO and A2C with `CellPolicy` on `SB3VecEnv` with features. The expectation's weights are part of the policy,
    hence of a checkpoint; its optimizer starts anew with the callback.
    """

    def __init__(self, penalty: float) -> None:
        super().__init__()
        self._penalty = penalty
        self._mistakes: list[
            np.ndarray
        ] = []  # (n_envs, N) before each step of the rollout, and now

    def _init_callback(self) -> None:
        policy: Any = self.model.policy
        self._risk: CellRisk = policy.mlp_extractor.risk
        self._optimizer = torch.optim.Adam(self._risk.parameters(), lr=_LEARNING_RATE)

    def _mistakes_now(self) -> np.ndarray:
        """(n_envs, N) agents that a stop now would get wrong."""
        env: Any = self.training_env
        mistakes: np.ndarray = env.mistakes()
        return mistakes

    def _on_rollout_start(self) -> None:
        self._mistakes = [self._mistakes_now()]

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        stops = [i for i, info in enumerate(infos) if info.get("TimeLimit.truncated") is False]
        if stops:
            # A stop leaves the observation as it was.
            before = torch.as_tensor(np.stack([infos[i]["terminal_observation"] for i in stops]))
            with torch.no_grad():
                # In place: what SB3 puts into its buffer after this call.
                self.locals["rewards"][stops] = (
                    -self._penalty * self._risk.wrong_agents(before).numpy()
                )
        self._mistakes.append(self._mistakes_now())
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        seen = model.rollout_buffer.observations  # (n_steps, n_envs, features)
        features = torch.as_tensor(seen.reshape(-1, seen.shape[-1]))
        wrong = torch.as_tensor(np.concatenate(self._mistakes[:-1]), dtype=torch.float32)  # (B, N)
        n_agents = wrong.shape[1]
        for _ in range(_EPOCHS):
            for batch in torch.randperm(len(wrong)).split(_BATCH):
                part = features[batch]
                odds = (
                    (recommended(part) * self._risk(part))
                    .reshape(len(batch), n_agents, -1)
                    .sum(dim=2)
                )
                loss = nn.functional.binary_cross_entropy_with_logits(odds, wrong[batch])
                self._optimizer.zero_grad()
                loss.backward()
                self._optimizer.step()
        self.logger.record("train/risk_loss", loss.item())
        self.logger.record(
            "train/risk_bias", (torch.sigmoid(odds).mean() - wrong[batch].mean()).item()
        )
