"""The native vector environment: equal to single environments draw for draw with given seeds, in law without."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import scipy.stats
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv

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


def structure(value: Any) -> Any:
    """Keys, shapes and types of nested infos; of object arrays the structure of each entry."""
    if isinstance(value, dict):
        return {key: structure(one) for key, one in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [structure(one) for one in value]
    return (np.shape(value), np.asarray(value).dtype)


#: What the actions alone determine: all else depends on instances and rewards.
DETERMINED = ("n_agents", "n_arms", "delta", "stopped", "pulls", "pulls_per_agent", "communication")


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("rewards", SETTINGS)
def test_speaks_as_sync_vector_env_does(rewards: str, mode: AutoresetMode) -> None:
    """Spaces, counts, flags, masks and the form of infos over many episodes: stops, truncations, autoresets."""
    settings = {**SETTINGS[rewards], "max_pulls": 60, "c_b": 2.0}
    native = gym.make_vec(ID, num_envs=5, autoreset_mode=mode, **settings)
    sync = gym.make_vec(ID, num_envs=5, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **settings)
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
        for mine, theirs in ((infos, sync_infos), (infos.get("final_info", {}), sync_infos.get("final_info", {}))):
            for key in mine:
                if key.startswith("_"):
                    assert_same(mine[key], theirs[key], f"step {number} {key}")
                elif key in DETERMINED:
                    mask = mine[f"_{key}"]
                    if key == "communication":
                        assert_same(mine[key], theirs[key], f"step {number} {key}")
                    else:
                        assert_same(mine[key][mask], theirs[key][mask], f"step {number} {key}")
        ends += flags[0].sum(), flags[1].sum()
    assert ends[0] > 20
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
        assert_same(mine[0]["pulls"], theirs[0]["pulls"])
        for a, b in zip(mine[2:4], theirs[2:4], strict=True):
            assert_same(a, b)


MODELS = [cbg.Gaussian(0.5), cbg.Bernoulli(), cbg.Gaussian(2.0)]


def mixed(rng: np.random.Generator) -> cbg.Instance:
    """Four laws, one to three clusters, supports of two to five values: no sub-environment keeps its shapes. A
    generator of one's own, without a batch form."""
    kind, m, size = (int(rng.integers(low, high)) for low, high in ((0, 4), (1, 4), (2, 6)))
    clusters = rng.integers(m, size=4)
    if kind == 3:
        law = cbg.Categorical(np.linspace(0, 1, size), rng.dirichlet(np.ones(size), (m, 3)))
        return cbg.Instance(None, clusters, law, allow_overlap=True)
    return cbg.Instance(rng.random((m, 3)), clusters, MODELS[kind], allow_overlap=True)


class Shifted(cbg.Gaussian):
    """A reward model that the vector environment does not know."""

    def single(self, means: Any, clusters: Any, arms: Any, noise: Any) -> Any:
        return super().single(means, clusters, arms, noise) + 10.0


@pytest.mark.parametrize(
    "settings",
    [
        *SETTINGS.values(),
        {"generator": mixed},
        {"instance": cbg.Instance(np.eye(2), [0, 1, 1], Shifted(0.5))},
        {"instance": cbg.Instance(np.ones((1, 2)), [0, 0], allow_ties=True)},
    ],
    ids=[*SETTINGS, "mixed", "unknown model", "ties"],
)
def test_equals_single_environments_with_given_seeds(settings: dict[str, Any]) -> None:
    """Episode after episode with the same instance and play seeds: everything is equal, draw for draw."""
    settings = {**settings, "max_pulls": 50, "c_b": 2.0}
    envs = cbg.ClusteredBAIVectorEnv(num_envs=4, autoreset_mode=AutoresetMode.DISABLED, **settings)
    single = [cbg.DiscreteActions(cbg.ClusteredBAIEnv(**settings)) for _ in range(4)]
    seeds = np.arange(4)
    over = np.ones(4, dtype=bool)
    ends = 0
    for action in scripted(np.random.default_rng(5), 4, int(envs.single_action_space.n), 200):
        if over.any():
            seeds = seeds + 4 * over
            obs, infos = envs.reset(
                options={"reset_mask": over, "instance_seed": seeds.tolist(), "play_seed": (seeds + 1000).tolist()}
            )
            for i in np.flatnonzero(over):
                options = {"instance_seed": int(seeds[i]), "play_seed": int(seeds[i]) + 1000}
                own, told = single[i].reset(options=options)
                assert_same({key: obs[key][i] for key in obs}, own)
                for key, value in told.items():
                    # Gymnasium's own form: None is NaN in an array that holds numbers of other sub-environments.
                    assert infos[key][i] == value or (value is None and np.isnan(infos[key][i]))
                assert envs.instance(i) == single[i].unwrapped.truth  # type: ignore[attr-defined]
        obs, rewards, terminated, truncated, infos = envs.step(action)
        for i, env in enumerate(single):
            own, reward, end, cut, info = env.step(int(action[i]))
            assert (reward, end, cut) == (rewards[i], terminated[i], truncated[i])
            assert_same({key: obs[key][i] for key in obs}, own)
            for key, value in info.items():
                mine = {name: infos[key][name][i] for name in value} if isinstance(value, dict) else infos[key][i]
                np.testing.assert_equal(mine, value, err_msg=key)
        over = terminated | truncated
        ends += int(over.sum())
    assert ends > 15


