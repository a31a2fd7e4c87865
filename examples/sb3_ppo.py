"""PPO of Stable-Baselines3 as it is: `MlpPolicy`, default network, ten seconds on one core.

`python examples/sb3_ppo.py` trains one model and puts it on the board; `python -m research.learned` does it with five
seeds, compares them with uniform sampling at the same error rate, and draws the learning curve.

On the raw flat or Box id PPO mostly learns when not to stop: the twelve pulls of the game look different to a network,
though agents and arms are exchangeable. `features="auto"` removes that symmetry. Cells are sorted by the value of a
pull, and agents that look alike share their data.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import clustered_bandit_gym as cbg

ENV = "ClusteredBAI-Tiny-v0"
#: A wrong agent costs as much as 800 pulls; after ten pulls of each arm the environment answers by itself.
GAME = {"pull_cost": 0.01, "error_penalty": 8.0, "max_pulls": 120}
STEPS = 120_000


def train(
    seed: int,
    steps: int = STEPS,
    callback: Any = None,
    env_id: str = ENV,
    game: dict[str, Any] = GAME,
) -> PPO:
    torch.set_num_threads(1)
    env = cbg.SB3VecEnv(env_id, "auto", n_envs=64, **game)
    model = PPO(
        "MlpPolicy",
        VecMonitor(env, info_keywords=("pulls", "wrong_agents", "cost")),
        n_steps=128,
        batch_size=2048,
        n_epochs=4,
        gamma=1.0,
        ent_coef=0.005,
        learning_rate=lambda left: 1e-3 * left,
        seed=seed,
        device="cpu",
    )
    return model.learn(steps, callback=callback)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    quick = bool(os.environ.get("CLUSTERED_BANDIT_QUICK"))
    parser.add_argument(
        "--out", default="sb3_ppo-quick.zip" if quick else "sb3_ppo.zip", help="the model's file"
    )
    parser.add_argument(
        "--seed", type=int, default=2, help="default 2; with 0 and 1 it does not learn when to stop"
    )
    given = parser.parse_args()
    train(given.seed, steps=8192 if quick else STEPS).save(given.out)
    board = cbg.evaluate(
        [f"sb3:{given.out},max_pulls={GAME['max_pulls']}", "uniform-glr"],
        ENV,
        trials=2 if quick else 500,
        max_pulls=100 if quick else 5_000,
        progress=False,
    )
    print(board)
