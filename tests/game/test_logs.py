"""Instances from logs: each agent's own law, or clusters found in the data."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import clustered_bandit_gym as cbg

MEANS = np.array([[0.8, 0.2, 0.4], [0.1, 0.7, 0.4]])
CLUSTERS = np.array([0, 1, 1, 0, 1, 0])


def logs(rows_per_pair: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    agents, arms, _ = np.meshgrid(np.arange(6), np.arange(3), np.arange(rows_per_pair))
    agent, arm = agents.ravel(), arms.ravel()
    reward = (rng.random(agent.size) < MEANS[CLUSTERS[agent], arm]).astype(int)
    return pd.DataFrame({"user": [f"u{i}" for i in agent], "arm": arm, "reward": reward})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    logs(200).to_csv(tmp_path / "users.csv", index=False)
    return tmp_path / "users.csv"


def test_each_agents_empirical_law_is_the_truth(path: Path) -> None:
    frame = logs(200)
    averages = frame.groupby(["user", "arm"]).reward.mean().unstack().to_numpy()
    for source in (path, frame, str(path)):
        instance = cbg.Instance.from_logs(source)
        assert np.allclose(instance.means, averages)
        assert instance.clusters.tolist() == list(range(6))
        assert isinstance(instance.rewards, cbg.Bernoulli)
        assert instance.cluster_names == ("u0", "u1", "u2", "u3", "u4", "u5")
    assert instance.fit is not None
    # 100 Bernoulli rewards a pair in each half: two averages, each with standard error 0.044 at most.
    assert 0.03 < instance.fit.noise < 0.05
    assert instance.fit.noise < instance.fit.error < 2 * instance.fit.noise


def test_clusters_are_found_and_pooled(path: Path) -> None:
    instance = cbg.Instance.from_logs(path, clusters=2)
    assert instance.n_clusters == 2
    same = instance.clusters[:, None] == instance.clusters
    assert (same == (CLUSTERS[:, None] == CLUSTERS)).all()
    # 600 rewards a pair: six standard errors of 0.0204, beyond which lie 2e-9 of the draws.
    assert np.abs(instance.means[instance.clusters] - MEANS[CLUSTERS]).max() < 6 * 0.0204
    alone = cbg.Instance.from_logs(path)
    assert instance.fit is not None
    assert alone.fit is not None
    assert instance.fit.error < alone.fit.error, "pooling predicts the held-out half better"


def test_too_few_rows_say_nothing_about_the_fit() -> None:
    assert cbg.Instance.from_logs(logs(1)).fit is None
    # One half of these rows shows two different agents, not three.
    rewards = {"a": (0, 0), "b": (0, 1), "c": (1, 1)}
    rows = [(agent, "x", reward) for agent, two in rewards.items() for reward in two]
    few = pd.DataFrame(rows, columns=["agent", "arm", "reward"])
    assert cbg.Instance.from_logs(few).fit is not None
    assert cbg.Instance.from_logs(few, clusters=3).fit is None


def test_an_environment_recognises_logs(path: Path) -> None:
    env: Any = gym.make("ClusteredBAI-v0", instance=str(path), disable_env_checker=True)
    assert (env.unwrapped.n_agents, env.unwrapped.n_arms) == (6, 3)
    env = gym.make("ClusteredBAI-v0", instance=str(path), n_clusters=2, disable_env_checker=True)
    assert env.unwrapped.draw_instance(0).n_clusters == 2
    with pytest.raises(ValueError, match="an instance with 6 agents is given"):
        gym.make("ClusteredBAI-v0", instance=str(path), eta=0.2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "user,reward\na,1\n",
            "expected the columns user, arm and reward, got user, reward;.* agents",
        ),
        ("agent,arm,reward\na,x,1\na,y,0\nb,x,1\n", "no reward of arm 'y' in 'b'"),
        ("agent,arm,reward\na,x,much\n", "expected finite numbers, got 'much' in line 2"),
        ("agent,arm,reward\n", "no rows"),
    ],
)
def test_bad_logs(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=says):
        cbg.Instance.from_logs(file)


def test_bad_numbers_of_clusters(path: Path) -> None:
    with pytest.raises(ValueError, match="from 1 to 6"):
        cbg.Instance.from_logs(path, clusters=7)
    with pytest.raises(ValueError, match="expected the columns"):
        cbg.Instance.from_logs([1, 2])


def test_a_file_without_clusters_says_so(path: Path, tmp_path: Path) -> None:
    headers = (
        "agent,arm,reward",
        "cluster,arm,clicks",
        "cluster,variant,reward",
        "user,arm,clicked",
    )
    for header in headers:
        path.write_text(f"{header}\n0,1,0\n")
        with pytest.raises(ValueError, match=rf"columns cluster, .*{header.replace(',', ', ')};"):
            cbg.Instance.from_csv(path)
    shared = tmp_path / "shared.csv"
    shared.write_text("1,0\n0.9,0\n")
    with pytest.raises(ValueError, match="allow_overlap"):
        cbg.Instance.from_csv(shared)
    assert cbg.Instance.from_csv(shared, allow_overlap=True).eta == 0


def test_a_short_file_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.npz"
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("means.npy", b"")
    content = file.read_bytes()
    size = content.index(b"PK\x01\x02") + 24  # unpacked size of the first entry
    file.write_bytes(content[:size] + (600 * 2**20).to_bytes(4, "little") + content[size + 4 :])
    with pytest.raises(ValueError, match="unpacks to 600 MB"):
        cbg.Instance.load(file)


@pytest.mark.parametrize("model", [cbg.Gaussian(0.5), cbg.Bernoulli()])
def test_reward_models_are_accepted_for_their_names(model: Any) -> None:
    for generator in (
        cbg.generators.RandomFamily(rewards=model),
        cbg.generators.FixedMeans(means=MEANS, rewards=model),
    ):
        assert generator(np.random.default_rng(0)).rewards == model
        assert isinstance(generator.rewards, str)
