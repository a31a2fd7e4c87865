"""The game with a `Discrete` action and, on request, a flat observation, for learning libraries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.actions import FlatActions, are_good, empirical_best, whole
from clustered_bandit_gym.envs.env import ClusteredBAIEnv, Obs, StepResult
from clustered_bandit_gym.envs.game import InstanceBuffer
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import RewardModel
from clustered_bandit_gym.game.seeds import episode_seeds
from clustered_bandit_gym.game.source import Simulator
from clustered_bandit_gym.policy import PULL, STOP

#: Default `max_pulls`: so many orders of the largest size for each (agent, arm) cell.
ORDERS_PER_CELL = 25


class Law(NamedTuple):
    """What a `Simulator` needs of an instance: means (M, K), clusters (N,), the reward model."""

    means: Floats
    clusters: Ints
    rewards: RewardModel


class FlatClusteredBAIEnv(ClusteredBAIEnv):
    """`ClusteredBAIEnv` with one integer as action: the ids with `Discrete` or `Box` in their names.

    What is not said here is as in `ClusteredBAIEnv`.

    ## Action Space
    `Discrete(N * K + 1)`: action `agent * K + arm` pulls, the last one stops and recommends each
    agent's empirical best arm. Ties, and agents without a pull, are decided by a fair draw: an
    arm's index carries no information.

    Longer games need coarser actions. With `pull_sizes=(1, 4, 16)` an action orders that many pulls
    of one arm, drawn at once and answered with their average. With `sweep=True` an agent has one
    action more, behind its arms, that orders as many pulls of *each* of its arms. There are
    S·N·C + 1 actions for S sizes and C = K + 1 with sweeps, else K: action
    `(size_index * N + agent) * C + column`. An order costs ⌈log2(S·C)⌉ bits and one real per arm
    pulled.

    `info["action_mask"]` (int8) and `action_masks()` (booleans) exclude the stop until every agent
    has a pull, for libraries with masks. Without masks an early stop is legal, and a guess.

    ## Observation Space
    With `observation="dict"` that of `ClusteredBAIEnv`. With "box" a vector of N·K·4 + 1 numbers in
    [−1, 1]: see `box_features`.

    ## Rewards
    −`pull_cost` for each pull and −`error_penalty` for each wrong agent, at the stop and, unless
    `truncation="free"`, also at the limit: to say nothing is no way out. On
    `ClusteredBAI-Tiny-Discrete-v0` to pull one arm until the limit returns −2.97 on average, ten
    pulls of each arm and a stop −0.18.

    ## Episode End
    `terminated` at the stop. An order that reaches `max_pulls` ends the episode, too. `truncation`
    decides what it costs:

    | value | at the limit |
    |---|---|
    | "answer" (default) | each agent's empirical best is recommended, wrong ones are charged |
    | "penalty" | every agent is charged as wrong |
    | "free" | nothing is recommended and nothing charged, as in `ClusteredBAIEnv` |

    In the first two nothing is left to earn after the limit: the episode has `terminated`, and
    learners do not bootstrap from its last state. With "free" it is `truncated`. `info["stopped"]`
    is False in all three.

    ## Arguments
    Args:
        observation: "dict" or "box".
        pull_sizes: numbers of pulls that an action can order.
        sweep: add orders for all arms of an agent.
        truncation: see Episode End.
        max_pulls: "auto" is 25 orders of the largest size for each arm of each agent: 300 on Tiny;
            None for no limit.
        settings: of `ClusteredBAIEnv`.

    ## Seeds
    Instances are drawn ahead in batches, and rewards come from `np_random`. With
    `reset(options=...)` or `itemise=True` the episode is played on a `Federation` and equals, draw
    for draw, that of `ClusteredBAIEnv`.
    """

    def __init__(
        self,
        instance: Any = None,
        generator: Any = None,
        *,
        observation: str = "dict",
        pull_sizes: Sequence[int] = (1,),
        sweep: bool = False,
        truncation: str = "answer",
        max_pulls: int | str | None = "auto",
        **settings: Any,
    ) -> None:
        if observation not in ("dict", "box"):
            raise UserError(f"observation must be one of dict, box, got {observation!r}")
        if truncation not in ("answer", "penalty", "free"):
            raise UserError(f"truncation must be one of answer, penalty, free, got {truncation!r}")
        limit = cast("int | None", None if max_pulls == "auto" else max_pulls)
        super().__init__(instance, generator, max_pulls=limit, **settings)
        self.actions = FlatActions(self.n_agents, self.n_arms, pull_sizes, sweep)
        if max_pulls == "auto":
            orders = ORDERS_PER_CELL * self.n_agents * self.n_arms
            self.max_pulls = orders * int(self.actions.sizes.max())
        self.observation = observation
        self.truncation = truncation
        self._order_bits = self.actions.order_bits
        self._masks = self.actions.masks([False, True])
        self._buffer = InstanceBuffer(self)
        self._law: Law | None = None

    @cached_property
    def action_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        return spaces.Discrete(self.actions.stop + 1)

    @cached_property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
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

    @property
    def truth(self) -> Instance:
        if self._instance is None and self._law is not None:
            self._instance = Instance(*self._law, allow_ties=True, allow_overlap=True)
        return super().truth

    # --- the episode ------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._buffer.clear()
        if options or self.itemise or self.max_pulls_per_agent is not None:
            if "local_pulls" in (options or {}):
                raise UserError("local_pulls needs an id without Discrete: a composite action")
            obs, told = super().reset(seed=seed, options=options)
            self._law = Law(self.truth.means, self.truth.clusters, self.truth.rewards)
        else:
            gym.Env.reset(self, seed=seed)
            told = self._draw_game()
            self._begin(told)
            obs = self._observe()
        return obs, told | {"action_mask": self._masks[0].copy()}

    def _begin(self, told: dict[str, Any]) -> None:
        self._scale = told["sigma"]
        self._unpulled = set(range(self.n_agents))
        super()._begin(told)

    def _draw_game(self) -> dict[str, Any]:
        """A fresh instance with rewards from `np_random`; returns what the learner is told."""
        self._federation = None
        self._instance = self.fixed_instance
        drawn = self._buffer.take(1, self.np_random)
        if drawn is not None:
            batch, told_of_all, rows = drawn
            i = rows.start
            self._law = Law(batch.means[i], batch.clusters[i], batch.rewards)
            told = told_of_all.row(i)
        else:
            one = self.draw_instance(episode_seeds(self.np_random)[0])
            self.check_size(one)
            self._instance = one
            self._law = Law(one.means, one.clusters, one.rewards)
            told = self.told_values(one)
        self._source = Simulator(cast(Instance, self._law), self.np_random)
        return told

    def step(self, action: Any) -> StepResult:
        if self._over:
            raise self._no_episode()
        number = whole(action, "a flat action")
        if number == self.actions.stop:
            self._over = True
            charge, info = self._judge(0.0)
            info["stopped"] = True
            return self._observed(charge, True, False, info)
        if not 0 <= number < self.actions.stop:
            raise UserError(f"action {number} is out of range: {self.actions.about}")
        if self.actions.single:
            agent, arm = divmod(number, self.n_arms)
            sample = self._draw_one(agent, arm)
            pulls = 1
        else:
            sample, pulls = self._draw_many(number)
        reward = -self.pull_cost * pulls
        if pulls and (self.max_pulls is None or self._count < self.max_pulls):
            return self._observed(reward, False, False, self._info(sample))
        self._over = True
        if self.truncation == "answer":
            charge, info = self._judge(sample)
            return self._observed(reward + charge, True, False, info)
        info = self._info(sample)
        info["best_arms"] = self.truth.agent_best_arms.copy()
        if self.truncation == "free":
            return self._observed(reward, False, True, info)
        info["wrong_agents"] = self.n_agents
        return self._observed(reward - self.error_penalty * self.n_agents, True, False, info)

    def _draw_one(self, agent: int, arm: int) -> float:
        """One pull of one arm."""
        if self._federation is None:
            sample = self._source.single(agent, arm)
        else:
            sample = self._federation.draw_one(agent, arm)
            self._bill(self._federation, agent, 1)
        self._enter(agent, arm, sample)
        self._unpulled.discard(agent)
        return sample

    def _draw_many(self, number: int) -> tuple[float, int]:
        """An order of many pulls: their average and number. Beyond the limit none are made."""
        agent, column, times = map(int, self.actions.read(number))
        arms = np.arange(self.n_arms) if column == self.n_arms else np.array([column])
        pulls = times * arms.size
        if self.max_pulls is not None and self._count + pulls > self.max_pulls:
            return 0.0, 0
        whom = np.array([agent])
        if self._federation is None:
            averages = self._source.averages(whom, arms, times)
        else:
            averages = self._federation.draw(whom, arms, times)
            self._bill(self._federation, agent, arms.size)
        self._pulls[agent, arms] += times
        old = self._means[agent, arms]
        self._means[agent, arms] = old + (averages - old) * times / self._pulls[agent, arms]
        self._per_agent[agent] += pulls
        self._last = agent, int(arms[-1])
        self._unpulled.discard(agent)
        self._count += pulls
        self._orders += 1
        self._reals += arms.size
        return float(averages.mean()), pulls

    def _judge(self, sample: float) -> tuple[float, dict[str, Any]]:
        """The charge for recommending each agent's empirical best, and the last `info`."""
        assert self._law is not None
        federation = self._federation
        rng = self.np_random if federation is None else federation.rng
        arms = empirical_best(self._pulls, self._means, lambda: rng)
        self._answer = arms
        if federation is not None:
            federation.stop(arms)
        means = self._law.means[self._law.clusters]
        right = are_good(means, arms, self.epsilon)
        wrong = self.n_agents - int(np.count_nonzero(right))
        info = self._info(sample)
        info["correct"] = wrong == 0
        info["agent_correct"] = right
        info["wrong_agents"] = wrong
        info["best_arms"] = means.argmax(axis=1)
        return 0.0 - self.error_penalty * wrong, info

    def _info(self, sample: float) -> dict[str, Any]:
        info = super()._info(sample)
        info["action_mask"] = self._masks[int(not self._unpulled)].copy()
        return info

    def action_masks(self) -> NDArray[np.bool_]:
        """(A,) which actions make sense now; to stop, every agent must have a pull."""
        mask: NDArray[np.bool_] = self._masks[int(not self._unpulled)].astype(np.bool_)
        return mask

    def _observe(self) -> Any:
        if self.observation == "dict":
            return super()._observe()
        time = 0.0 if self.max_pulls is None else self._count / self.max_pulls
        return box_features(self._pulls[None], self._means[None], self._scale, np.array([time]))[0]


