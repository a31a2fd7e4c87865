"""Flat and Box variants of every id: episodes end, silence does not pay, libraries take them as they are."""

from __future__ import annotations

import pickle
import re
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeAwareObservation
from scipy import stats
from scripted import same_data
from vector_plays import assert_same

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.flat_env import box_features
from clustered_bandit_gym.envs_registry import CATALOGUE, flat_id

FREE = [name for name, entry in CATALOGUE.items() if not entry.needs_data]
FLAT = sorted({flat_id(name, kind) for name in FREE for kind in ("Discrete", "Box")})
TINY = "ClusteredBAI-Tiny-Discrete-v0"
INSTANCE = cbg.Instance([[0.9, 0.1, 0.2], [0.1, 0.8, 0.3]], [0, 1, 1, 0])


def play(env: gym.Env[Any, Any], actions: list[int], seed: int | None = None) -> list[Any]:
    """What each step returns; ends with the episode."""
    env.reset(seed=seed)
    seen = []
    for action in actions:
        seen.append(env.step(action))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


def test_every_id_has_flat_and_box_variants() -> None:
    for name in CATALOGUE:
        plain = gym.spec(name)
        assert gym.spec(flat_id(name)).kwargs == plain.kwargs
        assert gym.spec(flat_id(name, "Box")).kwargs == {**plain.kwargs, "observation": "box"}
    assert flat_id("ClusteredBAI-v0") == flat_id("ClusteredBAI-Discrete-v0")
    assert flat_id("ClusteredBAI-Tiny-Discrete-v0", "Box") == "ClusteredBAI-Tiny-Box-v0"


@pytest.mark.parametrize("name", FLAT)
def test_environments_of_their_own(name: str) -> None:
    env = gym.make(name, disable_env_checker=True)
    assert isinstance(env.unwrapped.action_space, gym.spaces.Discrete)
    assert env.spec.max_episode_steps == env.unwrapped.max_pulls  # type: ignore[union-attr]
    if env.action_space.n < 5000:  # type: ignore[attr-defined]
        check_env(env.unwrapped, skip_render_check=True)
    spec = env.spec
    assert spec is not None
    envs = gym.make_vec(spec, num_envs=2)
    native = isinstance(envs.unwrapped, cbg.ClusteredBAIVectorEnv)
    batched = env.unwrapped.batch_rewards is not None  # type: ignore[attr-defined]
    assert native is batched is (envs.spec.vector_entry_point is not None)  # type: ignore[union-attr]
    assert envs.single_action_space == env.action_space
    assert envs.single_observation_space == env.observation_space
    obs, _ = envs.reset(seed=0)
    assert envs.observation_space.contains(obs)
    env.reset(seed=0)
    assert same_data(
        [one["means"].shape if isinstance(one, dict) else one.shape for one in (env.step(0)[0],)],
        [envs.single_observation_space["means"].shape]
        if isinstance(envs.single_observation_space, gym.spaces.Dict)
        else [envs.single_observation_space.shape],
    )


def test_box_spaces_have_finite_bounds_and_a_time() -> None:
    env = gym.make("ClusteredBAI-Tiny-Box-v0")
    assert env.observation_space == gym.spaces.Box(-1, 1, (4 * 3 * 4 + 1,), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)
    obs, _ = env.reset(seed=0)
    assert obs[-1] == 0
    for number in range(1, 40):
        obs, *_ = env.step(number % 12)
        assert env.observation_space.contains(obs)
        assert obs[-1] == pytest.approx(number / 300)


def test_box_ids_begin_on_given_seeds_and_with_limits_of_agents() -> None:
    options = {"instance_seed": 1, "play_seed": 2}
    obs, _ = gym.make("ClusteredBAI-Tiny-Box-v0").reset(options=options)
    limited, _ = gym.make("ClusteredBAI-Tiny-Box-v0", max_pulls_per_agent=9).reset()
    assert obs.shape == limited.shape == (49,)


def test_box_features_know_neither_shift_nor_scale() -> None:
    rng = np.random.default_rng(0)
    pulls = rng.integers(0, 5, (2, 4, 3))
    means = np.where(pulls > 0, rng.random((2, 4, 3)), 0.0)
    time = np.zeros(2)
    here = box_features(pulls, means, 0.5, time)
    there = box_features(pulls, np.where(pulls > 0, 3 + 7 * means, 0.0), 3.5, time)
    np.testing.assert_allclose(here, there, atol=1e-6)
    lead = here[:, :-1].reshape(2, 4, 3, 4)[..., 3]
    # One arm of each agent leads, by as much as its closest rival is behind.
    several = (pulls > 0).sum(axis=2) > 1
    assert ((lead > 0).sum(axis=2)[several] == 1).all()
    assert (lead[~several] == 0).all()


