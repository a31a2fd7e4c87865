"""Actions: spaces, parsing and checks. An invalid action raises `ValueError` with the reason.

`Space.contains` would cost more than the rest of a step and gives no reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.payloads import bits_for
from clustered_bandit_gym.policy import PULL, STOP


class PullOrStop(spaces.OneOf):  # type: ignore[type-arg]
    """`OneOf((MultiDiscrete([N, K]), MultiDiscrete([K] * N)))`: pull an arm, or stop with N arms.

    Libraries that cannot use it print it in their error: its text says what to use instead.

    Args:
        n_agents, n_arms: N and K.
        twin: id of the same environment with flat actions.
    """

    def __init__(self, n_agents: int, n_arms: int, twin: str) -> None:
        pull = spaces.MultiDiscrete([n_agents, n_arms])
        stop = spaces.MultiDiscrete(np.full(n_agents, n_arms))
        super().__init__((pull, stop))
        self.twin = twin

    def __repr__(self) -> str:
        return (
            f"{super().__repr__()} (a composite action space; for a library that needs a flat one "
            f'use gym.make("{self.twin}") or cbg.DiscreteActions(env))'
        )


def read_action(action: Any, n_agents: int, n_arms: int) -> tuple[int, Any]:
    """(PULL, (agent, arm)) in plain ints, or (STOP, arms (N,))."""
    if not isinstance(action, (tuple, list)) or len(action) != 2:
        raise _unexpected(action, n_agents)
    kind = whole(action[0], "the first element of an action")
    if kind not in (PULL, STOP):
        raise _unexpected(action, n_agents)
    chosen = action[1]
    if isinstance(chosen, np.ndarray) and chosen.ndim == 1 and chosen.dtype.kind in "iu":
        chosen = chosen.tolist()
    elif not isinstance(chosen, (tuple, list)):
        raise _unexpected(action, n_agents)
    if len(chosen) != (2 if kind == PULL else n_agents):
        raise _unexpected(action, n_agents)
    if kind == PULL:
        agent = whole(chosen[0], "the agent")
        if not 0 <= agent < n_agents:
            raise UserError(f"agent {agent} is out of range: agents run from 0 to {n_agents - 1}")
        return PULL, (agent, _arm(chosen[1], n_arms))
    return STOP, np.array([_arm(arm, n_arms) for arm in chosen], dtype=np.int64)


def whole(value: Any, what: str) -> int:
    """`value` as an int; booleans and floats are refused, even 1.0."""
    if type(value) is int:
        return value
    if not isinstance(value, bool | np.bool_):
        try:
            return index(value)
        except TypeError:
            pass
    kind = type(value).__name__
    raise UserError(f"{what} must be a whole number, got {_short(value)} ({kind})")


def _arm(value: Any, n_arms: int) -> int:
    arm = whole(value, "an arm")
    if not 0 <= arm < n_arms:
        raise UserError(f"arm {arm} is out of range: arms run from 0 to {n_arms - 1}")
    return arm


def _unexpected(action: Any, n_agents: int) -> UserError:
    return UserError(
        f"an action is (PULL, (agent, arm)) or (STOP, arms) with integers and an arm for each of "
        f"the {n_agents} agents, PULL = {PULL} and STOP = {STOP}; got {_short(action)}"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class FlatActions:
    """Flat actions: `(size_index * N + agent) * C + column` orders pulls, the last one stops.

    C is K, or K + 1 with sweeps, where column K orders pulls of all arms of the agent.

    Args:
        n_agents, n_arms: N and K.
        sizes: numbers of pulls that an action can order.
        sweep: add orders for all arms of an agent.
    """

    def __init__(self, n_agents: int, n_arms: int, sizes: Sequence[int], sweep: bool) -> None:
        self.sizes: Ints = np.array([whole(size, "an entry of pull_sizes") for size in sizes])
        if not self.sizes.size or self.sizes.min() < 1 or len(set(sizes)) < len(sizes):
            raise UserError(f"pull_sizes must be different whole numbers >= 1, got {sizes}")
        self.n_agents = n_agents
        self.columns = n_arms + bool(sweep)
        self.stop = len(sizes) * n_agents * self.columns
        self.order_bits = bits_for(len(sizes) * self.columns)
        #: Every order is one pull: action `agent * K + arm`.
        self.single = self.sizes.tolist() == [1] and not sweep
        order = f"agent * {n_arms} + arm" if self.single else f"0 to {self.stop - 1}"
        self.about = f"{order} pulls, {self.stop} stops"

    def read(self, action: Any) -> tuple[Any, Any, Any]:
        """Agent, column and number of pulls of an order, or arrays of them."""
        rest, column = divmod(action, self.columns)
        size, agent = divmod(rest, self.n_agents)
        return agent, column, self.sizes[size]

    def check(self, actions: Any, num_envs: int) -> Ints:
        """(num_envs,) actions as int64; `ValueError` with the reason if they are invalid."""
        array = integers(actions, (num_envs,))
        if array.min() < 0 or array.max() > self.stop:
            bad = array[(array < 0) | (array > self.stop)][0]
            raise UserError(f"action {bad} is out of range: {self.about}")
        return array

    def masks(self, stop_allowed: Any) -> NDArray[np.int8]:
        """(..., A) which actions make sense, from booleans (...)."""
        masks = np.ones((*np.shape(stop_allowed), self.stop + 1), dtype=np.int8)
        masks[..., -1] = stop_allowed
        return masks


def integers(values: Any, shape: tuple[int, ...]) -> Ints:
    """`values` as int64; `ValueError` unless they are integers of that shape."""
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "iu":
        raise UserError(
            f"expected integers of shape {shape}, got {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.int64, copy=False)


def empirical_best(pulls: Ints, means: Floats, rng: Callable[[], np.random.Generator]) -> Ints:
    """(..., N) the arm with the largest average among those pulled, from arrays (..., N, K).

    Ties are broken by `rng()`, which is called only where there are any.
    """
    seen = np.where(pulls > 0, means, -np.inf)
    tied = seen == seen.max(axis=-1, keepdims=True)
    weights: Any = tied
    if np.count_nonzero(tied) > tied[..., 0].size:
        weights = tied * (1 - rng().random(tied.shape))
    best: Ints = weights.argmax(axis=-1)
    return best


def are_good(truth: Floats, arms: Ints, epsilon: float) -> NDArray[np.bool_]:
    """(..., N) whether `arms` (..., N) are within ε of the best, from the means (..., N, K)."""
    rows = truth.reshape(-1, truth.shape[-1])
    chosen = rows[np.arange(len(rows)), arms.reshape(-1)]
    good: NDArray[np.bool_] = rows.max(axis=1) - chosen <= epsilon * (1 + 1e-9)
    return good.reshape(arms.shape)
