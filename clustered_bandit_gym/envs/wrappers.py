"""Flat actions and normalised observations, for libraries without composite spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.actions import whole
from clustered_bandit_gym.envs.env import ClusteredBAIEnv, Obs
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policy import PULL, STOP


class DiscreteActions(gym.Wrapper[Obs, Any, Obs, Any], gym.utils.RecordConstructorArgs):
    """`Discrete(N*K + 1)`: action `agent * K + arm` pulls, the last stops and recommends each agent's empirical best.

    The recommendation comes from the observation. Ties, and agents without a pull, are decided by a fair draw: an arm's
    index carries no information. `action_masks` excludes the stop until every agent has a pull, for libraries with
    masks (MaskablePPO); without masks an early stop is legal, and a guess.
    """

    def __init__(self, env: gym.Env[Obs, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        core = env.unwrapped
        if not isinstance(core, ClusteredBAIEnv):
            raise TypeError(f"DiscreteActions wraps a ClusteredBAIEnv, got {type(core).__name__}")
        self._core = core
        self._n_arms, self._stop = core.n_arms, core.n_agents * core.n_arms
        self.action_space = spaces.Discrete(self._stop + 1)

    def step(self, action: int) -> tuple[Obs, Any, bool, bool, dict[str, Any]]:
        number = action if type(action) is int else whole(action, "a flat action")
        if 0 <= number < self._stop:
            return self.env.step((PULL, divmod(number, self._n_arms)))
        if number != self._stop:
            raise UserError(
                f"action {number} is out of range: agent * {self._n_arms} + arm pulls, {self._stop} stops"
            )
        core = self._core
        return self.env.step((STOP, empirical_best(*core.seen, lambda: core.federation.rng)))

    def action_masks(self) -> np.ndarray:
        """(N*K + 1,) booleans: which actions make sense now."""
        mask = np.ones(self._stop + 1, dtype=np.bool_)
        mask[-1] = self._core.seen[0].any(axis=1).all()
        return mask


def empirical_best(pulls: Ints, means: Floats, rng: Callable[[], np.random.Generator]) -> Ints:
    """(..., N) the arm with the largest average among those pulled, from `pulls` and `means` (..., N, K).

    Ties are broken by `rng()`, which is called only where there are any.
    """
    seen = np.where(pulls > 0, means, -np.inf)
    tied = seen == seen.max(axis=-1, keepdims=True)
    if np.count_nonzero(tied) > tied[..., 0].size:
        return (tied * (1 - rng().random(tied.shape))).argmax(axis=-1)
    return tied.argmax(axis=-1)


#: Features of each (agent, arm) cell in `normalised_features`.
CELL = ("the cell exists", "log pulls", "mean in sigmas", "standard error in sigmas")


def normalised_features(
    pulls: Ints,
    means: Floats,
    sigma: float,
    max_agents: int | None = None,
    max_arms: int | None = None,
) -> np.ndarray:
    """(max_agents, max_arms, 4) float32 in [−1, 1]: inputs of a network, free of the scale of rewards and counts.

    Means are relative to the average of all pulls, standard errors are σ/√n (1 without a pull). Cells beyond N and K
    are zero.
    """
    n, k = pulls.shape
    out = np.zeros((max_agents or n, max_arms or k, len(CELL)), dtype=np.float32)
    average = (pulls * means).sum() / max(1, pulls.sum())
    cells = out[:n, :k]
    cells[..., 0] = 1
    cells[..., 1] = np.minimum(np.log1p(pulls) / 10, 1)
    cells[..., 2] = np.where(pulls > 0, np.clip((means - average) / (4 * sigma), -1, 1), 0)
    cells[..., 3] = 1 / np.sqrt(1 + pulls)
    return out


class NormalisedFeatures(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Observations of a flat environment as a normalised vector, whose size `max_agents` and `max_arms` can fix.

    Wraps `DiscreteActions` (any id with `Discrete` in its name). The observation is `normalised_features`, flattened:
    4·max_agents·max_arms numbers in [−1, 1]. Actions are `agent * max_arms + arm`, the last one stops. Where max_agents
    and max_arms exceed N and K, one model can be trained and played on games of many sizes; the actions of absent cells
    are masked (`action_masks`). A library without masks may still choose them; agent and arm are then taken modulo N
    and K.

    Args:
        env: a flat environment.
        max_agents, max_arms: largest N and K that fit; None for those of the game.
    """

    def __init__(
        self, env: gym.Env[Obs, Any], max_agents: int | None = None, max_arms: int | None = None
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, max_agents=max_agents, max_arms=max_arms)
        super().__init__(env)
        core = env.unwrapped
        if not isinstance(core, ClusteredBAIEnv) or not isinstance(
            env.action_space, spaces.Discrete
        ):
            raise UserError(
                "NormalisedFeatures wraps a flat environment, e.g. gym.make('ClusteredBAI-Discrete-v0')"
            )
        self._core = core
        self._room = max_agents or core.n_agents, max_arms or core.n_arms
        if self._room[0] < core.n_agents or self._room[1] < core.n_arms:
            raise UserError(
                f"the game has {core.n_agents} agents and {core.n_arms} arms, more than max_agents = {self._room[0]} "
                f"and max_arms = {self._room[1]} allow; raise them"
            )
        self._sigma = 1.0
        self.action_space = spaces.Discrete(self._room[0] * self._room[1] + 1)
        self.observation_space = spaces.Box(
            -1, 1, (self._room[0] * self._room[1] * len(CELL),), np.float32
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._sigma = float(info["sigma"])
        return self._look(obs), info

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        number = whole(action, "a flat action")
        if number == self._room[0] * self._room[1]:
            flat = self._core.n_agents * self._core.n_arms
        else:
            agent, arm = divmod(number, self._room[1])
            flat = agent % self._core.n_agents * self._core.n_arms + arm % self._core.n_arms
        obs, reward, terminated, truncated, info = self.env.step(flat)
        return self._look(obs), reward, terminated, truncated, info

    def _look(self, obs: Obs) -> np.ndarray:
        return normalised_features(obs["pulls"], obs["means"], self._sigma, *self._room).ravel()

    def action_masks(self) -> np.ndarray:
        """(max_agents·max_arms + 1,) booleans: which actions make sense now."""
        own = self.env.get_wrapper_attr("action_masks")()
        mask = np.zeros(self._room, dtype=np.bool_)
        mask[: self._core.n_agents, : self._core.n_arms] = True
        return np.append(mask.ravel(), own[-1])


def make_discrete(**kwargs: Any) -> DiscreteActions:
    """`ClusteredBAI-Discrete-v0`: a `ClusteredBAIEnv` with these settings, with flat actions."""
    return DiscreteActions(ClusteredBAIEnv(**kwargs))


# Gymnasium looks for the render modes on what it is given to call.
make_discrete.metadata = ClusteredBAIEnv.metadata  # type: ignore[attr-defined]
