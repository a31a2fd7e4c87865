"""Actions, legal or not: a valid step or a `ValueError`, and never anything else."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

import clustered_bandit_gym as cbg

N, K = 3, 4
ENV = cbg.ClusteredBAIEnv(instance=cbg.Instance(np.eye(3, K), [0, 1, 2]))
FLAT = cbg.FlatClusteredBAIEnv(instance=ENV.fixed_instance)
WRAPPED = cbg.DiscreteActions(cbg.ClusteredBAIEnv(instance=ENV.fixed_instance))

scalars = st.one_of(
    st.integers(-2, 5),
    st.integers(),
    st.integers(0, 4).map(np.int8),
    st.integers(0, 4).map(np.uint64),
    st.floats(allow_nan=True),
    st.booleans(),
    st.booleans().map(np.bool_),
    st.none(),
    st.text(max_size=2),
    st.integers(0, 4).map(np.asarray),
)
shapes = nps.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4)
arrays = st.one_of(
    nps.arrays(st.sampled_from([np.int64, np.int32, np.uint8]), shapes, elements=st.integers(0, 4)),
    nps.arrays(np.float64, shapes, elements=st.sampled_from([0.0, 1.0, 2.5, np.nan, np.inf])),
    nps.arrays(np.bool_, shapes),
    nps.arrays(object, shapes, elements=st.integers(0, 4)),
)
lists = st.one_of(st.lists(scalars, max_size=5), st.lists(scalars, max_size=5).map(tuple), arrays)
legal = st.one_of(
    st.tuples(st.just(cbg.PULL), st.tuples(st.integers(0, N - 1), st.integers(0, K - 1))),
    st.tuples(st.just(cbg.STOP), st.lists(st.integers(0, K - 1), min_size=N, max_size=N)),
)
nearly = st.one_of(
    st.tuples(st.just(cbg.PULL), st.tuples(st.integers(-1, N), st.integers(-1, K))),
    st.tuples(st.just(cbg.STOP), st.lists(st.integers(-1, K), min_size=N - 1, max_size=N + 1)),
)
anything = st.one_of(
    legal,
    nearly,
    st.tuples(scalars, lists),
    st.tuples(st.sampled_from([0, 1]), lists),
    st.lists(st.one_of(scalars, lists), max_size=3),
    scalars,
    arrays,
    st.dictionaries(scalars.filter(lambda x: x.__hash__ is not None), scalars, max_size=2),
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=6),
)


def is_whole(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_legal(action: Any) -> bool:
    """Written apart from the code under test, from the manual."""
    if not isinstance(action, tuple | list) or len(action) != 2 or not is_whole(action[0]):
        return False
    kind, choice = action
    if isinstance(choice, np.ndarray):
        if choice.ndim != 1 or choice.dtype.kind not in "iuO":
            return False
    elif not isinstance(choice, tuple | list) or not all(is_whole(one) for one in choice):
        return False
    numbers = [int(one) for one in choice]
    if int(kind) == cbg.PULL:
        return len(numbers) == 2 and 0 <= numbers[0] < N and 0 <= numbers[1] < K
    return int(kind) == cbg.STOP and len(numbers) == N and all(0 <= one < K for one in numbers)


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(anything)
def test_any_action(action: Any) -> None:
    if ENV._answer is not None:
        ENV.reset(seed=0)
    if is_legal(action):
        obs, reward, _, _, info = ENV.step(action)
        assert obs in ENV.observation_space
        assert np.isfinite(reward)
        assert info
        return
    before = pickle.dumps(ENV)
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        ENV.step(action)
    assert pickle.dumps(ENV) == before


@pytest.mark.parametrize("env", [FLAT, WRAPPED])
@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(action=st.one_of(scalars, arrays, lists, st.integers(0, N * K)))
def test_any_flat_action(env: Any, action: Any) -> None:
    if env.unwrapped._answer is not None:
        env.reset(seed=0)
    if is_whole(action) and 0 <= int(action) <= N * K:
        env.step(action)
        return
    before = pickle.dumps(env)
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        env.step(action)
    assert pickle.dumps(env) == before


def test_samples_of_the_space_are_legal() -> None:
    env = gym.make("ClusteredBAI-v0")
    env.action_space.seed(0)
    kinds = set()
    for _ in range(50):
        env.reset()
        action = env.action_space.sample()
        kinds.add(int(action[0]))
        env.step(action)
    assert kinds == {cbg.PULL, cbg.STOP}


@pytest.mark.parametrize(
    "action",
    [
        (0, (3, 0)),
        (0, (0, 4)),
        (1, [0, -1, 0]),
        (0, (0, 1.0)),
        (0, (True, 1)),
        (1, [0, 1]),
        (7, (0, 0)),
        "pull",
    ],
)
def test_refusals_say_what_is_expected(action: Any) -> None:
    ENV.reset(seed=0)
    expected = r"for each of the 3 agents.* agents from 0 to 2, arms from 0 to 3; got"
    with pytest.raises(ValueError, match=expected):
        ENV.step(action)
