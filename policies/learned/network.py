"""The network of learned players, and the Stable-Baselines3 policies around it. Needs the `rl` extra.

One small network scores every (agent, arm) cell from the cell's own features, those of the play, and the average of
what it makes of all cells; a second head scores the stop. Weights are shared by all cells: renumbering agents or arms
renumbers the scores, and a trained network plays games of other sizes.
"""

from __future__ import annotations

from typing import Any

import torch
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import Tensor, nn

from clustered_bandit_gym.policies.learned.features import CELL_FEATURES, PLAY_FEATURES

_CELL, _PLAY = len(CELL_FEATURES), len(PLAY_FEATURES)


class CellScores(nn.Module):
    """Features (B, N·K·C + G) -> one score per action (B, N·K + 1), the stop last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.Linear(_CELL + _PLAY, width)
        self.context = nn.Linear(2 * width, width)
        self.pull = nn.Linear(width, 1)
        self.play = nn.Linear(width + _PLAY, width)
        self.stop = nn.Linear(width, 1)

    def forward(self, features: Tensor) -> Tensor:
        cells, play = split(features)
        hidden = torch.relu(self.cell(cells))
        average = hidden.mean(dim=1)
        around = average[:, None].expand(-1, cells.shape[1], -1)
        scores = self.pull(torch.relu(self.context(torch.cat([hidden, around], dim=2))))[..., 0]
        stop = self.stop(torch.relu(self.play(torch.cat([average, play], dim=1))))
        return torch.cat([scores, stop], dim=1)


class CellValue(nn.Module):
    """Features -> what SB3's linear value head reads (B, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.Linear(_CELL + _PLAY, width)
        self.play = nn.Linear(2 * width + _PLAY, width)
        self.last = nn.Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        cells, play = split(features)
        hidden = torch.relu(self.cell(cells))
        summary = torch.cat([hidden.mean(dim=1), hidden.amax(dim=1), play], dim=1)
        return torch.tanh(self.last(torch.tanh(self.play(summary))))


def split(features: Tensor) -> tuple[Tensor, Tensor]:
    """Cells (B, N·K, C + G), each with the play's features beside its own, and the play's features (B, G)."""
    cells = features[:, :-_PLAY].reshape(features.shape[0], -1, _CELL)
    play = features[:, -_PLAY:]
    return torch.cat([cells, play[:, None].expand(-1, cells.shape[1], -1)], dim=2), play


class CellNetwork(nn.Module):
    """Actor and critic side by side, in the shape SB3 asks of an `mlp_extractor`."""

    def __init__(self, width: int, n_actions: int) -> None:
        super().__init__()
        self.latent_dim_pi, self.latent_dim_vf = n_actions, width
        self.actor, self.critic = CellScores(width), CellValue(width)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(features), self.critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        return self.actor(features)

    def forward_critic(self, features: Tensor) -> Tensor:
        return self.critic(features)


class _CellActorCritic:
    """Puts a `CellNetwork` of width `net_arch[0]` into an actor-critic policy; its scores are the logits."""

    mlp_extractor: Any
    action_net: Any

    def _build_mlp_extractor(self: Any) -> None:
        self.mlp_extractor = CellNetwork(self.net_arch[0], int(self.action_space.n))

    def _build(self: Any, lr_schedule: Any) -> None:
        super()._build(lr_schedule)  # type: ignore[misc]
        self.action_net = nn.Identity()
        with torch.no_grad():
            # Nearly equal scores at the start: every action is tried.
            self.mlp_extractor.actor.pull.weight.mul_(0.1)
            self.mlp_extractor.actor.stop.weight.mul_(0.1)
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)


class CellPolicy(_CellActorCritic, ActorCriticPolicy):
    """For PPO and A2C."""


class MaskableCellPolicy(_CellActorCritic, MaskableActorCriticPolicy):
    """For MaskablePPO."""


class CellQPolicy(DQNPolicy):
    """For DQN: scores are action values."""

    def make_q_net(self) -> QNetwork:
        network = super().make_q_net()
        network.q_net = CellScores(self.net_arch[0]).to(self.device)  # type: ignore[assignment]
        return network


#: Where the actor's weights are in the `policy.pth` of each algorithm.
ACTOR_PREFIX = {
    "maskable-ppo": "mlp_extractor.actor.",
    "ppo": "mlp_extractor.actor.",
    "a2c": "mlp_extractor.actor.",
    "dqn": "q_net.q_net.",
}