def test_time_aware_observation() -> None:
    env = TimeAwareObservation(
        gym.make("ClusteredBAI-Tiny-Box-v0", n_agents=8), normalize_time=True
    )
    assert env.unwrapped.max_pulls == 25 * 8 * 3  # type: ignore[attr-defined]
    env.reset(seed=0)
    obs, *_ = env.step(0)
    assert obs[-1] == pytest.approx(1 / 600)


# --- ends ------------------------------------------------------------------------------------------------------------


def test_the_limit_asks_for_an_answer() -> None:
    """The empirical best is charged as at a stop. `terminated` says that nothing is left to be earned."""
    for truncation, expected in (("answer", 1), ("penalty", 4), ("free", 0)):
        env = gym.make(
            "ClusteredBAI-Discrete-v0",
            instance=cbg.Instance(INSTANCE.means, INSTANCE.clusters, cbg.Gaussian(0.0)),
            max_pulls=6,
            truncation=truncation,
            error_penalty=2.0,
            pull_cost=0.5,
        )
        # Agents 0 to 2 are pulled at their best arm; agent 3 only at a wrong one.
        *before, last = play(env, [0, 4, 7, 10, 10, 10, 0], seed=0)
        assert all(one[1:4] == (-0.5, False, False) for one in before)
        _, reward, terminated, truncated, info = last
        assert len(before) == 5
        assert reward == -0.5 - 2.0 * expected
        assert (terminated, truncated) == (truncation != "free", truncation == "free")
        assert info["stopped"] is info["correct"] is False
        assert info["wrong_agents"] == expected
        assert info["agent_correct"].tolist() == [truncation == "answer"] * 3 + [False]
        assert info["best_arms"].tolist() == [0, 1, 1, 0]
    with pytest.raises(ValueError, match="truncation must be one of 'answer', 'penalty', 'free'"):
        gym.make(TINY, truncation="never")


def returns(script: np.ndarray, n_plays: int, generator: str) -> float:
    """The average return of one list of actions."""
    envs = cbg.ClusteredBAIVectorEnv(n_plays, generator=generator)
    envs.reset(seed=1)
    total = np.zeros(n_plays)
    for action in script:
        _, rewards, terminated, truncated, _ = envs.step(np.full(n_plays, action))
        total += rewards
    assert (terminated | truncated).all()
    return float(total.mean())


def test_figures_of_the_docstring() -> None:
    """Returns as the manual gives them, within six standard errors (at most 0.015) and rounding.

    False alarms below 1e-8.
    """
    flat = (cbg.FlatClusteredBAIEnv.__doc__ or "").split("## Episode")[0]
    silence, ten = (float(one) for one in re.findall(r"−(\d\.\d\d)", flat))
    assert returns(np.zeros(300, dtype=int), 4000, "tiny") == pytest.approx(-silence, abs=0.09)
    sweeps = np.append(np.tile(np.arange(12), 10), 12)
    assert returns(sweeps, 4000, "tiny") == pytest.approx(-ten, abs=0.024)
    plain = (cbg.ClusteredBAIEnv.__doc__ or "").split("## Rewards")[1].split("## Starting")[0]
    guess, twenty, tiny, again = (float(one) for one in re.findall(r"−(\d\.\d+)", plain))
    assert again == ten
    assert returns(np.array([90]), 4000, "paper-small") == pytest.approx(-guess, abs=0.14)
    cells = [10 * agent + arm for agent in range(9) for arm in (3, 5, 6)]
    some = returns(np.append(np.tile(cells, 20), 90), 2000, "paper-small")
    assert some == pytest.approx(-twenty, abs=0.14)
    assert returns(np.array([12]), 4000, "tiny") == pytest.approx(-tiny, abs=0.14)


def test_evaluate_policy_ends() -> None:
    """The first lines of the manual: an untrained agent that never stops is cut off, quickly."""
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.evaluation import evaluate_policy

    env = gym.make(TINY)
    model = sb3.PPO("MultiInputPolicy", env, n_steps=256, seed=0, device="cpu")
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=3)
    assert mean < -0.1


# --- keywords and infos ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ClusteredBAI-v0", TINY, "ClusteredBAI-Tiny-Box-v0"])
def test_unknown_keywords_are_type_errors(name: str) -> None:
    with pytest.raises(
        TypeError, match=r"unexpected keyword argument 'frameskip'.*generator, which has .*n_agents"
    ):
        gym.make(name, frameskip=4)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'frameskip'"):
        cbg.ClusteredBAIEnv(instance=INSTANCE, frameskip=4)


