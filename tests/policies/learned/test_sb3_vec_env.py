"""`SB3VecEnv` as a `VecEnv` of one's own scripts, and the flat ids in SB3's own vector environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg

pytest.importorskip("stable_baselines3")
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecMonitor

TINY = "ClusteredBAI-Tiny-v0"


def test_made_from_an_id() -> None:
    env = cbg.SB3VecEnv(TINY, n_envs=3, max_pulls=9)
    assert (env.num_envs, int(env.action_space.n)) == (3, 13)  # type: ignore[attr-defined]
    assert cbg.SB3VecEnv("ClusteredBAI-Tiny-Discrete-v0", n_envs=2).action_space == env.action_space
    with pytest.raises(ValueError, match="draws no pictures"):
        cbg.SB3VecEnv("ClusteredBAI-Tiny-Box-v0", n_envs=2, render_mode="rgb_array")
    for name in ("CartPole-v1", "Tiny"):
        with pytest.raises(ValueError, match="not an environment of this package"):
            cbg.SB3VecEnv(name)
    assert cbg.SB3VecEnv(f"clustered_bandit_gym:{TINY}", n_envs=2).num_envs == 2


@pytest.mark.parametrize("kind", ["Box", "Discrete"])
def test_features_are_those_of_the_plain_id(kind: str) -> None:
    plain = cbg.SB3VecEnv(TINY, "auto", n_envs=3)
    flat = cbg.SB3VecEnv(f"ClusteredBAI-Tiny-{kind}-v0", "auto", n_envs=3)
    plain.seed(4)
    flat.seed(4)
    assert np.array_equal(plain.reset(), flat.reset())
    actions = np.array([0, 3, 8])
    assert np.array_equal(plain.step(actions)[0], flat.step(actions)[0])


def test_box_ids_and_attributes() -> None:
    env = cbg.SB3VecEnv("ClusteredBAI-Tiny-Box-v0", n_envs=3, pull_cost=0.25)
    assert env.observation_space.shape == (49,)
    assert env.reset().shape == (3, 49)
    assert env.get_attr("pull_cost") == [0.25] * 3
    assert env.get_attr("n_agents", 1) == [4]
    assert [one["n_agents"] for one in env.reset_infos] == [4] * 3
    _, _, _, infos = env.step(np.array([0, 1, 12]))
    assert infos[0].keys() == {"sample"}
    assert all(isinstance(info["sample"], float) for info in infos)
    assert infos[2]["stopped"]
    assert infos[2]["terminal_observation"].shape == (49,)
    obs, _, dones, _ = env.step(np.array([0, 1, 2]))
    assert obs.shape == (3, 49)
    assert not dones.any()


def test_infos_tell_samples_and_outcomes() -> None:
    """Samples at every step, the outcome at the end, also where all episodes end at once."""
    env = cbg.SB3VecEnv(TINY, n_envs=3, max_pulls=2, told={"eta": "truth"})
    env.seed(0)
    env.reset()
    instances = [env.envs.instance(i) for i in range(3)]
    obs, _, _, infos = env.step(np.array([0, 4, 8]))
    samples = [float(obs["means"][i].reshape(-1)[4 * i]) for i in range(3)]
    assert [info["sample"] for info in infos] == samples
    _, _, dones, infos = env.step(np.array([0, 12, 8]))
    assert dones.all()
    assert [info["stopped"] for info in infos] == [False, True, False]
    for info, instance in zip(infos, instances, strict=True):
        assert info["best_arms"].tolist() == instance.agent_best_arms.tolist()
        assert info["agent_correct"].sum() == 4 - info["wrong_agents"]
        assert info["communication"]["reals_up"] == info["pulls"]
    last = infos[0]["terminal_observation"]["means"][0, 0]
    assert infos[0]["sample"] == pytest.approx(2 * last - samples[0])
    assert infos[1]["sample"] == 0
    for i, told in enumerate(env.reset_infos):
        assert told["eta"] == pytest.approx(env.envs.instance(i).eta)  # of the next episode
        assert env.envs.instance(i) != instances[i]


def test_features_with_coarser_actions() -> None:
    """Action i * 8 + r orders pull_sizes[i] pulls of the cell of rank r, the last one stops."""
    env = cbg.SB3VecEnv(TINY, "auto", n_envs=3, pull_sizes=(1, 4), max_pulls=100)
    assert int(env.action_space.n) == 17  # type: ignore[attr-defined]
    env.seed(0)
    env.reset()
    assert env._seen is not None
    ranked = env._seen.cells[:, 2]
    _, rewards, _, infos = env.step(np.array([2, 8 + 2, 16]))
    pulls = env.envs.observe()["pulls"].reshape(3, -1)
    assert pulls.sum(axis=1).tolist() == [1, 4, 0]
    assert (pulls[0, ranked[0]], pulls[1, ranked[1]]) == (1, 4)
    assert rewards[1] == pytest.approx(4 * rewards[0])
    assert infos[2]["stopped"]
    assert env.action_masks().shape == (3, 17)


def test_masks_of_a_game_with_fewer_cells_than_features_show() -> None:
    env = cbg.SB3VecEnv(TINY, "auto", n_envs=2, n_agents=2, n_arms=2)
    env.reset()
    assert env.action_masks().tolist() == [[True] * 8 + [False]] * 2


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="features must be one of None, 'auto'; got 'atuo'"):
        cbg.SB3VecEnv(TINY, "atuo")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"'n_env' \(did you mean 'n_envs'"):
        cbg.SB3VecEnv(TINY, n_env=2)
    env = cbg.SB3VecEnv(TINY, "auto", n_envs=2)
    env.reset()
    with pytest.raises(ValueError, match="action 9 is out of range: actions run from 0 to 8"):
        env.step(np.array([0, 9]))
    with pytest.raises(ValueError, match=r"expected integers of shape \(2,\)"):
        env.step(np.array([0]))


def test_options_are_refused() -> None:
    env = cbg.SB3VecEnv(TINY, n_envs=2)
    env.set_options({"instance_seed": 5})
    with pytest.raises(ValueError, match="takes no reset options"):
        env.reset()


@pytest.mark.filterwarnings("error:The environment is already wrapped")
def test_monitor_shows_pulls_wrong_agents_and_cost(tmp_path: Path) -> None:
    env = VecMonitor(
        cbg.SB3VecEnv(TINY, n_envs=4, max_pulls=20),
        str(tmp_path / "run"),
        info_keywords=("pulls", "wrong_agents", "cost"),
    )
    model = PPO(
        "MultiInputPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu", seed=0
    )
    model.learn(512)
    rows = np.genfromtxt(tmp_path / "run.monitor.csv", delimiter=",", skip_header=1, names=True)
    assert len(rows) > 10
    assert (rows["pulls"] <= 20).all()
    # Two bits down and a real up for each pull.
    np.testing.assert_allclose(rows["cost"], rows["pulls"] * 34)


def test_calls_to_single_environments_are_refused() -> None:
    env = cbg.SB3VecEnv(TINY, n_envs=2)
    with pytest.raises(ValueError, match="cannot set pull_cost"):
        env.set_attr("pull_cost", 1.0)
    with pytest.raises(ValueError, match="cannot call reset"):
        env.env_method("reset")


def test_ids_in_worker_processes() -> None:
    env: Any = make_vec_env(
        "clustered_bandit_gym:ClusteredBAI-Tiny-Discrete-v0",
        n_envs=2,
        seed=0,
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": "fork"},
        env_kwargs={"max_pulls": 5},
    )
    try:
        env.reset()
        for _ in range(5):
            _, _, done, infos = env.step(np.array([0, 1]))
        assert done.all()
        assert [info["pulls"] for info in infos] == [5, 5]
    finally:
        env.close()
