"""Models of one's own scripts on the board: the tensors alone play what SB3 would play."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.flat_env import box_features
from clustered_bandit_gym.policies import make

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from clustered_bandit_gym.policies.learned.player import LearnedPolicy, SB3Policy
from clustered_bandit_gym.policies.learned.training import make_model

TINY = "ClusteredBAI-Tiny-v0"
TOLD = {"n_agents": 4, "n_arms": 3, "n_clusters": 2, "eta": 0.5, "sigma": 0.4}


class Halves(BaseFeaturesExtractor):
    """An extractor with weights of its own."""

    def __init__(self, space: Any) -> None:
        super().__init__(space, features_dim=8)
        self.layer = torch.nn.Linear(49, 8)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layer(obs)


def box() -> gym.Env[Any, Any]:
    return gym.make("ClusteredBAI-Tiny-Box-v0")


SMALL: dict[str, Any] = {"device": "cpu", "seed": 0}


def ppo(**kwargs: Any) -> PPO:
    return PPO("MlpPolicy", box(), policy_kwargs=kwargs, **SMALL)


MODELS: dict[str, Any] = {
    "ppo": ppo,
    "ppo-narrow": lambda: ppo(net_arch=[7, 5]),
    "ppo-linear": lambda: ppo(net_arch=[]),
    "a2c": lambda: A2C("MlpPolicy", box(), **SMALL),
    "dqn": lambda: DQN(
        "MlpPolicy", box(), policy_kwargs={"net_arch": [9]}, buffer_size=10, **SMALL
    ),
}


def agreement(model: Any, policy: SB3Policy, max_pulls: int = 300) -> None:
    """The player's action is the model's own at 30 random observations."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        pulls = rng.integers(1, 9, (4, 3))
        obs = {"pulls": pulls, "means": rng.random((4, 3))}
        policy.reset(TOLD, seed=0)
        time = np.array([pulls.sum() / max_pulls])
        seen = box_features(pulls[None], obs["means"][None], 0.4, time)[0]
        expected = int(model.predict(seen, deterministic=True)[0])
        kind, choice = policy.act(obs, {})
        assert (12 if kind == cbg.STOP else choice[0] * 3 + choice[1]) == expected


