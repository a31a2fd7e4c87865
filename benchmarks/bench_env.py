"""Steps per second: the environment against CartPole, the vector environment against SyncVectorEnv, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np

import clustered_bandit_gym as cbg
from benchmarks import Figure, ratio, seconds

STEPS = 5_000
ENVS = 256


def figures() -> Iterator[Figure]:
    rng = np.random.default_rng(0)
    pulls = list(
        zip(
            rng.integers(9, size=STEPS).tolist(), rng.integers(10, size=STEPS).tolist(), strict=True
        )
    )
    ours = _single(gym.make("ClusteredBAI-v0"), [(cbg.PULL, pull) for pull in pulls])
    numpy_ours = _single(
        gym.make("ClusteredBAI-v0"), [(np.int64(cbg.PULL), np.array(pull)) for pull in pulls]
    )
    flat = _single(gym.make("ClusteredBAI-Discrete-v0"), [agent * 10 + arm for agent, arm in pulls])
    cartpole = _single(gym.make("CartPole-v1"), rng.integers(2, size=STEPS).tolist())
    mine, arrays, discrete, theirs = seconds(
        ours, numpy_ours, flat, cartpole, repeats=9, clock=process_time
    )
    yield Figure(
        "steps/s of ClusteredBAI-v0 over CartPole-v1, gym.make's wrappers on",
        theirs / mine,
        1.0,
        "at least",
    )
    yield Figure("the same with NumPy integers for actions", theirs / arrays, 1.0, "at least")
    yield Figure(
        "steps/s of ClusteredBAI-Discrete-v0 over CartPole-v1", theirs / discrete, 1.0, "at least"
    )

    tiny = _single(gym.make("ClusteredBAI-Tiny-Discrete-v0"), rng.integers(13, size=STEPS).tolist())
    mine, theirs = seconds(tiny, cartpole, repeats=9, clock=process_time)
    yield Figure(
        "steps/s of ClusteredBAI-Tiny-Discrete-v0 over CartPole-v1, one action in 13 a stop",
        theirs / mine,
        1.0,
        "at least",
    )

    speed_up = _vector_speed_up(rng.integers(90, size=(125, ENVS)))
    yield Figure(
        f"steps/s of the vector env over SyncVectorEnv at {ENVS}, pulls alone",
        speed_up,
        15.0,
        "at least",
    )
    speed_up = _vector_speed_up(rng.integers(91, size=(125, ENVS)))
    yield Figure(
        "the same with one action in 91 a stop: episodes of about 90 steps",
        speed_up,
        25.0,
        "at least",
    )

    for name, size in (("ClusteredBAI-v0", "9 x 10"), ("ClusteredBAI-PaperRandom-v0", "200 x 100")):
        env = gym.make(name, render_mode="rgb_array")
        env.reset(seed=0)
        for agent in range(9):
            env.step((cbg.PULL, (agent, agent)))
        env.render()
        yield Figure(
            f"frames/s, {size} agents and arms",
            1 / seconds(env.render, repeats=9, clock=process_time)[0],
            150.0,
            "at least",
            "/s",
        )


def _single(env: gym.Env[Any, Any], actions: list[Any]) -> Callable[[], None]:
    env.reset(seed=0)

    def run() -> None:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return run


def _vector_speed_up(actions: np.ndarray) -> float:
    """Time of SyncVectorEnv over that of the vector env for these actions."""
    native = gym.make_vec("ClusteredBAI-Discrete-v0", num_envs=ENVS)
    sync = gym.make_vec("ClusteredBAI-Discrete-v0", num_envs=ENVS, vectorization_mode="sync")

    def run(envs: gym.vector.VectorEnv) -> Callable[[], None]:
        envs.reset(seed=0)

        def steps() -> None:
            for action in actions:
                envs.step(action)

        return steps

    return ratio(run(sync), run(native), repeats=3, clock=process_time)
