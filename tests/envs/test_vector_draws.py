"""Draws of the vector environment: those of single environments with given seeds, of the same law without."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import scipy.stats
from gymnasium.vector import AutoresetMode
from vector_plays import ID, SETTINGS, assert_same, scripted

import clustered_bandit_gym as cbg

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
    single = [cbg.FlatClusteredBAIEnv(**settings) for _ in range(4)]
    seeds = np.arange(4)
    over = np.ones(4, dtype=bool)
    ends = 0
    for action in scripted(np.random.default_rng(5), 4, int(envs.single_action_space.n), 200):
        if over.any():
            seeds = seeds + 4 * over
            obs, infos = envs.reset(
                options={
                    "reset_mask": over,
                    "instance_seed": seeds.tolist(),
                    "play_seed": (seeds + 1000).tolist(),
                }
            )
            for i in np.flatnonzero(over):
                options = {"instance_seed": int(seeds[i]), "play_seed": int(seeds[i]) + 1000}
                own, told = single[i].reset(options=options)
                assert_same({key: obs[key][i] for key in obs}, own)
                for key, value in told.items():
                    np.testing.assert_array_equal(infos[key][i], value)
                assert envs.instance(i) == single[i].truth
        obs, rewards, terminated, truncated, infos = envs.step(action)
        for i, env in enumerate(single):
            own, reward, end, cut, info = env.step(int(action[i]))
            assert (reward, end, cut) == (rewards[i], terminated[i], truncated[i])
            assert_same({key: obs[key][i] for key in obs}, own)
            for key, value in info.items():
                mine = (
                    {name: infos[key][name][i] for name in value}
                    if isinstance(value, dict)
                    else infos[key][i]
                )
                np.testing.assert_equal(mine, value, err_msg=key)
        over = terminated | truncated
        ends += int(over.sum())
    assert ends > 15


def test_one_seed_for_the_rest() -> None:
    """`play_seed` alone fixes the rewards' noise, `instance_seed` alone the instance."""
    envs = cbg.ClusteredBAIVectorEnv(num_envs=2, generator="tiny")
    envs.reset(seed=1, options={"instance_seed": 5})
    assert (
        envs.instance(0)
        == envs.instance(1)
        == cbg.ClusteredBAIEnv(generator="tiny").draw_instance(5)
    )
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
        means = np.array(
            [one.means[one.clusters[a], k] for one, a, k in zip(truth, agents, arms, strict=True)]
        )
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
    with pytest.raises(ValueError, match="each of 2 sub-environments, got 3"):
        envs.reset(seed=[1, 2, 3])
