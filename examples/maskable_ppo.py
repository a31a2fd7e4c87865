"""MaskablePPO of sb3-contrib: the masks forbid to stop before every agent has a pull."""

from __future__ import annotations

import os

from sb3_contrib import MaskablePPO

import clustered_bandit_gym as cbg

QUICK = bool(os.environ.get("CLUSTERED_BANDIT_QUICK"))
MODEL = "maskable-quick.zip" if QUICK else "maskable.zip"

env = cbg.SB3VecEnv(
    "ClusteredBAI-Tiny-Box-v0", n_envs=64, pull_cost=0.01, error_penalty=4.0, max_pulls=300
)
model = MaskablePPO(
    "MlpPolicy",
    env,
    n_steps=32 if QUICK else 128,
    batch_size=1024,
    gamma=1.0,
    seed=0,
    device="cpu",
)
model.learn(2_000 if QUICK else 1_000_000)
model.save(MODEL)

board = cbg.evaluate(
    [f"sb3:{MODEL}", "uniform-glr"],
    "ClusteredBAI-Tiny-v0",
    trials=2 if QUICK else 500,
    max_pulls=100 if QUICK else 5_000,
    progress=False,
)
print(board)
