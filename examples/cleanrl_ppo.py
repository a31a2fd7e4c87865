"""PPO in one file that reads from top to bottom: the native vector environment and torch, nothing else."""

from __future__ import annotations

import os
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Categorical

import clustered_bandit_gym  # noqa: F401 (registers the environments)

QUICK = bool(os.environ.get("CLUSTERED_BANDIT_QUICK"))


@dataclass
class Args:
    """Settings of the run."""

    env_id: str = "ClusteredBAI-Tiny-Discrete-v0"
    seed: int = 1
    total_steps: int = 4_000 if QUICK else 1_000_000
    num_envs: int = 64
    num_steps: int = 32 if QUICK else 128
    learning_rate: float = 5e-4
    gamma: float = 1.0
    gae_lambda: float = 0.97
    minibatches: int = 8
    epochs: int = 4
    clip: float = 0.2
    entropy: float = 0.01


class Agent(nn.Module):
    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, actions)
        )
        self.critic = nn.Sequential(
            nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
        )


def flat(obs: dict[str, np.ndarray]) -> torch.Tensor:
    """(envs, 2NK): log counts and means."""
    parts = [np.log1p(obs["pulls"]) / 3, obs["means"]]
    return torch.as_tensor(
        np.concatenate([one.reshape(len(one), -1) for one in parts], axis=1), dtype=torch.float32
    )


args = Args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)
envs = gym.make_vec(
    args.env_id,
    num_envs=args.num_envs,
    autoreset_mode=AutoresetMode.SAME_STEP,
    pull_cost=0.01,
    error_penalty=4.0,
    max_pulls=300,
)
raw, _ = envs.reset(seed=args.seed)
obs = flat(raw)
agent = Agent(obs.shape[1], int(envs.single_action_space.n))  # type: ignore[attr-defined]
optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
batch = args.num_envs * args.num_steps
for update in range(1, args.total_steps // batch + 1):
    optimizer.param_groups[0]["lr"] = args.learning_rate * (
        1 - (update - 1) * batch / args.total_steps
    )
    seen, taken, logs, rewards, dones, values = ([] for _ in range(6))
    pulls, wrong = [], []
    for _ in range(args.num_steps):
        with torch.no_grad():
            policy = Categorical(logits=agent.actor(obs))
            action = policy.sample()
            values.append(agent.critic(obs)[:, 0])
        seen.append(obs)
        taken.append(action)
        logs.append(policy.log_prob(action))
        raw, reward, terminated, truncated, infos = envs.step(action.numpy())
        done = terminated | truncated
        if done.any():
            pulls += infos["final_info"]["pulls"][done].tolist()
            wrong += infos["final_info"]["wrong_agents"][done].tolist()
        rewards.append(torch.as_tensor(reward, dtype=torch.float32))
        dones.append(torch.as_tensor(done, dtype=torch.float32))
        obs = flat(raw)
    with torch.no_grad():
        following, advantage, advantages = agent.critic(obs)[:, 0], torch.zeros(args.num_envs), []
        for step in reversed(range(args.num_steps)):
            delta = rewards[step] + args.gamma * following * (1 - dones[step]) - values[step]
            advantage = delta + args.gamma * args.gae_lambda * (1 - dones[step]) * advantage
            following = values[step]
            advantages.insert(0, advantage)
    b_obs, b_action, b_log = torch.cat(seen), torch.cat(taken), torch.cat(logs)
    b_advantage, b_value = torch.cat(advantages), torch.cat(values)
    b_return = b_advantage + b_value
    for _ in range(args.epochs):
        for index in torch.randperm(batch).chunk(args.minibatches):
            policy = Categorical(logits=agent.actor(b_obs[index]))
            ratio = (policy.log_prob(b_action[index]) - b_log[index]).exp()
            gain = (b_advantage[index] - b_advantage[index].mean()) / (
                b_advantage[index].std() + 1e-8
            )
            actor_loss = -torch.min(
                gain * ratio, gain * ratio.clamp(1 - args.clip, 1 + args.clip)
            ).mean()
            critic_loss = (agent.critic(b_obs[index])[:, 0] - b_return[index]).pow(2).mean()
            loss = actor_loss + 0.5 * critic_loss - args.entropy * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    if pulls and (update % 10 == 0 or QUICK):
        print(
            f"{update * batch:>9,} steps: {np.mean(pulls):.1f} pulls, {np.mean(wrong):.3f} wrong agents per episode"
        )
torch.save(agent.state_dict(), "cleanrl.pt")
