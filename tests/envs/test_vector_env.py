"""The vector environment: Gymnasium's interface, step by step beside `SyncVectorEnv`."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from vector_plays import ID, SETTINGS, assert_same, scripted

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv


def structure(value: Any) -> Any:
    """Keys, shapes and types of nested infos; of object arrays the structure of each entry."""
    if isinstance(value, dict):
        return {key: structure(one) for key, one in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [structure(one) for one in value]
    return (np.shape(value), np.asarray(value).dtype)


#: What the actions alone determine: all else depends on instances and rewards.
DETERMINED = ("n_agents", "n_arms", "delta", "stopped", "pulls", "pulls_per_agent", "communication")


@pytest.mark.parametrize(
    ("rewards", "mode"),
    [
        ("gaussian", AutoresetMode.NEXT_STEP),
        ("bernoulli", AutoresetMode.SAME_STEP),
        ("noiseless", AutoresetMode.SAME_STEP),
    ],
)
def test_speaks_as_sync_vector_env_does(rewards: str, mode: AutoresetMode) -> None:
    """Spaces, counts, flags, masks and the form of infos over many episodes: stops, truncations, autoresets."""
    free = mode is AutoresetMode.NEXT_STEP
    truncation = "free" if free else "answer"
    settings = {**SETTINGS[rewards], "max_pulls": 60, "truncation": truncation, "c_b": 2.0}
    native = gym.make_vec(ID, num_envs=5, autoreset_mode=mode, **settings)
    sync = gym.make_vec(
        ID,
        num_envs=5,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        **settings,
    )
    assert native.metadata["autoreset_mode"] is mode
    assert native.single_action_space == sync.single_action_space
    assert native.action_space == sync.action_space
    assert native.observation_space == sync.observation_space
    actions = scripted(np.random.default_rng(1), 5, native.single_action_space.n, 250)
    actions[:150, 0] %= native.single_action_space.n - 1  # the first one runs into max_pulls
    (first, told), (other, sync_told) = native.reset(seed=40), sync.reset(seed=40)
    assert_same(first, other)
    assert structure(told) == structure(sync_told)
    ends = np.zeros(2, dtype=int)
    for number, action in enumerate(actions):
        (obs, reward, *flags, infos), (sync_obs, sync_reward, *sync_flags, sync_infos) = (
            native.step(action),
            sync.step(action),
        )
        assert_same(flags[0], sync_flags[0], f"step {number} terminated")
        assert_same(flags[1], sync_flags[1], f"step {number} truncated")
        assert_same(obs["pulls"], sync_obs["pulls"], f"step {number} pulls")
        assert structure(obs) == structure(sync_obs)
        assert structure(reward) == structure(sync_reward)
        np.testing.assert_array_equal(reward[~flags[0]], sync_reward[~flags[0]])
        assert structure(infos) == structure(sync_infos), f"step {number}"
        for mine, theirs in (
            (infos, sync_infos),
            (infos.get("final_info", {}), sync_infos.get("final_info", {})),
        ):
            for key in mine:
                if key.startswith("_"):
                    assert_same(mine[key], theirs[key], f"step {number} {key}")
                elif key in DETERMINED:
                    mask = mine[f"_{key}"]
                    parts = mine[key] if isinstance(mine[key], dict) else {key: mine[key]}
                    others = theirs[key] if isinstance(mine[key], dict) else theirs
                    for name, part in parts.items():
                        assert_same(part[mask], others[name][mask], f"step {number} {name}")
        ends += flags[0].sum(), flags[1].sum()
    assert ends[0] > 20
    assert ends[1] >= 2 if free else ends[1] == 0


def test_max_episode_steps_is_max_pulls() -> None:
    envs = gym.make_vec(ID, num_envs=2, max_episode_steps=3)
    envs.reset(seed=0)
    ends = [envs.step(np.zeros(2, dtype=int))[2].tolist() for _ in range(3)]
    assert ends == [[False, False], [False, False], [True, True]]
    spec = gym.make(ID, max_pulls=5).spec
    assert spec is not None
    assert gym.make_vec(spec, num_envs=2).unwrapped.game.limit == 5  # type: ignore[attr-defined]


def test_action_masks() -> None:
    envs = gym.make_vec(ID, num_envs=3, n_agents=2)
    single = gym.make(ID, n_agents=2)
    envs.reset(seed=0)
    single.reset(seed=0)
    for action in ([0, 0, 3], [1, 11, 15], [12, 1, 2]):
        envs.step(np.array(action))
        single.step(action[0])
        assert envs.action_masks().shape == (3, 21)
        np.testing.assert_array_equal(
            envs.action_masks()[0], single.get_wrapper_attr("action_masks")()
        )
    assert envs.action_masks()[:, -1].tolist() == [True, True, True]
    assert envs.action_masks()[:, :-1].all()
    envs.reset()
    assert envs.action_masks()[:, -1].tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 91], "from 0 to 90"),
        ([-1, 0], "from 0 to 90"),
        ([0.0, 1.0], "float64"),
        ([0], "shape"),
        ([[0, 1]], "shape"),
        ([True, False], "bool"),
        ([np.nan, 0], "float64"),
        (None, "object"),
    ],
)
def test_bad_actions_change_nothing(actions: Any, message: str) -> None:
    envs = gym.make_vec(ID, num_envs=2)
    envs.reset(seed=0)
    envs.step(np.array([3, 4]))
    before = pickle.dumps(envs)
    with pytest.raises(ValueError, match=message):
        envs.step(actions)
    assert pickle.dumps(envs) == before


def test_step_before_reset() -> None:
    envs = gym.make_vec(ID, num_envs=3)
    with pytest.raises(ResetNeeded, match="before"):
        envs.step(np.zeros(3, dtype=int))
    with pytest.raises(ResetNeeded, match="no play yet"):
        envs.unwrapped.instance(0)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="takes no reset options"):
        envs.reset(options={"instance_seed": 3})


def test_a_reset_leaves_what_was_returned_before() -> None:
    envs = gym.make_vec(ID, num_envs=2)
    envs.reset(seed=0)
    terminated = envs.step(np.full(2, envs.single_action_space.n - 1))[2]
    envs.reset()
    assert terminated.all()


def test_recommendations_of_the_learners_own() -> None:
    """They hold for the stops of one step; bad ones are refused and change nothing."""
    envs = cbg.ClusteredBAIVectorEnv(
        num_envs=2, instance=cbg.Instance(np.eye(2), [0, 1, 1]), error_penalty=2.0
    )
    envs.reset(seed=0)
    for arms, message in (
        ([[0, 1, 1]], "shape"),
        (np.zeros((2, 3)), "float64"),
        ([[0, 1, 2]] * 2, "from 0 to 1"),
    ):
        envs.recommendations = np.asarray(arms)
        with pytest.raises(ValueError, match=message):
            envs.step(np.array([6, 6]))
    envs.recommendations = np.array([[0, 1, 1], [1, 0, 1]])
    _, rewards, terminated, _, infos = envs.step(np.array([6, 6]))
    assert terminated.all()
    assert rewards.tolist() == [0.0, -4.0]
    assert infos["wrong_agents"].tolist() == [0, 2]
    assert envs.recommendations is None


def test_pickle_mid_episode() -> None:
    envs = gym.make_vec(ID, num_envs=4, generator="tiny", max_pulls=20)
    envs.reset(seed=0)
    actions = scripted(np.random.default_rng(2), 4, 13, 60)
    for action in actions[:15]:
        envs.step(action)
    twin = pickle.loads(pickle.dumps(envs))
    for action in actions[15:]:
        for a, b in zip(envs.step(action), twin.step(action), strict=True):
            assert_same(a, b)


def test_bad_settings() -> None:
    for settings, message in [
        ({"num_envs": 0}, "num_envs"),
        ({"render_mode": "human"}, "render_mode must be one of"),
        ({"autoreset_mode": AutoresetMode.DISABLED}, "vectorization_mode='sync'"),
        ({"generator": lambda rng: cbg.Instance([[1.0, 0.0]], [0])}, "generators without batches"),
        ({"max_pulls": 0}, "max_pulls"),
    ]:
        with pytest.raises(ValueError, match=message):
            cbg.ClusteredBAIVectorEnv(**settings)  # type: ignore[arg-type]


def test_what_a_failed_constructor_leaves_can_be_closed() -> None:
    """Gymnasium closes it when it is collected; a second error would hide the first."""
    half = object.__new__(ClusteredBAIVectorEnv)
    half.close()
    assert half.closed
