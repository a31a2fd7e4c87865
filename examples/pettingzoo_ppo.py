"""Decentralised agents that share one network: PPO on the PettingZoo view of the game.

Every agent sees its own counts and means and what the others have broadcast, and decides for itself when to commit. All
agents' steps go into one batch for one network, which is what sharing parameters means.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import clustered_bandit_gym as cbg

QUICK = bool(os.environ.get("CLUSTERED_BANDIT_QUICK"))
UPDATES, EPISODES, EPOCHS = (2, 10, 1) if QUICK else (150, 100, 4)
CLIP, LEARNING_RATE, ENTROPY = 0.2, 1e-3, 0.01

torch.manual_seed(0)
torch.set_num_threads(1)
env = cbg.parallel_env(
    communication="broadcast", generator="tiny", pull_cost=0.01, error_penalty=4.0, max_cycles=60
)
n_agents, n_arms = len(env.possible_agents), env.n_arms


def look(obs: dict[str, np.ndarray]) -> np.ndarray:
    """Own and heard counts and means; the others are averaged, so that their order does not matter."""
    heard = obs["heard_pulls"].sum(axis=0)
    mean = (obs["heard_pulls"] * obs["heard_means"]).sum(axis=0) / np.maximum(heard, 1)
    parts = [np.log1p(obs["pulls"]) / 3, obs["means"], np.log1p(heard) / 3, mean]
    return np.concatenate(parts).astype(np.float32)


actor = nn.Sequential(
    nn.Linear(4 * n_arms, 64),
    nn.Tanh(),
    nn.Linear(64, 64),
    nn.Tanh(),
    nn.Linear(64, 2 * n_arms + 1),
)
critic = nn.Sequential(
    nn.Linear(4 * n_arms, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=LEARNING_RATE)


def episode(seed: int) -> tuple[list[Any], dict[str, Any]]:
    """One episode: (observation, action, log-probability, return) of every agent at every step, and the outcome."""
    observations, _ = env.reset(seed=seed)
    paths: dict[str, list[list[Any]]] = {agent: [] for agent in env.possible_agents}
    outcome: dict[str, Any] = {}
    while env.agents:
        acting = list(env.agents)
        inputs = np.stack([look(observations[agent]) for agent in acting])
        with torch.no_grad():
            policy = Categorical(logits=actor(torch.from_numpy(inputs)))
            chosen = policy.sample()
            logs = policy.log_prob(chosen)
        actions = dict(zip(acting, chosen.tolist(), strict=True))
        observations, rewards, _, _, infos = env.step(actions)
        for row, agent in enumerate(acting):
            paths[agent].append([inputs[row], actions[agent], float(logs[row]), rewards[agent]])
        outcome = infos[acting[0]]
    steps = []
    for path in paths.values():
        total = 0.0
        for step in reversed(path):
            total += step[3]
            step[3] = total
        steps += path
    return steps, outcome


for update in range(1, UPDATES + 1):
    steps: list[Any] = []
    outcomes = []
    for number in range(EPISODES):
        path, outcome = episode(seed=update * EPISODES + number)
        steps += path
        outcomes.append(outcome)
    inputs = torch.from_numpy(np.stack([step[0] for step in steps]))
    actions, old, returns = (torch.tensor([step[i] for step in steps]) for i in (1, 2, 3))
    with torch.no_grad():
        advantages = returns - critic(inputs)[:, 0]
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(steps)).chunk(8):
            policy = Categorical(logits=actor(inputs[index]))
            ratio = (policy.log_prob(actions[index]) - old[index]).exp()
            gain = advantages[index]
            loss = -torch.min(gain * ratio, gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            loss = loss + 0.5 * (critic(inputs[index])[:, 0] - returns[index]).pow(2).mean()
            loss = loss - ENTROPY * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if update % 10 == 0 or QUICK:
        pulls, wrong, cost = (
            float(
                np.mean(
                    [
                        one[key] if key != "cost" else one["communication"]["cost"]
                        for one in outcomes
                    ]
                )
            )
            for key in ("pulls", "wrong_agents", "cost")
        )
        print(
            f"update {update}: {pulls:.1f} pulls, {wrong:.3f} wrong agents, communication cost {cost:.0f}"
        )
torch.save(actor.state_dict(), "pettingzoo.pt")
