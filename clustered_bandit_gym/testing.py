"""A test kit for environments and policies of others: the contracts, executable.

```python
from clustered_bandit_gym.testing import check_clustered_env, check_policy

def test_mine():
    check_policy(MyPolicy())
    check_clustered_env(MyWrapper(gym.make("ClusteredBAI-v0")))
```
Each check raises `AssertionError` with what is wrong. They say nothing about statistics: whether a
policy keeps its promise of δ is what `cbg.audit` judges.
"""

from __future__ import annotations

import json
import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.stepwise import crosstalk
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian
from clustered_bandit_gym.harness.play import play
from clustered_bandit_gym.policy import PULL, STOP, Policy, StepPolicy

#: What `info` holds after `reset`, and at the end of an episode.
PROBLEM_KEYS = set(Problem.__slots__)
OUTCOME_KEYS = {"stopped", "correct", "agent_correct", "wrong_agents", "best_arms"}
OUTCOME_KEYS |= {"pulls", "pulls_per_agent", "communication"}


def same_data(one: Any, other: Any) -> bool:
    """Whether nested dictionaries, lists and arrays are equal, types of arrays included."""
    try:
        np.testing.assert_equal(one, other, strict=True)
    except AssertionError:
        return False
    return True


def scripted_play(env: gym.Env[Any, Any], seed: int, pulls: int = 25) -> list[Any]:
    """Everything that `reset` and `step` return over a fixed script of pulls and a stop; ends early
    if the env does."""
    obs, info = env.reset(seed=seed)
    seen: list[Any] = [(obs, info)]
    n, k = info["n_agents"], info["n_arms"]
    flat = isinstance(env.action_space, spaces.Discrete)
    script = np.random.default_rng(seed).integers([n, k], size=(pulls, 2)).tolist()
    actions: list[Any] = [
        agent * k + arm if flat else (PULL, (agent, arm)) for agent, arm in script
    ]
    for action in [*actions, n * k if flat else (STOP, np.arange(n) % k)]:
        seen.append(env.step(action))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


def check_clustered_env(env: gym.Env[Any, Any], seed: int = 0) -> None:
    """Check an environment of this kind: a `ClusteredBAIEnv`, wrapped or not, with composite or
    flat actions.

    It must allow 25 pulls before it truncates, and keep the `info` of the environment inside.
    """
    copy = pickle.loads(pickle.dumps(env))  # our own object, made here
    first = scripted_play(env, seed)
    obs, problem = first[0]
    assert problem.keys() >= PROBLEM_KEYS, f"info after reset lacks some of {PROBLEM_KEYS}"
    n, k = problem["n_agents"], problem["n_arms"]
    for name in ("pulls", "means"):
        assert obs[name].shape == (n, k), f"obs[{name!r}] has shape {obs[name].shape}, not {(n, k)}"
        assert not obs[name].any(), f"obs[{name!r}] is not empty after reset"
    for number, (obs, reward, _, _, info) in enumerate(first[1:-1], start=1):
        assert obs in env.observation_space, f"step {number}: obs is outside its space"
        assert np.isfinite(reward), f"step {number}: the reward is {reward}"
        assert isinstance(info.get("sample"), float), f"step {number}: info lacks the sample"
        assert info.keys() >= OUTCOME_KEYS, f"step {number}: info lacks some of {OUTCOME_KEYS}"
        hidden = not info["stopped"] and (info["best_arms"] == -1).all()
        assert hidden, f"step {number}: info shows the outcome before the end"
        assert obs["pulls"].sum() == number, f"the observation does not count {number} pulls"
    obs, _, terminated, _, outcome = first[-1]
    assert terminated, "the episode was truncated within 25 pulls: allow more"
    assert outcome.keys() >= OUTCOME_KEYS, f"info at the end lacks some of {OUTCOME_KEYS}"
    counts = {outcome["pulls"], obs["pulls"].sum(), outcome["pulls_per_agent"].sum()}
    assert len(counts) == 1, f"pulls do not add up: {counts}"
    wrong = n - outcome["agent_correct"].sum()
    assert outcome["wrong_agents"] == wrong, "wrong agents do not add up"
    assert outcome["correct"] == (wrong == 0), "`correct` contradicts the wrong agents"
    assert outcome["communication"]["cost"] > 0, "ordered pulls were not billed"
    pull = n * k - 1 if isinstance(env.action_space, spaces.Discrete) else (PULL, (n - 1, k - 1))
    _refused(env, pull, ResetNeeded)

    assert same_data(first, scripted_play(env, seed)), "the same seed and actions gave another play"
    assert same_data(first, scripted_play(copy, seed)), "a copy gave another play"
    assert not same_data(first, scripted_play(env, seed + 1)), "another seed gave the same play"

    env.reset(seed=seed)
    env.step(pull)
    for action in _bad_actions(env, n, k):
        before = pickle.dumps(env)
        _refused(env, action, ValueError)
        assert pickle.dumps(env) == before, f"the refused action {action!r} changed something"
    copy = pickle.loads(pickle.dumps(env))
    for _ in range(5):
        assert same_data(env.step(pull), copy.step(pull)), "a copy plays on differently"


