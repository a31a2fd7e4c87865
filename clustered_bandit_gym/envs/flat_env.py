"""The game with a `Discrete` action and, on request, a flat observation, for learning libraries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from clustered_bandit_gym._types import Array, Bools, Floats, Ints, Values
from clustered_bandit_gym.envs.actions import action_mask, read_flat
from clustered_bandit_gym.envs.env import ENDED, ClusteredBAIEnv, ResetResult, Space, StepResult
from clustered_bandit_gym.envs.game import InstanceBuffer, Law
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import check_choice, whole
from clustered_bandit_gym.game.payloads import bits_for
from clustered_bandit_gym.game.pulls import Simulator
from clustered_bandit_gym.game.seeds import episode_seeds
from clustered_bandit_gym.policy import PULL, STOP

#: Default `max_pulls`: so many orders of the largest size for each (agent, arm) cell.
ORDERS_PER_CELL = 25


class FlatClusteredBAIEnv(ClusteredBAIEnv):
    """`ClusteredBAIEnv` with one integer as action: the ids with `Discrete` or `Box` in their names.

    What is not said here is as in `ClusteredBAIEnv`.

    ## Action Space
    `Discrete(N * K + 1)`: action `agent * K + arm` pulls, the last one stops and recommends each
    agent's empirical best arm. Ties, and agents without a pull, are decided by a fair draw: an
    arm's index carries no information.

    Longer games need coarser actions. With `pull_sizes=(1, 4, 16)` an action orders that many pulls
    of one arm, drawn at once and answered with their average. With S sizes there are S·N·K + 1
    actions: `(size_index * N + agent) * K + arm`. An order costs ⌈log2(S·K)⌉ bits and one real.

    `info["action_mask"]` (int8) and `action_masks()` (booleans) exclude the stop until every agent
    has a pull, and orders beyond `max_pulls_per_agent`, for libraries with masks. Without masks an
    early stop is legal, and a guess.

    ## Observation Space
    With `observation="dict"` that of `ClusteredBAIEnv`. With "box" a vector of N·K·4 + 1 numbers in
    [−1, 1]: see `box_features`.

    ## Rewards
    −`pull_cost` for each pull and −`error_penalty` for each wrong agent, at the stop and, unless
    `truncation="free"`, also at the limit: to say nothing is no way out. On
    `ClusteredBAI-Tiny-Discrete-v0` to pull one arm until the limit returns −2.97 on average, ten
    pulls of each arm and a stop −0.18.

    ## Episode End
    `terminated` at the stop. An order that reaches `max_pulls` ends the episode, too; one that would
    exceed it is not carried out. `truncation` decides what the end costs:

    | value | at the limit |
    |---|---|
    | "answer" (default) | each agent's empirical best is recommended, wrong ones are charged |
    | "penalty" | nothing is recommended, and every agent is charged as wrong |
    | "free" | nothing is recommended and nothing charged, as in `ClusteredBAIEnv` |

    In the first two nothing is left to earn after the limit: the episode has `terminated`, and
    learners do not bootstrap from its last state. With "free" it is `truncated`. `info["stopped"]`
    is False in all three.

    ## Arguments
    Args:
        observation: "dict" or "box".
        pull_sizes: numbers of pulls that an action can order.
        truncation: "answer", "penalty" or "free", see Episode End.
        max_pulls: "auto" is 25 orders of the largest size for each arm of each agent: 300 on Tiny;
            None for no limit.
        settings: of `ClusteredBAIEnv`.

    ## Seeds
    Instances are drawn ahead in batches, and rewards come from `np_random`. With
    `reset(options=...)` the episode is played on a `Federation` and equals, draw for draw, that of
    `ClusteredBAIEnv`.
    """

    def __init__(
        self,
        instance: Any = None,
        generator: Any = None,
        *,
        observation: str = "dict",
        pull_sizes: Sequence[int] = (1,),
        truncation: str = "answer",
        max_pulls: Any = "auto",
        **settings: Any,
    ) -> None:
        self.observation = check_choice("observation", observation, ("dict", "box"))
        self.truncation = check_choice("truncation", truncation, ("answer", "penalty", "free"))
        sizes = np.ravel(pull_sizes).tolist() or [0]
        self.pull_sizes = tuple(whole(size, "each number of pull_sizes") for size in sizes)
        limit = None if max_pulls == "auto" else max_pulls
        super().__init__(instance, generator, max_pulls=limit, **settings)
        cells = self.n_agents * self.n_arms
        if max_pulls == "auto":
            self.max_pulls = self.limit = ORDERS_PER_CELL * cells * max(self.pull_sizes)
        #: The action that stops: the last one.
        self.stop_action = len(self.pull_sizes) * cells
        self.order_bits = bits_for(len(self.pull_sizes) * self.n_arms)
        self._buffer = InstanceBuffer(self)
        self._mask = np.ones(self.stop_action + 1, dtype=np.int8)

    @cached_property
    def action_space(self) -> Space:  # type: ignore[override]
        return spaces.Discrete(self.stop_action + 1)

    @cached_property
    def observation_space(self) -> Space:  # type: ignore[override]
        if self.observation == "box":
            return spaces.Box(-1, 1, (self.n_agents * self.n_arms * 4 + 1,), np.float32)
        return super().observation_space

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """As Gymnasium sets it; `max_episode_steps` is `max_pulls`, as time wrappers expect."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            spec.max_episode_steps = self.max_pulls
        self._spec = spec

    _spec: EnvSpec | None = None

    # --- the episode ------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Values | None = None) -> ResetResult:
        if seed is not None:
            self._buffer = InstanceBuffer(self)
        if options or self.max_pulls_per_agent is not None:
            if "local_pulls" in (options or {}):
                raise UserError("local_pulls needs an id without Discrete: a composite action")
            obs, told = super().reset(seed=seed, options=options)
        else:
            gym.Env.reset(self, seed=seed)
            self._federation = None
            if self.batch_rewards is not None:
                drawn, rows = self._buffer.take(1, self.np_random)
                i = rows.start
                own = {key: drawn[key][i] for key in ("means", "clusters", "best", "good")}
                self._law = Law(self.batch_rewards, **own)
                self._instance = self.fixed_instance
                told = self.told_of(drawn, i)
            else:
                told = self.told_values(self._draw_truth(episode_seeds(self.np_random)[0]))
            self._free = Simulator(self._law, self.np_random)
            obs, told = self._begin(told)
        told["action_mask"] = self.action_mask()
        return obs, told

    def step(self, action: Any) -> StepResult:
        if self._answer is not None:
            raise ResetNeeded(ENDED)
        number = read_flat(action, self.stop_action)
        if number == self.stop_action:
            return self.end_episode(self.best_seen(), stopped=True)
        order, arm = divmod(number, self.n_arms)
        size, agent = divmod(order, self.n_agents)
        return self._carry_out(agent, arm, self.pull_sizes[size])

    def open_info(self, sample: float = 0.0) -> Values:
        info = super().open_info(sample)
        info["action_mask"] = self.action_mask()
        return info

    def action_mask(self) -> NDArray[np.int8]:
        """(A,) which actions make sense now: to stop, every agent must have a pull, and no order may
        exceed `max_pulls_per_agent`."""
        mask = self._mask.copy()
        mask[-1] = not self._unpulled
        if self.max_pulls_per_agent is not None:
            fits = np.add.outer(self.pull_sizes, self._per_agent) <= self.max_pulls_per_agent
            mask[:-1] = fits.repeat(self.n_arms)
        return mask

    def action_masks(self) -> Bools:
        """`action_mask` as booleans."""
        return self.action_mask().astype(bool)

    def _obs(self) -> Any:
        if self.observation == "dict":
            return super()._obs()
        return box_features(self._pulls, self._means, self._scale, self._count / self.limit)


