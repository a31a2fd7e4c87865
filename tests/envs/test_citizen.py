"""What every registered environment owes Gymnasium, id by id."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from scripted import check_clustered_env, same_data, scripted_play

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs_registry import CATALOGUE, register

DISCRETE = "ClusteredBAI-Discrete-v0"
IDS = [DISCRETE, *(name for name, entry in CATALOGUE.items() if not entry.needs_data)]
every_id = pytest.mark.parametrize("name", IDS)

#: Estimates of unbounded rewards are unbounded.
ALLOWED = [
    r"A Box observation space minimum value is -infinity\. This is probably too low\.",
    r"A Box observation space maximum value is infinity\. This is probably too high\.",
]


def some_pull(env: gym.Env[Any, Any]) -> Any:
    return 0 if isinstance(env.action_space, gym.spaces.Discrete) else (cbg.PULL, (0, 0))


@every_id
def test_check_env(name: str) -> None:
    env = gym.make(name, disable_env_checker=True, render_mode="rgb_array")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env.unwrapped, skip_render_check=True)
    for message in (str(one.message) for one in caught):
        assert any(re.search(pattern, message) for pattern in ALLOWED), message
    assert len(caught) >= 2, "the list of allowed warnings is out of date"


@every_id
def test_passive_checker_is_silent(name: str) -> None:
    """The checker that `gym.make` adds looks at the first calls of a play."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore", message=".*Box observation space m.* value is -?infinity.*"
        )
        scripted_play(gym.make(name), seed=1)


@every_id
def test_contract(name: str) -> None:
    """Determinism over a scripted play on two objects, pickling in an episode, refusals that change nothing."""
    check_clustered_env(gym.make(name), seed=3)


@every_id
def test_two_environments_agree(name: str) -> None:
    one, other = scripted_play(gym.make(name), seed=5), scripted_play(gym.make(name), seed=5)
    assert len(one) == 27
    assert same_data(one, other)
    assert not same_data(one, scripted_play(gym.make(name), seed=6))


@every_id
def test_pickle_mid_episode_with_a_picture(name: str) -> None:
    env = gym.make(name, render_mode="rgb_array")
    env.reset(seed=2)
    env.step(some_pull(env))
    env.render()
    twin = pickle.loads(pickle.dumps(env))
    for _ in range(3):
        assert same_data(env.step(some_pull(env)), twin.step(some_pull(twin)))
    assert np.array_equal(env.render(), twin.render())


@every_id
def test_spec_survives_json(name: str) -> None:
    env = gym.make(name, delta=0.01, max_pulls=40)
    text = env.spec.to_json()
    json.loads(text)
    twin = gym.make(EnvSpec.from_json(text))
    assert twin.unwrapped.delta == 0.01
    assert same_data(scripted_play(env, 4), scripted_play(twin, 4))