def box_features(
    pulls: Ints, means: Floats, sigma: Floats | float, time: Floats
) -> NDArray[np.float32]:
    """(E, N·K·4 + 1) float32 in [−1, 1] of E plays, from `pulls` and `means` (E, N, K).

    Four features of each arm of each agent: the logarithm of its pulls; its mean relative to the
    average of all pulls, in σ; its standard error in σ; its lead over the agent's best other arm,
    in standard errors. At last `time` (E,), the used share of `max_pulls`. They do not change when
    all means shift, or when means and `sigma` are scaled together. Arms without pulls have mean and
    lead 0.
    """
    pulled = pulls > 0
    total = np.maximum(pulls.sum(axis=(1, 2)), 1)
    average = (pulls * means).sum(axis=(1, 2)) / total
    cells = np.zeros((*pulls.shape, 4), dtype=np.float32)
    cells[..., 0] = np.minimum(np.log1p(pulls) / 6, 1)
    cells[..., 1] = np.where(pulled, (means - average[:, None, None]) / (4 * sigma), 0)
    cells[..., 2] = 1 / np.sqrt(1 + pulls)
    if pulls.shape[2] > 1:
        rank = np.argsort(np.where(pulled, means, -np.inf), axis=2)
        best, second = rank[..., -1:], rank[..., -2:-1]
        rival = np.where(np.arange(pulls.shape[2]) == best, second, best)
        both = pulled & np.take_along_axis(pulled, rival, axis=2)
        lead = means - np.take_along_axis(means, rival, axis=2)
        variance = 1 / np.maximum(pulls, 1)
        spread = sigma * np.sqrt(variance + np.take_along_axis(variance, rival, axis=2))
        cells[..., 3] = np.where(both, lead / (4 * spread), 0)
    flat = cells.clip(-1, 1).reshape(len(pulls), -1)
    return np.concatenate([flat, time[:, None].astype(np.float32)], axis=1)


