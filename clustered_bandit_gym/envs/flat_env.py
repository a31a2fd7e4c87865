"""`FlatClusteredBAIEnv`: the game with a `Discrete` action, for learning libraries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.envs.actions import FlatActions, empirical_best, whole
from clustered_bandit_gym.envs.box import box_features, box_space
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.instance_buffer import InstanceBuffer, Law
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import episode_seeds
from clustered_bandit_gym.game.source import Simulator

if TYPE_CHECKING:
    from clustered_bandit_gym.envs.rendering.view import View

OBSERVATIONS = ("dict", "box")
TRUNCATIONS = ("answer", "penalty", "free")
#: Default `max_pulls`: so many orders of the largest size for each (agent, arm) cell.
ORDERS_PER_CELL = 25


class FlatClusteredBAIEnv(ClusteredBAIEnv):
    """`ClusteredBAIEnv` with one integer as action: the ids with `Discrete` or `Box` in their names.

    What is not said here is as in `ClusteredBAIEnv`.

    ## Action Space
    `Discrete(N * K + 1)`: action `agent * K + arm` pulls, the last one stops and recommends each agent's empirical
    best arm. Ties, and agents without a pull, are decided by a fair draw: an arm's index carries no information.

    Longer games need coarser actions. With `pull_sizes=(1, 4, 16)` an action orders that many pulls of one arm, drawn
    at once and answered with their average. With `sweep=True` an agent has one action more, behind its arms, that
    orders as many pulls of *each* of its arms. There are S·N·C + 1 actions for S sizes and C = K + 1 with sweeps, else
    K: action `(size_index * N + agent) * C + column`. An order costs ⌈log2(S·C)⌉ bits and one real per arm pulled.

    `info["action_mask"]` (int8) and `action_masks()` (booleans) exclude the stop until every agent has a pull, for
    libraries with masks. Without masks an early stop is legal, and a guess.

    ## Observation Space
    With `observation="dict"` that of `ClusteredBAIEnv`. With "box" a vector of N·K·4 + 1 numbers in [−1, 1]: for each
    arm of each agent the logarithm of its pulls, its mean relative to the average of all pulls, its standard error, and
    its lead over the agent's best other arm in standard errors; at last the used share of `max_pulls`.

    ## Rewards
    −`pull_cost` for each pull and −`error_penalty` for each wrong agent, at the stop and also at the limit: to say
    nothing is no way out. On `ClusteredBAI-Tiny-Discrete-v0` to pull one arm until the limit returns −2.97 on average,
    ten pulls of each arm and a stop −0.18.

    ## Episode End
    `terminated` at the stop. An order that reaches `max_pulls` ends the episode with `truncated`. `truncation` decides
    what it costs:

    | value | at the limit |
    |---|---|
    | "answer" (default) | the environment recommends each agent's empirical best and charges the wrong ones |
    | "penalty" | every agent is charged as wrong |
    | "free" | nothing is recommended and nothing charged, as in `ClusteredBAIEnv` |

    In the first two nothing is left to earn after the limit. So `terminated` is set as well, and learners do not
    bootstrap from the state at the limit. `info["stopped"]` is False in all three.

    ## Arguments
    Args:
        observation: "dict" or "box".
        pull_sizes: numbers of pulls that an action can order.
        sweep: add orders for all arms of an agent.
        truncation: see Episode End.
        max_pulls: "auto" is 25 orders of the largest size for each arm of each agent: 300 on Tiny; None for no limit.
        settings: of `ClusteredBAIEnv`.

    ## Seeds
    Instances are drawn ahead in batches, and rewards come from `np_random`. With `reset(options=...)` or `itemise=True`
    the episode is played on a `Federation` and equals, draw for draw, that of `ClusteredBAIEnv`.
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
        for name, value, known in (
            ("observation", observation, OBSERVATIONS),
            ("truncation", truncation, TRUNCATIONS),
        ):
            if value not in known:
                raise UserError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        limit = cast("int | None", None if max_pulls == "auto" else max_pulls)
        super().__init__(instance, generator, max_pulls=limit, **settings)
        self.actions = FlatActions(self.n_agents, self.n_arms, pull_sizes, sweep)
        if max_pulls == "auto":
            cells = self.n_agents * self.n_arms
            self.max_pulls = ORDERS_PER_CELL * cells * max(self.actions.sizes)
        self.observation = observation
        self.truncation = truncation
        self._order_bits = self.actions.order_bits
        self._buffer = InstanceBuffer(self)
        self._law: Law | None = None
        self._masks: list[np.ndarray] = []
        for stop_allowed in (0, 1):
            mask = np.ones(self.actions.n, dtype=np.int8)
            mask[-1] = stop_allowed
            self._masks.append(mask)

    @cached_property
    def action_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        return spaces.Discrete(self.actions.n)

    @cached_property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        if self.observation == "box":
            return box_space(self.n_agents, self.n_arms)
        return super().observation_space

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """As Gymnasium sets it; `max_episode_steps` is `max_pulls`, which wrappers with a sense of time ask for."""
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

    # --- the episode -------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._buffer.clear()
        if options or self.itemise or self.max_pulls_per_agent is not None:
            if set(options or ()) & {"local_pulls"}:
                raise UserError(
                    "local_pulls needs the composite action: use the id without Discrete"
                )
            obs, info = super().reset(seed=seed, options=options)
            self._law = Law(self.truth.means, self.truth.clusters, self.truth.rewards)
        else:
            gym.Env.reset(self, seed=seed)
            info = self._draw_game()
            self._begin()
            obs = None
        self._scale = info["sigma"]
        return self._observe() if obs is None or self.observation == "box" else obs, info | {
            "action_mask": self._masks[0].copy()
        }

    def _begin(self) -> None:
        self._orders = 0
        self._reals = 0
        self._without_pull = self.n_agents
        super()._begin()

    def _draw_game(self) -> dict[str, Any]:
        """A fresh instance with rewards from `np_random`; returns what the learner is told."""
        drawn = self._buffer.take(1, self.np_random)
        self._federation = None
        self._instance = self.fixed_instance
        if drawn is not None:
            self._law = drawn.law
            told = drawn.told_of_first
        else:
            one = self.draw_instance(episode_seeds(self.np_random)[0])
            self.check_size(one)
            self._instance = one
            self._law = Law(one.means, one.clusters, one.rewards)
            told = self.told_values(one)
        self._source = Simulator(cast(Instance, self._law), self.np_random)
        return told

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise self._no_episode()
        number = action if type(action) is int else whole(action, "a flat action")
        actions = self.actions
        if number == actions.stop:
            reward, info = self._judge(self._best(), 0.0)
            info["stopped"] = True
            self._over = True
            return self._observed(0.0 + reward, True, False, info)
        if not 0 <= number < actions.stop:
            raise UserError(f"action {number} is out of range: {actions.about}")
        limit = self.max_pulls
        if actions.single:
            agent, arm = divmod(number, self.n_arms)
            pulls = 1
            sample = self._draw_one(agent, arm)
            reward = -self.pull_cost
        else:
            agent, column, times = actions.read(number)
            pulls = times * (self.n_arms if column == self.n_arms else 1)
            if limit is not None and self._count + pulls > limit:
                pulls, sample, limit = 0, 0.0, self._count  # not carried out: the episode ends here
            else:
                sample = self._draw_many(agent, column, times)
            reward = -self.pull_cost * pulls
        if limit is None or self._count < limit:
            return self._observed(reward, False, False, self._info(sample, self._orders))
        self._over = True
        charged, info = self._at_limit(sample)
        free = self.truncation == "free"
        return self._observed(reward + charged, not free, True, info)

    def _observed(
        self, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.render_mode == "human":
            self.render()
        return self._observe(), reward, terminated, truncated, info

    def _draw_one(self, agent: int, arm: int) -> float:
        """One pull of one arm."""
        federation = self._federation
        if federation is None:
            sample = self._source.single(agent, arm)
        else:
            sample = federation.draw_one(agent, arm)
            self._bill(federation, agent)
        self._without_pull -= self._is_new(agent)
        self._enter(agent, arm, sample)
        self._orders += 1
        self._reals += 1
        return sample

    def _draw_many(self, agent: int, column: int, times: int) -> float:
        """An order of `times` pulls of one arm, or of each arm of the agent; returns the average reward."""
        federation = self._federation
        arms = np.arange(self.n_arms) if column == self.n_arms else np.array([column])
        whom = np.array([agent])
        if federation is None:
            averages = self._source.averages(whom, arms, times)
        else:
            averages = federation.draw(whom, arms, times)
            phase = federation.current_phase
            federation.ledger.record(phase, "down", "order", whom, self._order_bits, 0)
            federation.ledger.record(phase, "up", "real", whom, 0, arms.size)
            federation.rounds += 1
        self._without_pull -= self._is_new(agent)
        self._pulls[agent, arms] += times
        old = self._means[agent, arms]
        self._means[agent, arms] = old + (averages - old) * times / self._pulls[agent, arms]
        self._last = agent, int(arms[-1])
        self._count += times * arms.size
        self._orders += 1
        self._reals += arms.size
        return float(averages.mean())

    def _is_new(self, agent: int) -> bool:
        """Whether the agent has no pull yet. Not asked any more once every agent has one."""
        return self._without_pull > 0 and not self._pulls[agent].any()

    def _best(self) -> Ints:
        """(N,) each agent's empirical best."""
        federation = self._federation
        rng = self.np_random if federation is None else federation.rng
        return empirical_best(self._pulls, self._means, lambda: rng)

    def _at_limit(self, sample: float) -> tuple[float, dict[str, Any]]:
        """What the limit costs, and the last `info`."""
        if self.truncation == "answer":
            return self._judge(self._best(), sample)
        info = self._info(sample, self._orders) | {"best_arms": self.truth.agent_best_arms.copy()}
        if self.truncation == "free":
            return 0.0, info
        info["wrong_agents"] = self.n_agents
        return -self.error_penalty * self.n_agents, info

    def _judge(self, arms: Ints, sample: float) -> tuple[float, dict[str, Any]]:
        """The charge for recommending `arms` (N,), and the last `info`."""
        assert self._law is not None
        self._answer = arms
        if self._federation is not None:
            self._federation.stop(arms)
        means = self._law.means[self._law.clusters]
        chosen = means[np.arange(self.n_agents), arms]
        right = means.max(axis=1) - chosen <= self.epsilon * (1 + 1e-9)
        wrong = self.n_agents - int(np.count_nonzero(right))
        info = self._info(sample, self._orders)
        info["correct"] = wrong == 0
        info["agent_correct"] = right
        info["wrong_agents"] = wrong
        info["best_arms"] = means.argmax(axis=1)
        return -self.error_penalty * wrong, info

    def _info(self, sample: float, orders: int) -> dict[str, Any]:
        info = super()._info(sample, orders)
        if self._reals != orders:
            info["communication"]["reals_up"] = self._reals
            info["communication"]["cost"] += self.c_r * (self._reals - orders)
        info["action_mask"] = self._masks[self._without_pull == 0].copy()
        return info

    def action_masks(self) -> np.ndarray:
        """(S·N·C + 1,) booleans: which actions make sense now; to stop, every agent must have a pull."""
        return self._masks[self._without_pull == 0].astype(np.bool_)

    def _observe(self) -> Any:
        if self.observation == "dict":
            return super()._observe()
        time = np.array([0.0 if self.max_pulls is None else self._count / self.max_pulls])
        return box_features(self._pulls[None], self._means[None], self._scale, time)[0]

    def _view(self) -> View:
        from clustered_bandit_gym.envs.rendering.view import View

        truth = self.truth
        cost = self._info(0.0, self._orders)["communication"]["cost"]
        per_agent = self._pulls.sum(axis=1)
        problem = self.problem_of(truth)
        view = View(problem, self._pulls, self._means, per_agent, cost, self._last)
        return view.ended(truth, self._answer) if self._over else view