@every_id
@pytest.mark.parametrize("mode", ["rgb_array", "human"])
def test_render_modes(name: str, mode: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = gym.make(name, render_mode=mode, max_pulls=3)
        env.reset(seed=0)
        pictures = [env.render()]
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(some_pull(env))
            over = terminated or truncated
            pictures.append(env.render())
        env.close()
        env.close()
    if mode == "rgb_array":
        assert {(picture.shape, picture.dtype.name) for picture in pictures} == {
            ((640, 1120, 3), "uint8")
        }
        assert not np.array_equal(pictures[0], pictures[1])
    else:
        assert pictures == [None] * 4
        assert sum("cannot open a window" in str(one.message) for one in caught) <= 1


@every_id
def test_sync_vectorisation(name: str) -> None:
    envs = gym.make_vec(name, num_envs=2, vectorization_mode="sync", max_pulls=30)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    ends = 0
    for _ in range(40):
        _, _, terminated, truncated, _ = envs.step(envs.action_space.sample())
        ends += int(terminated.sum() + truncated.sum())
    assert ends > 0
    envs.close()


def test_async_vectorisation() -> None:
    """Workers are fresh processes, which import the package through the id alone. One slow start for all ids."""
    makers = [
        lambda name=name: gym.make(f"clustered_bandit_gym:{name}")
        for name in ("ClusteredBAI-v0", "ClusteredBAI-PaperSmall-v0")
    ]
    envs = gym.vector.AsyncVectorEnv(makers, context="spawn")
    try:
        obs, _ = envs.reset(seed=7)
        assert obs["pulls"].shape == (2, 9, 10)
        single = gym.make("ClusteredBAI-v0")
        single.reset(seed=7)
        envs.action_space.seed(0)
        for _ in range(5):
            actions = envs.action_space.sample()
            obs, reward, *_ = envs.step(actions)
            own, own_reward, end, _, _ = single.step(actions[0])
            assert same_data({key: obs[key][0] for key in obs}, own)
            assert reward[0] == own_reward
            if end:
                break
    finally:
        envs.close()


@every_id
def test_async_vectorisation_of_every_id(name: str) -> None:
    """Forked workers: quick enough to do it for all."""
    envs = gym.make_vec(
        name, num_envs=2, vectorization_mode="async", vector_kwargs={"context": "fork"}
    )
    try:
        envs.reset(seed=1)
        envs.action_space.seed(1)
        for _ in range(3):
            _, rewards, terminated, truncated, _ = envs.step(envs.action_space.sample())
            assert rewards.shape == terminated.shape == truncated.shape == (2,)
            assert (rewards <= 0).all()
    finally:
        envs.close()


@every_id
def test_truncation_at_max_pulls(name: str) -> None:
    kwargs = {"truncation": "free"} if name == DISCRETE else {}
    env = gym.make(name, max_pulls=4, **kwargs)
    env.reset(seed=0)
    for number in range(1, 5):
        obs, reward, terminated, truncated, info = env.step(some_pull(env))
        assert (terminated, truncated) == (False, number == 4)
        assert reward == -env.unwrapped.pull_cost
    assert obs["pulls"].sum() == info["pulls"] == info["pulls_per_agent"][0] == 4
    assert info["stopped"] is info["correct"] is False
    assert info["wrong_agents"] == 0
    assert not info["agent_correct"].any()
    assert info["best_arms"].min() >= 0
    with pytest.raises(ResetNeeded, match="after the end"):
        env.step(some_pull(env))


@every_id
def test_step_before_reset(name: str) -> None:
    env = gym.make(name)
    with pytest.raises(ResetNeeded):
        env.step(some_pull(env))
    with pytest.raises(ResetNeeded):
        env.unwrapped.step((cbg.PULL, (0, 0)))
    with pytest.raises(ResetNeeded):
        _ = env.unwrapped.federation
    with pytest.raises(ResetNeeded):
        gym.make(name, render_mode="rgb_array").unwrapped.render()


def test_register_is_idempotent() -> None:
    before = {name: gym.spec(name) for name in CATALOGUE}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register()
    assert all(gym.spec(name) is spec for name, spec in before.items())
    assert all(isinstance(spec.entry_point, str) for spec in before.values())
    assert (
        gym.spec(DISCRETE).vector_entry_point
        == "clustered_bandit_gym.envs.vector_env:ClusteredBAIVectorEnv"
    )


def test_fresh_process_knows_the_ids_and_loads_nothing_heavy() -> None:
    code = (
        "import gymnasium as gym, sys; env = gym.make('clustered_bandit_gym:ClusteredBAI-Tiny-v0'); env.reset(seed=0);"
        "print([name for name in ('torch', 'matplotlib', 'pandas', 'pebble') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.needs_data])
def test_data_backed_ids_say_what_they_need(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CLUSTERED_BANDIT_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"https://.*data=.*CLUSTERED_BANDIT_DATA"):
        gym.make(name)
