"""Parses the actions given to `step` into plain integers; raises `ValueError` with the reason if that is impossible.

`Space.contains` would cost more than the rest of a step and gives no reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np
from gymnasium import spaces

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.payloads import bits_for
from clustered_bandit_gym.policy import PULL, STOP

# Tuples made once: in a step, `isinstance(x, tuple | list)` would build a new union each time.
_SEQUENCES = (tuple, list)
_BOOLEANS = (bool, np.bool_)


class PullOrStop(spaces.OneOf):
    """`OneOf((MultiDiscrete([N, K]), MultiDiscrete([K] * N)))`: pull an arm of an agent, or stop with N arms.

    Libraries that cannot use it print it in their error: its text says what to use instead.

    Args:
        n_agents, n_arms: N and K.
        twin: id of the same environment with flat actions.
    """

    def __init__(self, n_agents: int, n_arms: int, twin: str) -> None:
        super().__init__(
            (
                spaces.MultiDiscrete([n_agents, n_arms]),
                spaces.MultiDiscrete(np.full(n_agents, n_arms)),
            )
        )
        self.twin = twin

    def __repr__(self) -> str:
        return (
            f"{super().__repr__()} (a composite action space; for a library that needs a flat one use "
            f'gym.make("{self.twin}") or cbg.DiscreteActions(env))'
        )


def read_action(action: Any, n_agents: int, n_arms: int) -> tuple[int, Any]:
    """(PULL, (agent, arm)) in plain ints, or (STOP, arms (N,)); `ValueError` with the reason if it is neither."""
    if not isinstance(action, _SEQUENCES) or len(action) != 2:
        raise UserError(
            f"an action is a pair; expected {_expected(n_agents)}, got {_short(action)}"
        )
    kind, choice = action
    if type(kind) is not int:
        kind = whole(kind, "the first element of an action")
    if kind == PULL:
        if type(choice) is not tuple:
            choice = _entries(choice, n_agents)
        if len(choice) != 2:
            raise UserError(
                f"a pull names one agent and one arm; expected {_expected(n_agents)}, got {_short(action)}"
            )
        agent, arm = choice
        if type(agent) is not int:
            agent = whole(agent, "the agent")
        if type(arm) is not int:
            arm = whole(arm, "the arm")
        if not 0 <= agent < n_agents:
            raise UserError(f"agent {agent} is out of range: agents run from 0 to {n_agents - 1}")
        if not 0 <= arm < n_arms:
            raise UserError(f"arm {arm} is out of range: arms run from 0 to {n_arms - 1}")
        return PULL, (agent, arm)
    if kind == STOP:
        arms = [whole(arm, "an arm") for arm in _entries(choice, n_agents)]
        if len(arms) != n_agents:
            raise UserError(
                f"a stop names an arm for each of the {n_agents} agents, got {len(arms)}"
            )
        for arm in (min(arms), max(arms)):
            if not 0 <= arm < n_arms:
                raise UserError(f"arm {arm} is out of range: arms run from 0 to {n_arms - 1}")
        return STOP, np.array(arms, dtype=np.int64)
    raise UserError(
        f"an action starts with PULL or STOP, got {kind}; expected {_expected(n_agents)}"
    )


def whole(value: Any, what: str) -> int:
    """`value` as an int; booleans and floats are refused, even 1.0."""
    if not isinstance(value, _BOOLEANS):
        try:
            return index(value)
        except TypeError:
            pass
    raise UserError(f"{what} must be a whole number, got {_short(value)} ({type(value).__name__})")


class FlatActions:
    """Flat actions: action `(size_index * N + agent) * C + column` orders pulls, the last one stops.

    C is K, or K + 1 with sweeps, where column K orders pulls of all arms of the agent.

    Args:
        n_agents, n_arms: N and K.
        sizes: numbers of pulls that an action can order.
        sweep: add orders for all arms of an agent.
    """

    def __init__(self, n_agents: int, n_arms: int, sizes: Sequence[int], sweep: bool) -> None:
        self.sizes = tuple(whole(size, "an entry of pull_sizes") for size in sizes)
        if not self.sizes or min(self.sizes) < 1 or len(set(self.sizes)) < len(self.sizes):
            raise UserError(f"pull_sizes must be different whole numbers >= 1, got {sizes}")
        self.n_agents = n_agents
        self.n_arms = n_arms
        self.columns = n_arms + bool(sweep)
        self.stop = len(self.sizes) * n_agents * self.columns
        self.n = self.stop + 1
        self.single = self.sizes == (1,) and not sweep
        self.order_bits = bits_for(len(self.sizes) * self.columns)
        order = f"agent * {n_arms} + arm" if self.single else f"0 to {self.stop - 1}"
        self.about = f"{order} pulls, {self.stop} stops"

    def read(self, action: Any) -> tuple[Any, Any, Any]:
        """Agent, column and number of pulls of an order: ints from an int, arrays from an array."""
        rest, column = divmod(action, self.columns)
        if len(self.sizes) == 1:
            return (
                rest,
                column,
                self.sizes[0] if isinstance(rest, int) else np.full_like(rest, self.sizes[0]),
            )
        size, agent = divmod(rest, self.n_agents)
        times = self.sizes[size] if isinstance(size, int) else np.array(self.sizes)[size]
        return agent, column, times

    def check(self, actions: Any, num_envs: int) -> Ints:
        """(num_envs,) actions as int64; `ValueError` with the reason if they are invalid."""
        array = np.asarray(actions)
        if array.shape != (num_envs,) or array.dtype.kind not in "iu":
            raise UserError(
                f"expected {num_envs} integers, got an array of {array.dtype} with shape {array.shape}"
            )
        if array.min() < 0 or array.max() > self.stop:
            bad = array[(array < 0) | (array > self.stop)][0]
            raise UserError(f"action {bad} is out of range: {self.about}")
        return array.astype(np.int64, copy=False)


def check_recommendations(recommendations: Any, num_envs: int, n_agents: int, n_arms: int) -> None:
    """`ValueError` unless these are (num_envs, N) arms."""
    arms = np.asarray(recommendations)
    if arms.shape != (num_envs, n_agents) or arms.dtype.kind not in "iu":
        raise UserError(
            f"recommendations are integers of shape {(num_envs, n_agents)}, got {arms.dtype} of shape {arms.shape}"
        )
    if arms.min() < 0 or arms.max() >= n_arms:
        raise UserError(
            f"recommended arms run from 0 to {n_arms - 1}, got {arms.min()} to {arms.max()}"
        )


def empirical_best(pulls: Ints, means: Floats, rng: Callable[[], np.random.Generator]) -> Ints:
    """(..., N) the arm with the largest average among those pulled, from `pulls` and `means` (..., N, K).

    Ties are broken by `rng()`, which is called only where there are any.
    """
    seen = np.where(pulls > 0, means, -np.inf)
    tied = seen == seen.max(axis=-1, keepdims=True)
    if np.count_nonzero(tied) > tied[..., 0].size:
        return (tied * (1 - rng().random(tied.shape))).argmax(axis=-1)
    return tied.argmax(axis=-1)


def _entries(values: Any, n_agents: int) -> Any:
    """The elements of a tuple, list or integer vector."""
    if isinstance(values, _SEQUENCES):
        return values
    if isinstance(values, np.ndarray):
        if values.ndim == 1 and values.dtype.kind in "iu":
            return values.tolist()
        raise UserError(
            f"expected a vector of integers, got an array of {values.dtype} with shape {values.shape}"
        )
    raise UserError(
        f"expected {_expected(n_agents)}, got {_short(values)} after the kind of action"
    )


def _expected(n_agents: int) -> str:
    return f"(PULL, (agent, arm)) or (STOP, {n_agents} arms), with PULL = {PULL} and STOP = {STOP}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