def box_features(
    pulls: Ints, means: Floats, sigma: Floats | float, time: Floats | float
) -> NDArray[np.float32]:
    """(..., N·K·4 + 1) float32 in [−1, 1] of plays (...), from `pulls` and `means` (..., N, K).

    Four features of each arm of each agent: the logarithm of its pulls; its mean relative to the
    average of all pulls, in σ; its standard error in σ; its lead over the agent's best other arm,
    in standard errors. At last `time` (...), the used share of `max_pulls`. They do not change when
    all means shift, or when means and `sigma` are scaled together. Arms without pulls have mean and
    lead 0.
    """
    pulled = pulls > 0
    *plays, n_agents, n_arms = pulls.shape
    total = np.maximum(pulls.sum(axis=(-2, -1)), 1)
    average = (pulls * means).sum(axis=(-2, -1)) / total
    # The best other arm; of a single arm itself, whose lead is 0.
    rank = np.argsort(np.where(pulled, means, -np.inf))
    best = rank[..., [-1]]
    second = rank[..., [-2 % n_arms]]
    rival = np.where(np.arange(n_arms) == best, second, best)

    def of_rival(values: Array) -> Array:
        return np.take_along_axis(values, rival, axis=-1)

    variance = 1 / np.maximum(pulls, 1)
    spread = sigma * np.sqrt(variance + of_rival(variance))
    lead = (means - of_rival(means)) / (4 * spread)
    cells = np.zeros((*pulls.shape, 4), dtype=np.float32)
    cells[..., 0] = np.minimum(np.log1p(pulls) / 6, 1)
    cells[..., 1] = np.where(pulled, (means - average[..., None, None]) / (4 * sigma), 0)
    cells[..., 2] = 1 / np.sqrt(1 + pulls)
    cells[..., 3] = np.where(pulled & of_rival(pulled), lead, 0)
    flat = cells.clip(-1, 1).reshape(*plays, n_agents * n_arms * 4)
    return np.concatenate([flat, np.asarray(time, dtype=np.float32)[..., None]], axis=-1)


class DiscreteActions(gym.ActionWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """`Discrete(N*K + 1)` for a `ClusteredBAIEnv` of your own, as on the flat ids.

    Action `agent * K + arm` pulls, the last one stops and recommends each agent's empirical best
    from the observation, with ties decided by a fair draw.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        core = env.unwrapped
        if not isinstance(core, ClusteredBAIEnv):
            raise TypeError(f"DiscreteActions wraps a ClusteredBAIEnv, got {type(core).__name__}")
        self._core = core
        self._stop = core.n_agents * core.n_arms
        self.action_space = spaces.Discrete(self._stop + 1)

    def action(self, action: Any) -> tuple[int, Any]:
        number = read_flat(action, self._stop)
        if number == self._stop:
            return STOP, self._core.best_seen()
        return PULL, divmod(number, self._core.n_arms)

    def action_masks(self) -> Bools:
        """(N*K + 1,) which actions make sense now, as `FlatClusteredBAIEnv.action_mask`."""
        core = self._core
        pulls = core.seen[0].sum(axis=1)
        mask = action_mask(self._stop + 1, pulls)
        if core.max_pulls_per_agent is not None:
            mask[:-1] = (pulls < core.max_pulls_per_agent).repeat(core.n_arms)
        return mask.astype(bool)
