"""Learning libraries take the flat game as it is."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import clustered_bandit_gym as cbg  # noqa: F401 (registers the environments)

pytest.importorskip("stable_baselines3")
SMALL: dict[str, Any] = {"policy_kwargs": {"net_arch": [8]}, "seed": 0, "device": "cpu"}


@pytest.fixture(autouse=True)
def logs_go_to_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path))


def flat() -> gym.Env[Any, Any]:
    return gym.make("ClusteredBAI-Discrete-v0", generator="tiny", max_pulls=60)


def test_check_env() -> None:
    from stable_baselines3.common.env_checker import check_env

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(gym.make("ClusteredBAI-Discrete-v0"), warn=True)
        check_env(flat(), warn=True)
    # Its one remark: matrices are flattened by the policy, which MultiInputPolicy does.
    messages = [str(one.message) for one in caught]
    assert all(
        re.match(r"Your observation (pulls|means) has an unconventional shape", one)
        for one in messages
    )


def test_ppo() -> None:
    from stable_baselines3 import PPO

    model = PPO("MultiInputPolicy", flat(), n_steps=100, batch_size=50, n_epochs=1, **SMALL).learn(
        500
    )
    assert model.num_timesteps == 500


def test_dqn() -> None:
    from stable_baselines3 import DQN

    model = DQN(
        "MultiInputPolicy", flat(), learning_starts=50, buffer_size=1000, batch_size=16, **SMALL
    ).learn(500)
    assert model.num_timesteps == 500


def test_maskable_ppo() -> None:
    """The masks reach the algorithm through every wrapper: it never stops before each agent has a pull."""
    contrib = pytest.importorskip("sb3_contrib")

    early: list[int] = []

    class Watch(gym.Wrapper):
        def step(self, action: Any) -> Any:
            if int(action) == self.action_space.n - 1:  # type: ignore[attr-defined]
                early.append(int((self.unwrapped._pulls.sum(axis=1) == 0).sum()))  # type: ignore[attr-defined]
            return self.env.step(action)

        def action_masks(self) -> Any:
            return self.env.get_wrapper_attr("action_masks")()

    model = contrib.MaskablePPO(
        "MultiInputPolicy", Watch(flat()), n_steps=100, batch_size=50, n_epochs=1, **SMALL
    )
    assert model.learn(500).num_timesteps == 500
    assert len(early) > 5
    assert not any(early)
