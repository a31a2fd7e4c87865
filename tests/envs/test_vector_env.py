"""The native vector environment plays, draw for draw, what single environments play."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

import clustered_bandit_gym as cbg

ID = "ClusteredBAI-Discrete-v0"
SETTINGS: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "bernoulli": {"generator": "random", "rewards": "bernoulli", "n_agents": 3},
    "categorical": {"generator": "random", "rewards": "categorical", "n_agents": 3},
    "noiseless": {"generator": "tiny", "generator_kwargs": {"sigma": 0.0}},
}


def assert_same(one: Any, other: Any, where: str = "") -> None:
    """Exact equality of nested dictionaries of arrays."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), f"{where}: {sorted(one)} and {sorted(other)}"
        for key in one:
            assert_same(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, np.ndarray) and one.dtype == object:
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    else:
        np.testing.assert_array_equal(one, other, err_msg=where)
        assert np.asarray(one).dtype == np.asarray(other).dtype, where


def scripted(rng: np.random.Generator, num_envs: int, n_actions: int, steps: int) -> np.ndarray:
    """(steps, num_envs) flat actions, mostly pulls: one in twenty is a stop."""
    actions = rng.integers(n_actions - 1, size=(steps, num_envs))
    actions[rng.random((steps, num_envs)) < 0.05] = n_actions - 1
    return actions


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("rewards", SETTINGS)
def test_equals_sync_vector_env(rewards: str, mode: AutoresetMode) -> None:
    """Observations, rewards, flags and infos over many episodes: stops with ties, truncations, autoresets, refills."""
    settings = {**SETTINGS[rewards], "max_pulls": 300, "c_b": 2.0}
    native = gym.make_vec(ID, num_envs=5, autoreset_mode=mode, **settings)
    sync = gym.make_vec(ID, num_envs=5, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **settings)
    assert native.metadata["autoreset_mode"] is mode
    assert native.single_action_space == sync.single_action_space
    assert native.action_space == sync.action_space
    assert native.observation_space == sync.observation_space
    actions = scripted(np.random.default_rng(1), 5, native.single_action_space.n, 700)
    actions[:620, 0] %= native.single_action_space.n - 1  # the first one runs into max_pulls, past a refill
    first, other = native.reset(seed=40), sync.reset(seed=40)
    assert_same(first[0], other[0])
    assert_same(first[1], other[1], "reset info")
    ends = np.zeros(2, dtype=int)
    for number, action in enumerate(actions):
        mine, theirs = native.step(action), sync.step(action)
        for name, a, b in zip(("obs", "reward", "terminated", "truncated", "info"), mine, theirs, strict=True):
            assert_same(a, b, f"step {number} {name}")
        ends += mine[2].sum(), mine[3].sum()
    assert ends[0] > 50
    assert ends[1] >= 2


def test_time_limit_equals_the_wrapper() -> None:
    native = gym.make_vec(ID, num_envs=3, max_episode_steps=7)
    sync = gym.make_vec(ID, num_envs=3, vectorization_mode="sync", max_episode_steps=7)
    native.reset(seed=0)
    sync.reset(seed=0)
    actions = scripted(np.random.default_rng(0), 3, native.single_action_space.n, 60)
    actions[6, 2] = native.single_action_space.n - 1  # a stop at the very step of the limit
    for action in actions:
        mine, theirs = native.step(action), sync.step(action)
        for a, b in zip(mine[:4], theirs[:4], strict=True):
            assert_same(a, b)


def test_equals_single_environments() -> None:
    """Sub-environment i is the single environment seeded with s + i, also when rewards come from mixed models."""
    models = [cbg.Gaussian(0.5), cbg.Bernoulli(), cbg.Gaussian(2.0)]

    def mixed(rng: np.random.Generator) -> cbg.Instance:
        """Four laws, one to three clusters, supports of two to five values: no sub-environment keeps its shapes."""
        kind, m, size = (int(rng.integers(low, high)) for low, high in ((0, 4), (1, 4), (2, 6)))
        clusters = rng.integers(m, size=4)
        if kind == 3:
            law = cbg.Categorical(np.linspace(0, 1, size), rng.dirichlet(np.ones(size), (m, 3)))
            return cbg.Instance(None, clusters, law, allow_overlap=True)
        return cbg.Instance(rng.random((m, 3)), clusters, models[kind], allow_overlap=True)

    envs = cbg.ClusteredBAIVectorEnv(num_envs=6, generator=mixed)
    single = [cbg.DiscreteActions(cbg.ClusteredBAIEnv(generator=mixed)) for _ in range(6)]
    envs.reset(seed=11)
    for i, env in enumerate(single):
        env.reset(seed=11 + i)
    over = np.zeros(6, dtype=bool)
    for action in scripted(np.random.default_rng(5), 6, 13, 600):
        obs, rewards, terminated, _, infos = envs.step(action)
        for i, env in enumerate(single):
            if over[i]:
                own, reward, end = env.reset()[0], 0.0, False
            else:
                own, reward, end, _, info = env.step(int(action[i]))
                if end:
                    assert_same(info["agent_correct"], infos["agent_correct"][i])
                else:
                    assert info["sample"] == infos["sample"][i]
            over[i] = end
            assert (reward, end) == (rewards[i], terminated[i])
            assert_same({key: obs[key][i] for key in obs}, own)