class DiscreteActions(gym.Wrapper[Obs, Any, Obs, Any], gym.utils.RecordConstructorArgs):
    """`Discrete(N*K + 1)` for a `ClusteredBAIEnv` of your own, as on the flat ids.

    Action `agent * K + arm` pulls, the last one stops and recommends each agent's empirical best
    from the observation, with ties decided by a fair draw.
    """

    def __init__(self, env: gym.Env[Obs, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        core = env.unwrapped
        if not isinstance(core, ClusteredBAIEnv):
            raise TypeError(f"DiscreteActions wraps a ClusteredBAIEnv, got {type(core).__name__}")
        self._core = core
        self._actions = FlatActions(core.n_agents, core.n_arms, (1,), False)
        self.action_space = spaces.Discrete(self._actions.stop + 1)

    def step(self, action: int) -> StepResult:
        core, number = self._core, whole(action, "a flat action")
        choice: tuple[int, Any] = PULL, divmod(number, core.n_arms)
        if number == self._actions.stop:
            choice = STOP, empirical_best(*core.seen, lambda: core.federation.rng)
        elif not 0 <= number < self._actions.stop:
            raise UserError(f"action {number} is out of range: {self._actions.about}")
        return cast(StepResult, self.env.step(choice))

    def action_masks(self) -> NDArray[np.bool_]:
        """(N*K + 1,) which actions make sense now; to stop, every agent must have a pull."""
        pulls, _ = self._core.seen
        return self._actions.masks(pulls.any(axis=1).all()).astype(np.bool_)