def kinds(info: dict[str, Any]) -> dict[str, Any]:
    """Keys, types and shapes of nested infos."""
    return {
        key: kinds(value)
        if isinstance(value, dict)
        else (np.asarray(value).dtype.kind, np.shape(value))
        for key, value in info.items()
    }


@pytest.mark.parametrize("name", ["ClusteredBAI-Tiny-v0", TINY, "ClusteredBAI-NearTie-Box-v0"])
def test_infos_have_the_same_keys_and_types_at_every_step(name: str) -> None:
    env = gym.make(name, told={"eta": None, "n_clusters": None}, max_pulls=20)
    flat = isinstance(env.action_space, gym.spaces.Discrete)
    resets, steps = [], []
    for stop in (False, True):
        resets.append(env.reset(seed=int(stop))[1])
        for number in range(20):
            action: Any = number % 9 if flat else (cbg.PULL, (number % 2, 0))
            if stop and number == 15:
                n, k = env.unwrapped.n_agents, env.unwrapped.n_arms  # type: ignore[attr-defined]
                action = n * k if flat else (cbg.STOP, [0] * n)
            *_, terminated, truncated, info = env.step(action)
            steps.append(info)
            if terminated or truncated:
                break
    assert all(kinds(one) == kinds(resets[0]) for one in resets)
    assert all(kinds(one) == kinds(steps[0]) for one in steps)
    assert "O" not in str([kinds(resets[0]), kinds(steps[0])])
    if flat:
        assert [one["action_mask"][-1] for one in resets] == [0, 0]
        assert resets[0]["action_mask"].dtype == np.int8


def test_masks() -> None:
    env = gym.make("ClusteredBAI-Discrete-v0", instance=INSTANCE)
    env.reset(seed=0)
    masks = env.get_wrapper_attr("action_masks")
    assert masks().tolist() == [True] * 12 + [False]
    for action, stop in ((0, 0), (3, 0), (4, 0), (8, 0), (9, 1)):
        info = env.step(action)[4]
        assert info["action_mask"].tolist() == [1] * 12 + [stop] == masks().astype(int).tolist()


def test_masks_keep_the_limit_of_an_agent() -> None:
    """Orders that would exceed it are masked; all others can be carried out."""
    env = gym.make(
        "ClusteredBAI-Discrete-v0", instance=INSTANCE, max_pulls_per_agent=4, pull_sizes=(1, 3)
    )
    info = env.reset(seed=0)[1]
    rng = np.random.default_rng(0)
    while info["action_mask"][:-1].any():
        allowed = np.flatnonzero(info["action_mask"][:-1])
        info = env.step(rng.choice(allowed))[4]
    assert info["pulls_per_agent"].tolist() == [4] * env.get_wrapper_attr("n_agents")
    assert info["action_mask"][-1] == 1
    wrapped = cbg.DiscreteActions(cbg.ClusteredBAIEnv(INSTANCE, max_pulls_per_agent=1))
    wrapped.reset(seed=0)
    wrapped.step(0)
    assert wrapped.action_masks().tolist() == [False] * 3 + [True] * 9 + [False]


# --- coarser actions -------------------------------------------------------------------------------------------------

COARSE: dict[str, Any] = {"pull_sizes": (1, 4, 16)}


def test_coarse_actions_order_many_pulls() -> None:
    env = gym.make("ClusteredBAI-Discrete-v0", instance=INSTANCE, c_b=2.0, c_r=10.0, **COARSE)
    assert env.action_space.n == 3 * 12 + 1  # type: ignore[attr-defined]
    # Four pulls of arm 2 at agent 1; sixteen of arm 0 at agent 3; one of arm 0 at agent 0.
    four, sixteen, one = 12 + 3 * 1 + 2, 24 + 3 * 3, 0
    first, second, third, stop = play(env, [four, sixteen, one, 36], seed=0)
    assert [step[1] for step in (first, second, third)] == pytest.approx([-0.004, -0.016, -0.001])
    expected = np.zeros((4, 3), dtype=int)
    expected[1, 2], expected[3, 0], expected[0, 0] = 4, 16, 1
    np.testing.assert_array_equal(stop[0]["pulls"], expected)
    assert stop[2]
    assert second[4]["sample"] == second[0]["means"][3, 0]
    # ⌈log2(3 · 3)⌉ = 4 bits and a real for each of three orders.
    assert stop[4]["communication"] == {
        "cost": 2.0 * 12 + 10.0 * 3,
        "bits_up": 0,
        "bits_down": 12,
        "reals_up": 3,
        "reals_down": 0,
    }
    for bad in ((), (0, 1), (1.5,)):
        with pytest.raises(ValueError, match=r"pull_sizes"):
            gym.make(TINY, pull_sizes=bad)