def test_one_seed_for_the_rest() -> None:
    """`play_seed` alone fixes the rewards' noise, `instance_seed` alone the instance."""
    envs = cbg.ClusteredBAIVectorEnv(num_envs=2, generator="tiny")
    envs.reset(seed=1, options={"instance_seed": 5})
    assert envs.instance(0) == envs.instance(1) == cbg.ClusteredBAIEnv(generator="tiny").draw_instance(5)
    samples = envs.step(np.zeros(2, dtype=int))[4]["sample"]
    assert samples[0] != samples[1]
    envs.reset(seed=1, options={"play_seed": 9})
    noise = envs.step(np.zeros(2, dtype=int))[4]["sample"]
    means = [envs.instance(i).means[envs.instance(i).clusters[0], 0] for i in range(2)]
    assert means[0] != means[1]
    np.testing.assert_allclose(noise[0] - means[0], noise[1] - means[1], rtol=0, atol=1e-12)


def play_through(seed: int | list[int], steps: int = 80) -> list[Any]:
    envs = gym.make_vec(ID, num_envs=3, generator="tiny", max_pulls=30)
    trace = [envs.reset(seed=seed)[0]["means"]]
    for action in scripted(np.random.default_rng(2), 3, 13, steps):
        trace.append(envs.step(action)[0]["means"])
    return trace


def test_the_seed_determines_everything() -> None:
    for seed in (3, [3, 4, 5]):
        np.testing.assert_array_equal(play_through(seed), play_through(seed))
    # Neighbouring seeds share no draw, in any sub-environment: nonzero means of the first steps are all different.
    first, second = np.array(play_through(3)), np.array(play_through(4))
    assert not np.intersect1d(first[first != 0], second[second != 0]).size
    with pytest.raises(ValueError, match="every sub-environment a seed, or none"):
        play_through([1, None, 2])  # type: ignore[list-item]


def test_rewards_and_instances_have_the_law_of_the_single_environment() -> None:
    """Over autoresets. Each test has a fixed seed and fails by chance with probability below 1e-9."""
    envs = cbg.ClusteredBAIVectorEnv(num_envs=500, generator="tiny", max_pulls=2)
    envs.reset(seed=8)
    noise, best, together = [], [], []
    rng = np.random.default_rng(0)
    for _ in range(6):
        action = rng.integers(12, size=500)
        samples = envs.step(action)[4]["sample"]
        truth = [envs.instance(i) for i in range(500)]
        agents, arms = np.divmod(action, 3)
        means = np.array([one.means[one.clusters[a], k] for one, a, k in zip(truth, agents, arms, strict=True)])
        noise.append((samples - means) / 0.4)
        best += [one.means.max(axis=1) for one in truth]
        together += [one.clusters[0] == one.clusters[1] for one in truth]
        envs.step(action)  # the second pull truncates
        envs.step(action)  # and this step resets
    assert scipy.stats.kstest(np.concatenate(noise), "norm").pvalue > 1e-9
    # Best means are U(0.5, 1); two of four agents in two clusters of two are together with probability 1/3.
    assert scipy.stats.kstest(np.concatenate(best), "uniform", (0.5, 0.5)).pvalue > 1e-9
    assert scipy.stats.binomtest(int(np.sum(together)), len(together), 1 / 3).pvalue > 1e-9


def test_ties_are_broken_at_random() -> None:
    """Stops without a pull guess: each arm is as likely. False alarms below 1e-9."""
    envs = cbg.ClusteredBAIVectorEnv(num_envs=2000, instance=cbg.Instance(np.eye(2), [0, 1, 1]))
    envs.reset(seed=0)
    right = envs.step(np.full(2000, 6))[4]["agent_correct"]
    assert scipy.stats.binomtest(int(right.sum()), right.size, 0.5).pvalue > 1e-9


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


def test_what_a_failed_constructor_leaves_can_be_closed() -> None:
    """Gymnasium closes it when it is collected; a second error would hide the first."""
    half = object.__new__(ClusteredBAIVectorEnv)
    half.close()
    assert half.closed
