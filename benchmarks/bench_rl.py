"""Training: the adapter to Stable-Baselines3 against SB3's own, and the environment's share of training."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks import Figure, seconds

N_ENVS = 64
STEPS = 40


def figures() -> Iterator[Figure]:
    from stable_baselines3.common.vec_env import DummyVecEnv

    from clustered_bandit_gym.policies.learned.features import SIZE, Features
    from clustered_bandit_gym.policies.learned.sb3 import SB3VecEnv
    from clustered_bandit_gym.policies.learned.training import make_model

    class Featured(gym.ObservationWrapper[np.ndarray, int, dict[str, np.ndarray]]):
        """What a user without the adapter would write: features in a wrapper of the single environment."""

        def __init__(self, env: gym.Env[Any, Any]) -> None:
            super().__init__(env)
            self.see = Features(2, 0.5, 0.4)
            self.observation_space = gym.spaces.Box(-np.inf, np.inf, (SIZE,), np.float32)

        def observation(self, observation: dict[str, np.ndarray]) -> np.ndarray:
            return self.see(observation["pulls"][None], observation["means"][None]).features[0]

    def single(featured: bool) -> gym.Env[Any, Any]:
        env = gym.make("ClusteredBAI-Tiny-Discrete-v0", disable_env_checker=True)
        return Featured(env) if featured else env

    rng = np.random.default_rng(0)
    pulls = rng.integers(12, size=(STEPS, N_ENVS))
    # A trained player's episode on Tiny takes about forty steps: one action in forty stops.
    stops = np.where(rng.random(pulls.shape) < 1 / 40, 12, pulls)

    def run(env: Any, plan: np.ndarray) -> Any:
        env.seed(1)
        env.reset()

        # With features there are fewer actions; the last one stops in any case.
        last = env.action_space.n - 1
        actions = np.where(plan == 12, last, plan % last)

        def steps() -> None:
            for row in actions:
                env.step(row)

        return steps

    for featured, plan, target in ((False, pulls, 5.0), (False, stops, 10.0), (True, stops, 5.0)):
        mine = SB3VecEnv("ClusteredBAI-Tiny-v0", "auto" if featured else None, n_envs=N_ENVS)
        mine.reset()
        theirs = DummyVecEnv([lambda featured=featured: single(featured)] * N_ENVS)
        fast, slow = seconds(run(mine, plan), run(theirs, plan), repeats=7, clock=process_time)
        what = ("features" if featured else "raw") + (
            ", pulls only" if plan is pulls else ", with ends of episodes"
        )
        yield Figure(
            f"SB3 VecEnv.step, {N_ENVS} envs, {what}: DummyVecEnv / adapter",
            slow / fast,
            target,
            "at least",
        )
        yield Figure(f"the adapter's steps, {what}", STEPS * N_ENVS / fast / 1000, unit="k/s")

    model = make_model("ClusteredBAI-Tiny-v0")
    env = model.get_env()
    model.learn(1)
    rollout = 128 * N_ENVS
    actions = rng.integers(8, size=(128, N_ENVS))
    actions[rng.random(actions.shape) < 1 / 40] = 8

    def play() -> None:
        for row in actions:
            env.step(row)

    def learn() -> None:
        model.learn(1, reset_num_timesteps=False)

    playing, learning = seconds(play, learn, repeats=3, clock=process_time)
    yield Figure(
        "training with the defaults: share of time spent in the environment",
        playing / learning,
        0.5,
        unit="",
    )
    yield Figure("training with the defaults: steps", rollout / learning / 1000, unit="k/s")