def test_coarse_actions_have_the_law_of_many_pulls() -> None:
    """Averages of 16 Gaussian pulls against N(μ, σ²/16), in both environments. False alarms below 1e-9 each."""
    env = cbg.FlatClusteredBAIEnv(INSTANCE, pull_sizes=(16,))
    samples = []
    for seed in range(300):
        env.reset(seed=seed)
        samples.append(env.step(4)[0]["means"][1, 1])
    assert stats.kstest(samples, stats.norm(0.8, 0.25).cdf).pvalue > 1e-9
    envs = cbg.ClusteredBAIVectorEnv(500, instance=INSTANCE, pull_sizes=(16,))
    envs.reset(seed=0)
    means = envs.step(np.full(500, 4))[0]["means"][:, 1, 1]
    assert stats.kstest(means, stats.norm(0.8, 0.25).cdf).pvalue > 1e-9


@pytest.mark.parametrize("limit", [40, 45])
@pytest.mark.parametrize("truncation", ["answer", "penalty", "free"])
def test_noiseless_vector_steps_equal_single_ones(limit: int, truncation: str) -> None:
    """All is determined by the actions; an order beyond the limit is not carried out and ends the episode."""
    noiseless = cbg.Instance(INSTANCE.means, INSTANCE.clusters, cbg.Gaussian(0.0))
    settings = {"instance": noiseless, "max_pulls": limit, "truncation": truncation, **COARSE}
    envs = gym.make_vec("ClusteredBAI-Discrete-v0", num_envs=2, **settings)
    sync = gym.make_vec(
        "ClusteredBAI-Discrete-v0", num_envs=2, vectorization_mode="sync", **settings
    )
    # Every agent is pulled first, so that no stop is a guess.
    first = np.tile(np.array([[0, 3, 6, 9]]).T, 2)
    rest = np.random.default_rng(3).integers(37, size=(60, 2))
    envs.reset(seed=0)
    sync.reset(seed=0)
    ends = 0
    for action in np.concatenate([first, rest]):
        guess = ~envs.action_masks()[:, -1]
        action = np.where(guess & (action == 36), 0, action)
        mine, theirs = envs.step(action), sync.step(action)
        over = mine[2] | mine[3]
        sure = ~(over & guess)
        assert_same(mine[0], theirs[0])
        assert_same(mine[2:4], theirs[2:4])
        np.testing.assert_allclose(mine[1][sure], theirs[1][sure], rtol=1e-12)
        for key in ("sample", "pulls", "best_arms", "stopped"):
            valid = theirs[4].get(f"_{key}", np.zeros(2, dtype=bool))
            if valid.any():
                assert_same(mine[4][key][valid], theirs[4][key][valid])
        if over.any():
            for key in ("wrong_agents", "correct", "agent_correct"):
                assert_same(mine[4][key][over & sure], theirs[4][key][over & sure])
        ends += int(over.sum())
    assert ends >= 8


# --- plays -----------------------------------------------------------------------------------------------------------


def test_with_given_seeds_the_flat_game_is_the_composite_one() -> None:
    flat = gym.make("ClusteredBAI-Discrete-v0", generator="tiny")
    plain = gym.make("ClusteredBAI-v0", generator="tiny")
    options = {"instance_seed": 3, "play_seed": 4}
    told = flat.reset(options=options)[1]
    del told["action_mask"]
    assert same_data(told, plain.reset(options=options)[1])
    for action in range(13):
        obs, reward, terminated, _, info = flat.step(action)
        arms = obs["means"].argmax(axis=1)
        choice = (cbg.PULL, divmod(action, 3)) if action < 12 else (cbg.STOP, arms)
        other = plain.step(choice)
        del info["action_mask"]
        assert same_data((obs, reward, terminated, info), (*other[:3], other[4]))


def test_seeds_and_copies() -> None:
    script = np.random.default_rng(0).integers(13, size=60).tolist()
    for name in (TINY, "ClusteredBAI-Tiny-Box-v0"):
        env = gym.make(name)

        def run(env: gym.Env[Any, Any], seed: int | None) -> list[Any]:
            seen = [env.reset(seed=seed)]
            for action in script:
                seen.append(env.step(action))
                if seen[-1][2]:
                    seen.append(env.reset())
            return seen

        first = run(env, 5)
        copy = pickle.loads(pickle.dumps(env))
        assert same_data(run(env, None), run(copy, None))
        assert same_data(first, run(gym.make(name), 5))
        assert not same_data(first, run(env, 6))
