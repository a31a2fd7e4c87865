"""PPO of Stable-Baselines3, from an id to a row on the scoreboard."""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.learned.sb3 import LogOutcomes

QUICK = bool(os.environ.get("CLUSTERED_BANDIT_QUICK"))

# A wrong agent costs as much as 400 pulls. The stop recommends each agent's empirical best arm.
env = cbg.SB3VecEnv(
    "ClusteredBAI-Tiny-v0", n_envs=64, pull_cost=0.01, error_penalty=4.0, max_pulls=300
)
# A CSV file with a row for each episode: return, length, pulls, wrong agents, cost of communication.
# SB3VecEnv keeps statistics of its own; SB3 warns that VecMonitor replaces them, which is intended here.
warnings.filterwarnings("ignore", message="The environment is already wrapped with a `Monitor`")
env = VecMonitor(env, filename="ppo", info_keywords=("pulls", "wrong_agents", "cost"))
model = PPO(
    "MultiInputPolicy",
    env,
    n_steps=32 if QUICK else 128,
    batch_size=1024,
    gamma=1.0,
    seed=0,
    device="cpu",
    # `tensorboard --logdir runs` shows episode/pulls, episode/wrong_agents and episode/cost.
    tensorboard_log="runs" if find_spec("tensorboard") else None,
)
model.learn(2_000 if QUICK else 1_000_000, callback=LogOutcomes())
model.save("ppo.zip")

board = cbg.evaluate(
    ["sb3:ppo.zip", "uniform-glr"],
    "ClusteredBAI-Tiny-v0",
    trials=2 if QUICK else 500,
    max_pulls=100 if QUICK else 5_000,
    progress=False,
)
print(board)