def check_policy(
    policy: Policy | StepPolicy,
    seed: int = 0,
    max_pulls: int = 2_000_000,
    strict: bool = True,
    max_seconds: float = 60.0,
) -> None:
    """Check a policy's contract on small games with every reward model, among them odd ones.

    Answers of the right form; the same seeds give the same play, also on a copy; settings are plain
    values; a budget is respected. A `Policy` plays the same game pull by pull, and its agents do
    not see each other. Prints what was played, and what the policy does not cope with though it
    need not: games where M or η is not told, ε > 0.

    Args:
        policy: the player.
        seed: of all plays.
        max_pulls: budget of each small play; raise it for a policy that needs more.
        strict: the policy learns nothing from the agents but what they send.
        max_seconds: time limit of each play, for loops without pulls; kept in the main thread of
            systems that have `SIGALRM`.
    """
    assert isinstance(policy, Policy | StepPolicy), (
        f"a policy inherits cbg.Policy or cbg.StepPolicy, got {policy!r}"
    )
    json.dumps(policy.settings)
    assert policy.label
    copy = pickle.loads(pickle.dumps(policy))  # our own object, made here

    def played(player: Policy | StepPolicy, env: ClusteredBAIEnv) -> dict[str, Any]:
        with _limited(max_seconds):
            row = play(player, env, seed, strict=strict, bound=False)
        del row["seconds"]
        return row

    games = odd_instances()
    for name, instance in games.items():
        env = ClusteredBAIEnv(instance, delta=0.2, max_pulls=max_pulls)
        row = played(policy, env)
        assert row["correct"] is not None, f"{name} ({row['message']})"
        assert same_data(row, played(policy, env)), f"{name}: the second play differs"
        assert same_data(row, played(copy, env)), f"{name}: a copy plays differently"
        budget = ClusteredBAIEnv(instance, delta=0.2, max_pulls=instance.n_agents)
        spent = played(policy, budget)["pulls"]
        assert spent <= instance.n_agents, f"{name}: the budget was exceeded"
    if isinstance(policy, Policy):
        check_blocks(policy, seed, max_pulls)
        check_stepwise(policy, seed)
    # What a policy need not cope with.
    variants: dict[str, dict[str, Any]] = {
        "n_clusters=None": {"told": {"n_clusters": None}},
        "eta=None": {"told": {"eta": None, "eta1": None}},
        "epsilon=0.1": {"epsilon": 0.1},
    }
    fragile = []
    for name, settings in variants.items():
        env = ClusteredBAIEnv(games["gaussian rewards"], delta=0.2, max_pulls=max_pulls, **settings)
        row = played(policy, env)
        if row["outcome"] == "error":
            fragile.append(f"; not robust to {name} ({row['message']})")
    print(f"{len(games) + len(variants) - len(fragile)} games OK{''.join(fragile)}")


class _TooLong(BaseException):
    """The time is up. Not an `Exception`: a policy that catches those must not catch this."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """What takes longer ends with `_TooLong`."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def too_long(*_: object) -> None:
        raise _TooLong(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check_blocks(policy: Policy, seed: int = 0, max_pulls: int = 2_000_000) -> None:
    """Agents of a block must not see each other: played in blocks of one agent the policy must do
    the same."""
    for name, instance in odd_instances().items():
        env = ClusteredBAIEnv(instance, delta=0.2, max_pulls=max_pulls)
        differ = crosstalk(policy, env, seed, seed)
        assert not differ, (
            f"{name}: in blocks of one agent the policy plays differently ({differ}): a local "
            "program lets agents use each other's rewards, which were not sent, or draws random "
            "numbers elsewhere than from block.random"
        )


def check_stepwise(policy: Policy, seed: int = 0) -> None:
    """Played pull by pull through `env.step` the policy must do what it does without an
    environment.

    On noiseless rewards both plays see the same numbers, so that pulls, bill and answers must agree
    exactly.
    """
    instance = Instance([[1.0, 0.25, 0.5], [0.25, 1.0, 0.0]], [0, 1, 1, 0, 1], Gaussian(0.0))
    env = ClusteredBAIEnv(instance, delta=0.2, sigma=0.1)
    rows = [play(policy, env, seed, stepwise, bound=False) for stepwise in (False, True)]
    for row in rows:
        del row["seconds"], row["stepwise"]
    assert same_data(*rows), "pull by pull the policy plays differently"


def odd_instances() -> dict[str, Instance]:
    """Small instances that a policy should survive: every reward model, an empty cluster, a single
    agent or arm."""
    two = [[0.9, 0.1, 0.2], [0.1, 0.8, 0.2]]
    high, low = [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]
    categorical = Categorical(np.array([0.0, 0.5, 1.0]), np.array([[high, low], [low, high]]))
    return {
        "gaussian rewards": Instance(two, [0, 1, 1, 0, 1]),
        "bernoulli rewards": Instance(two, [1, 0, 1], Bernoulli()),
        "categorical rewards": Instance(None, [0, 1, 1, 0], categorical),
        "a cluster without agents": Instance(two, [1, 1, 1]),
        "a single agent": Instance(two, [1]),
        "a single cluster": Instance([[0.0, 1.0]], [0, 0, 0]),
        "a single arm": Instance([[0.5]], [0, 0]),
    }


def _bad_actions(env: gym.Env[Any, Any], n: int, k: int) -> list[Any]:
    """Actions outside the space, by one thing each."""
    if isinstance(env.action_space, spaces.Discrete):
        return [-1, n * k + 1, 0.0, float("nan"), True, None, "0", [0], (PULL, (0, 0))]
    pairs = [(n, 0), (0, k), (-1, 0), (0,), (0, 0.0), (True, 0), np.zeros(2), None]
    answers = [[0] * (n + 1), [k] * n, [-1] * n, np.full(n, np.nan), 0]
    others = [(2, (0, 0)), (None, (0, 0)), PULL, None, "stop", {}, (PULL, (0, 0), 0)]
    return [*((PULL, pair) for pair in pairs), *((STOP, arms) for arms in answers), *others]


def _refused(env: gym.Env[Any, Any], action: Any, error: type[Exception]) -> None:
    try:
        env.step(action)
    except error:
        return
    raise AssertionError(f"{action!r} must raise {error.__name__}, but nothing was raised")