def test_neighbours_do_not_share_streams() -> None:
    """reset(seed=s) and reset(seed=s + 1) overlap in no sub-environment's rewards but the shifted ones."""
    envs = gym.make_vec(ID, num_envs=8, instance_seed=0)
    draws = {}
    for seed in (0, 1):
        envs.reset(seed=seed)
        draws[seed] = np.array([envs.step(np.zeros(8, dtype=int))[4]["sample"] for _ in range(20)]).T
    np.testing.assert_array_equal(draws[0][1:], draws[1][:-1])
    assert len(np.unique(draws[0])) == draws[0].size


def test_action_masks() -> None:
    envs = gym.make_vec(ID, num_envs=3, n_agents=2)
    single = gym.make(ID, n_agents=2)
    envs.reset(seed=0)
    single.reset(seed=0)
    for action in ([0, 0, 3], [1, 11, 15], [12, 1, 2]):
        envs.step(np.array(action))
        single.step(action[0])
        assert envs.action_masks().shape == (3, 21)
        np.testing.assert_array_equal(envs.action_masks()[0], single.get_wrapper_attr("action_masks")())
    assert envs.action_masks()[:, -1].tolist() == [True, True, True]
    assert envs.action_masks()[:, :-1].all()
    envs.reset()
    assert envs.action_masks()[:, -1].tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 91], "out of range"),
        ([-1, 0], "out of range"),
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


def test_autoreset_disabled_and_reset_mask() -> None:
    envs = gym.make_vec(ID, num_envs=3, autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(ResetNeeded, match="before"):
        envs.step(np.zeros(3, dtype=int))
    envs.reset(seed=0)
    obs = envs.step(np.array([0, 90, 1]))[0]
    with pytest.raises(ResetNeeded, match=r"\[1\]"):
        envs.step(np.zeros(3, dtype=int))
    after, infos = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert infos["_n_agents"].tolist() == [False, True, False]
    assert_same(after["pulls"][[0, 2]], obs["pulls"][[0, 2]])
    assert after["pulls"][1].sum() == 0
    envs.step(np.zeros(3, dtype=int))


def test_reset_options_choose_the_game() -> None:
    """The two seeds give the game that a single environment plays with them."""
    envs = gym.make_vec(ID, num_envs=2, generator="tiny")
    env = gym.make(ID, generator="tiny")
    envs.reset(seed=1, options={"instance_seed": [5, 6], "play_seed": 9})
    env.reset(seed=2, options={"instance_seed": 6, "play_seed": 9})
    for action in range(12):
        samples = envs.step(np.full(2, action))[4]["sample"]
        assert samples[1] == env.step(action)[4]["sample"]
    with pytest.raises(ValueError, match="known: reset_mask"):
        envs.reset(options={"instance": 3})
    with pytest.raises(ValueError, match="3 values for 2"):
        envs.reset(seed=[1, 2, 3])


def test_recommendations_of_the_learners_own() -> None:
    """They hold for the stops of one step; bad ones are refused and change nothing."""
    envs = cbg.ClusteredBAIVectorEnv(num_envs=2, instance=cbg.Instance(np.eye(2), [0, 1, 1]), error_penalty=2.0)
    envs.reset(seed=0)
    for arms, message in (([[0, 1, 1]], "shape"), (np.zeros((2, 3)), "float64"), ([[0, 1, 2]] * 2, "from 0 to 1")):
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
        ({"itemise": True}, "itemise"),
        ({"render_mode": "human"}, "render_mode"),
        ({"max_episode_steps": 0}, "max_episode_steps"),
        ({"max_pulls": 0}, "max_pulls"),
    ]:
        with pytest.raises(ValueError, match=message):
            cbg.ClusteredBAIVectorEnv(**settings)  # type: ignore[arg-type]
