"""A test kit for policies of others: the contract, executable.

```python
from clustered_bandit_gym.testing import check_policy

def test_mine():
    check_policy(MyPolicy())
```
It raises `AssertionError` with what is wrong. It says nothing about statistics: whether a policy
keeps its promise of δ is what `cbg.audit` judges. Wrappers have Gymnasium's `check_env`.
"""

from __future__ import annotations

import json
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.stepwise import crosstalk
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.isolation import COPIES
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical
from clustered_bandit_gym.harness.play import play
from clustered_bandit_gym.harness.settings import path_of, rebuild_policy
from clustered_bandit_gym.policy import Policy, StepPolicy


def check_policy(
    policy: Policy | StepPolicy,
    seed: int = 0,
    max_pulls: int = 2_000_000,
    strict: bool = True,
    max_seconds: float = 60.0,
) -> None:
    """Check a policy's contract on small games with every reward model, among them odd ones.

    Answers of the right form; the same seeds give the same play on a copy; settings are plain
    values; the agents of a `Policy` do not see each other. Prints what was played, and what the
    policy does not cope with though it need not: games where M or η is not told, ε > 0.

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

    def played(player: Policy | StepPolicy, game: str, **settings: Any) -> Values:
        env = ClusteredBAIEnv(games[game], delta=0.2, max_pulls=max_pulls, **settings)
        with _limited(max_seconds):
            row = play(player, env, seed, strict=strict, bound=False)
        del row["seconds"]
        return row

    games = odd_instances()
    remarks = []
    for name, instance in games.items():
        row = played(policy, name)
        if COPIES in row["message"]:
            remarks.append(f"; {name}: {row['message']}")
        assert row["correct"] is not None, f"in the game {name!r}: {row['message']}"
        differently = f"in the game {name!r} the same seeds on a copy play differently"
        np.testing.assert_equal(played(copy, name), row, differently)
        if isinstance(policy, Policy):
            env = ClusteredBAIEnv(instance, delta=0.2, max_pulls=max_pulls)
            differ = crosstalk(policy, env, seed, seed)
            assert not differ, (
                f"in the game {name!r} in blocks of one agent the policy plays differently ({differ}): a local "
                "program lets agents use each other's rewards, which were not sent, or draws "
                "random numbers elsewhere than from block.random"
            )
    # What a policy need not cope with.
    variants: dict[str, Values] = {
        "n_clusters=None": {"told": {"n_clusters": None}},
        "eta=None": {"told": {"eta": None, "eta1": None}},
        "epsilon=0.1": {"epsilon": 0.1},
    }
    for name, settings in variants.items():
        row = played(policy, "gaussian rewards", **settings)
        if row["correct"] is None:
            remarks.append(f"; not robust to {name} ({row['message'] or row['outcome']})")
    played_well = len(games) + len(variants) - len(remarks)
    try:
        rebuild_policy(path_of(type(policy)), policy.settings, [type(policy).__module__])
    except UserError as error:
        remarks.append(f"; replay needs policy=...: {error}")
    print(f"{played_well} games OK{''.join(remarks)}")


class _TooLong(BaseException):
    """The time is up. Not an `Exception`: a policy that catches those must not catch this."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """What takes longer ends with `_TooLong`."""

    def too_long(*_: object) -> None:
        raise _TooLong(f"no answer within {seconds:g} s")

    try:
        before = signal.signal(signal.SIGALRM, too_long)
    except (AttributeError, ValueError):  # Windows, or not in the main thread
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def odd_instances() -> dict[str, Instance]:
    """Small instances that a policy should survive: every reward model, a single agent or arm, ..."""
    two = [[0.9, 0.1, 0.2], [0.1, 0.8, 0.2]]
    high = [0.1, 0.1, 0.8]
    low = [0.8, 0.1, 0.1]
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