@pytest.mark.parametrize("name", MODELS)
def test_tensors_alone_play_what_sb3_would(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    with torch.no_grad():  # untrained outputs are nearly equal, and would say little
        for parameter in model.policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save(tmp_path / "m.zip")
    agreement(model, SB3Policy(str(tmp_path / "m.zip")))
    agreement(model, SB3Policy(str(tmp_path / "m"), max_pulls=120), 120)
    row = cbg.play(f"sb3:{tmp_path / 'm.zip'}", gym.make(TINY, max_pulls=50), seed=1, bound=False)
    assert row["outcome"] != "error"


def test_a_model_that_never_stops_answers_at_the_limit(tmp_path: Path) -> None:
    model = ppo()
    with torch.no_grad():
        model.policy.action_net.bias[-1] = -100.0
    model.save(tmp_path / "box.zip")
    row = cbg.play(SB3Policy(str(tmp_path / "box.zip")), TINY, seed=1, bound=False)
    assert (row["pulls"], row["outcome"] in ("solved", "wrong")) == (25 * 12, True)


def test_a_limit_of_the_training(tmp_path: Path) -> None:
    model = ppo()
    with torch.no_grad():
        model.policy.action_net.bias[-1] = -100.0
    model.save(tmp_path / "box.zip")
    policy = make(f"sb3:{tmp_path / 'box'},max_pulls=120")
    assert policy.label.endswith("box,max_pulls=120")
    assert cbg.play(policy, TINY, seed=1, bound=False)["pulls"] == 120


@pytest.mark.parametrize("kind", ["Box", "Discrete"])
def test_flat_ids_are_refused(tmp_path: Path, kind: str) -> None:
    ppo().save(tmp_path / "box.zip")
    env = f"ClusteredBAI-Tiny-{kind}-v0"
    row = cbg.play(SB3Policy(str(tmp_path / "box.zip")), env, bound=False)
    assert "leave out -Box, -Discrete" in row["message"]


def test_custom_networks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.zip"
    for custom in ({"features_extractor_class": Halves}, {"activation_fn": torch.nn.ReLU}):
        ppo(**custom).save(path)
        with pytest.raises(ValueError, match=r"StepPolicy around model\.predict"):
            make(f"sb3:{path}")


def test_maskable_models_do_not_stop_early(tmp_path: Path) -> None:
    model = MaskablePPO("MlpPolicy", box(), **SMALL)
    with torch.no_grad():
        model.policy.action_net.bias[-1] = 100.0  # always stop, if the masks allow it
    model.save(tmp_path / "m.zip")
    policy = SB3Policy(str(tmp_path / "m.zip"))
    policy.reset(TOLD, seed=0)
    pulls = np.ones((4, 3), dtype=np.int64)
    assert policy.act({"pulls": pulls, "means": np.zeros((4, 3))}, {})[0] == cbg.STOP
    pulls[2] = 0
    assert policy.act({"pulls": pulls, "means": np.zeros((4, 3))}, {})[0] == cbg.PULL


def test_nothing_is_unpickled_by_default(tmp_path: Path) -> None:
    """A file whose pickles would raise plays all the same."""
    MODELS["ppo"]().save(tmp_path / "m.zip")
    with (
        zipfile.ZipFile(tmp_path / "m.zip") as old,
        zipfile.ZipFile(tmp_path / "bad.zip", "w") as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            if name == "data":
                content = content.replace(b'":serialized:": "', b'":serialized:": "!')
            new.writestr(name, content)
    assert isinstance(make(f"sb3:{tmp_path / 'bad.zip'}"), SB3Policy)


def expanding(model: Path, target: Path, nested: bool) -> None:
    """Copy a model with a tensor file whose entry claims 600 MB, in the archive or in that file."""
    pretended = io.BytesIO()
    with zipfile.ZipFile(pretended, "w") as inner:
        inner.writestr("archive/data.pkl", b"")
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(target, "w") as new:
        new.writestr("data", old.read("data"))
        new.writestr("policy.pth", claiming(pretended.getvalue()) if nested else b"")
    if not nested:
        target.write_bytes(claiming(target.read_bytes()))


def claiming(content: bytes) -> bytes:
    """A zip whose last entry says that it unpacks to 600 MB."""
    size = content.rindex(b"PK\x01\x02") + 24
    return content[:size] + (600 * 2**20).to_bytes(4, "little") + content[size + 4 :]


def test_other_files_and_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no model file"):
        SB3Policy(str(tmp_path / "none.zip"))
    (tmp_path / "x.zip").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a model of Stable-Baselines3"):
        SB3Policy(str(tmp_path / "x.zip"))
    MODELS["ppo"]().save(tmp_path / "m.zip")
    for nested in (False, True):
        expanding(tmp_path / "m.zip", tmp_path / "bomb.zip", nested)
        with pytest.raises(ValueError, match="it unpacks to 600 MB"):
            SB3Policy(str(tmp_path / "bomb.zip"))
    policy = SB3Policy(str(tmp_path / "m.zip"))
    policy.reset(TOLD, seed=0)
    with pytest.raises(ValueError, match="at the size that they were trained at"):
        policy.act({"pulls": np.ones((5, 3), dtype=np.int64), "means": np.zeros((5, 3))}, {})


def featured(folder: Path, stop: float) -> str:
    """A model file of fresh weights on features, with this bias on the stop."""
    model = make_model(TINY, n_envs=2)
    with torch.no_grad():
        model.policy.action_net.bias[-1] = stop
    path = folder / "model.zip"
    model.save(path)
    return str(path)


def test_models_on_features_play_games_of_any_size(tmp_path: Path) -> None:
    policy = make(f"learned:{featured(tmp_path, -100.0)}")
    assert isinstance(policy, LearnedPolicy)
    for settings in ({"n_agents": 2, "n_arms": 2}, {"n_agents": 3, "n_arms": 5}):
        env = gym.make(TINY, **settings)
        row = cbg.play(policy, env, seed=1, bound=False)
        # It never wants to stop, and answers at the limit.
        cells = env.unwrapped.n_agents * env.unwrapped.n_arms  # type: ignore[attr-defined]
        assert row["pulls"] == 25 * cells
        assert row["outcome"] in ("solved", "wrong")
        # ⌈log2 K⌉ bits to name an arm, a real for its reward.
        assert row["reals_up"] == row["pulls"]
    assert cbg.play(policy, TINY, seed=1)["pulls"] == cbg.play(policy, TINY, seed=1)["pulls"]
    eager = SB3Policy(featured(tmp_path, 100.0))
    assert cbg.play(eager, TINY, seed=1)["pulls"] == 0
