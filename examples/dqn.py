"""DQN through SB3's own `make_vec_env`, with normalised observations; the ids work in worker processes as well."""

from __future__ import annotations

import os

from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

import clustered_bandit_gym as cbg

QUICK = bool(os.environ.get("CLUSTERED_BANDIT_QUICK"))
MODEL = "dqn-quick.zip" if QUICK else "dqn.zip"

# "package:id" imports the package first: what a worker process of SubprocVecEnv needs. Add vec_env_cls=SubprocVecEnv
# to use them, inside `if __name__ == "__main__":`; for a game this small one process is faster.
env = make_vec_env(
    "clustered_bandit_gym:ClusteredBAI-Tiny-Box-v0",
    n_envs=4,
    seed=0,
    env_kwargs={"pull_cost": 0.01, "error_penalty": 4.0},
)
model = DQN(
    "MlpPolicy",
    env,
    learning_starts=200 if QUICK else 10_000,
    buffer_size=100_000,
    batch_size=256,
    train_freq=4,
    gradient_steps=4,
    gamma=1.0,
    exploration_fraction=0.4,
    exploration_final_eps=0.02,
    seed=0,
    device="cpu",
)
model.learn(1_000 if QUICK else 500_000)
model.save(MODEL)

board = cbg.evaluate(
    [f"sb3:{MODEL}", "uniform-glr"],
    "ClusteredBAI-Tiny-v0",
    trials=2 if QUICK else 500,
    max_pulls=100 if QUICK else 5_000,
    progress=False,
)
print(board)
