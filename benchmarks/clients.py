"""Learning libraries on the flat and Box ids: `python -m benchmarks.clients` prints passed and failed per client.

A client that is not installed is skipped. Install them apart from the package: torchrl tianshou supersuit minari rl_zoo3.
"""

from __future__ import annotations

import importlib
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs_registry import CATALOGUE, flat_id

#: Small enough that a check of each takes seconds.
GAMES = ("ClusteredBAI-v0", "ClusteredBAI-Tiny-v0", "ClusteredBAI-NearTie-v0")
IDS = [flat_id(name, kind) for name in GAMES for kind in ("Discrete", "Box")]
BOX = "ClusteredBAI-Tiny-Box-v0"
Check = tuple[str, Callable[[], Any]]


def gymnasium_checks() -> Iterator[Check]:
    from gymnasium.utils.env_checker import check_env

    for name in [*IDS, *(one for one, entry in CATALOGUE.items() if one in GAMES)]:
        yield name, lambda name=name: check_env(gym.make(name).unwrapped, skip_render_check=True)


def stable_baselines3() -> Iterator[Check]:
    from stable_baselines3 import A2C, DQN, PPO
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.evaluation import evaluate_policy

    def learn(kind: Any) -> None:
        model = kind("MlpPolicy", gym.make(BOX), device="cpu").learn(300)
        evaluate_policy(model, model.get_env(), n_eval_episodes=2)

    for name in IDS:
        yield name, lambda name=name: check_env(gym.make(name))
    for kind in (PPO, A2C, DQN):
        yield f"{kind.__name__} and evaluate_policy", lambda kind=kind: learn(kind)


def pettingzoo() -> Iterator[Check]:
    from pettingzoo.test import parallel_api_test

    for communication in ("none", "broadcast"):
        yield (
            communication,
            lambda communication=communication: parallel_api_test(
                cbg.parallel_env(communication, generator="tiny", max_cycles=30)
            ),
        )


def torchrl() -> Iterator[Check]:
    from torchrl.envs import GymEnv
    from torchrl.envs.utils import check_env_specs

    for name in IDS:
        yield name, lambda name=name: check_env_specs(GymEnv(name))


def tianshou() -> Iterator[Check]:
    from tianshou.env import DummyVectorEnv

    def play() -> None:
        envs = DummyVectorEnv([lambda: gym.make(BOX) for _ in range(2)])
        envs.reset()
        envs.step([0, 12])

    yield "DummyVectorEnv", play


def supersuit() -> Iterator[Check]:
    from supersuit import frame_stack_v1

    def play() -> None:
        env = frame_stack_v1(gym.make(BOX), 3)
        env.reset(seed=0)
        env.step(0)

    yield "frame_stack", play


def minari() -> Iterator[Check]:
    from minari import DataCollector

    def collect() -> None:
        env = DataCollector(gym.make(BOX), record_infos=True)
        for seed in range(2):
            env.reset(seed=seed)
            for action in (0, 3, 6, 9, 12):
                env.step(action)
        env.close()

    yield "DataCollector with infos", collect


CLIENTS: dict[str, Callable[[], Iterator[Check]]] = {
    "gymnasium": gymnasium_checks,
    "stable_baselines3": stable_baselines3,
    "pettingzoo": pettingzoo,
    "torchrl": torchrl,
    "tianshou": tianshou,
    "supersuit": supersuit,
    "minari": minari,
}


def main(chosen: list[str]) -> int:
    warnings.simplefilter("ignore")
    failures = 0
    for name in chosen or CLIENTS:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"{name:<20} skipped: {error}", flush=True)
            continue
        passed, failed = 0, []
        for what, check in CLIENTS[name]():
            try:
                check()
                passed += 1
            except Exception:
                failed.append(f"{what}: {traceback.format_exc().strip().splitlines()[-1]}")
        failures += len(failed)
        print(f"{name:<20} passed {passed}, failed {len(failed)}", flush=True)
        for line in failed:
            print(f"    {line[:300]}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
