"""The network of learned players, and the Stable-Baselines3 policies around it. Needs the `rl` extra.

One small network scores every (agent, arm) cell from the cell's own features, those of the play, and the average and
maximum of what it makes of all cells; a second head scores the stop. Weights are shared by all cells: renumbering
agents or arms renumbers the scores, and a trained network plays games of other sizes.

The actor starts from a rule of thumb, not from nothing: it pulls where the feature "value of a pull" is large, and
stops when few wrong agents are expected. Learning changes the weights of the rule and adds what the layers find.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import Tensor, nn

from clustered_bandit_gym.policies.learned.features import (
    CELL_FEATURES,
    PLAY_FEATURES,
    STOP_BELOW,
    doubt_of,
    stop_threshold,
)

_CELL, _PLAY = len(CELL_FEATURES), len(PLAY_FEATURES)


#: The rule that learning starts from: how sharply it follows the value of a pull, and how sharply it stops.
_SHARPNESS, _STOP_SHARPNESS = 12.0, 24.0
#: Scores of the stop above this stop: log 1/2, the actor's probability of stopping. Unlike the largest of all scores,
#: it means the same whatever the number of cells.
STOP_ABOVE = -math.log(2)


class CellScores(nn.Module):
    """Features (B, N·K·C + G) -> one score per action (B, N·K + 1), the stop last.

    Args:
        width: units of each layer.
        probabilities: scores are log-probabilities: to stop or not by one number, then which cell. Otherwise they
            are free numbers, such as action values.
    """

    def __init__(self, width: int, probabilities: bool = True) -> None:
        super().__init__()
        self.probabilities = probabilities
        self.cell = nn.Linear(_CELL + _PLAY, width)
        self.context = nn.Linear(3 * width, width)
        self.pull = nn.Linear(width, 1)
        self.play = nn.Linear(2 * width + _PLAY, width)
        self.stop = nn.Linear(width, 1)
        if probabilities:
            self.rule = nn.Parameter(
                torch.tensor([_SHARPNESS, stop_threshold(STOP_BELOW), _STOP_SHARPNESS])
            )
            with torch.no_grad():
                for last in (self.pull, self.stop):  # at first the rule alone, whatever the seed
                    last.weight.zero_()
                    last.bias.zero_()

    def forward(self, features: Tensor) -> Tensor:
        cells, play = split(features)
        hidden = torch.relu(_beside(self.cell, cells, play))
        summary = torch.cat([hidden.mean(dim=1), hidden.amax(dim=1)], dim=1)
        scores = self.pull(torch.relu(_beside(self.context, hidden, summary)))[..., 0]
        stop = self.stop(torch.relu(self.play(torch.cat([summary, play], dim=1))))
        if not self.probabilities:
            return torch.cat([scores, stop], dim=1)
        sharpness, threshold, stop_sharpness = self.rule
        scores = torch.log_softmax(scores + sharpness * cells[..., 0], dim=1)
        stop = stop + stop_sharpness * (threshold - play[:, :1])
        return torch.cat(
            [scores + nn.functional.logsigmoid(-stop), nn.functional.logsigmoid(stop)], dim=1
        )


class CellValue(nn.Module):
    """Features -> what SB3's linear value head reads (B, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.Linear(_CELL + _PLAY, width)
        self.play = nn.Linear(2 * width + _PLAY, width)
        self.last = nn.Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        cells, play = split(features)
        hidden = torch.relu(_beside(self.cell, cells, play))
        summary = torch.cat([hidden.mean(dim=1), hidden.amax(dim=1), play], dim=1)
        return torch.tanh(self.last(torch.tanh(self.play(summary))))


class CellRisk(nn.Module):
    """Features -> log-odds (B, N·K) that a cell's arm is not the agent's best; meant for the recommended arms.

    It starts from the beliefs' own doubt and learns by how much they are off. Training alone uses it.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.Linear(_CELL + _PLAY, width)
        self.context = nn.Linear(3 * width, width)
        self.last = nn.Linear(width, 1)
        with torch.no_grad():
            self.last.weight.zero_()
            self.last.bias.zero_()

    def forward(self, features: Tensor) -> Tensor:
        cells, play = split(features)
        hidden = torch.relu(_beside(self.cell, cells, play))
        summary = torch.cat([hidden.mean(dim=1), hidden.amax(dim=1)], dim=1)
        change = self.last(torch.relu(_beside(self.context, hidden, summary)))[..., 0]
        doubt = doubt_of(cells[..., CELL_FEATURES.index("log doubt about the agent")])
        return torch.logit(doubt, eps=1e-6) + change

    def wrong_agents(self, features: Tensor) -> Tensor:
        """(B,) expected number of agents whose recommended arm is wrong."""
        return (recommended(features) * torch.sigmoid(self(features))).sum(dim=1)


def recommended(features: Tensor) -> Tensor:
    """(B, N·K) 1 for the arm that an agent would be recommended now, else 0."""
    return split(features)[0][..., CELL_FEATURES.index("recommended")]


def split(features: Tensor) -> tuple[Tensor, Tensor]:
    """Features of the cells (B, N·K, C) and of the play (B, G)."""
    return features[:, :-_PLAY].reshape(features.shape[0], -1, _CELL), features[:, -_PLAY:]


def _beside(layer: nn.Linear, cells: Tensor, play: Tensor) -> Tensor:
    """`layer` of every cell (B, N·K, a) with the play (B, b) beside it: (B, N·K, width).

    The play's part is the same for all cells of a play: computed once, and nothing is copied.
    """
    own, common = layer.weight.split([cells.shape[2], play.shape[1]], dim=1)
    return (
        nn.functional.linear(cells, own) + nn.functional.linear(play, common, layer.bias)[:, None]
    )


class CellNetwork(nn.Module):
    """Actor, critic and risk side by side, in the shape SB3 asks of an `mlp_extractor`."""

    def __init__(self, width: int, n_actions: int) -> None:
        super().__init__()
        self.latent_dim_pi, self.latent_dim_vf = n_actions, width
        self.actor, self.critic, self.risk = CellScores(width), CellValue(width), CellRisk(width)

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
        self.ortho_init = False  # it would overwrite the start from the rule
        super()._build(lr_schedule)  # type: ignore[misc]
        self.action_net = nn.Identity()
        self.optimizer = self.optimizer_class(
            self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs
        )


class CellPolicy(_CellActorCritic, ActorCriticPolicy):
    """For PPO and A2C."""


class MaskableCellPolicy(_CellActorCritic, MaskableActorCriticPolicy):
    """For MaskablePPO."""


class CellQPolicy(DQNPolicy):
    """For DQN: scores are action values."""

    def make_q_net(self) -> QNetwork:
        network = super().make_q_net()
        network.q_net = CellScores(self.net_arch[0], probabilities=False).to(self.device)  # type: ignore[assignment]
        return network


#: Where the actor's weights are in the `policy.pth` of each algorithm.
ACTOR_PREFIX = {
    "maskable-ppo": "mlp_extractor.actor.",
    "ppo": "mlp_extractor.actor.",
    "a2c": "mlp_extractor.actor.",
    "dqn": "q_net.q_net.",
}
