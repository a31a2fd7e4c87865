"""The flat game, many sub-environments stepped at once in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.actions import are_good, empirical_best, integers
from clustered_bandit_gym.envs.env import check_render_mode
from clustered_bandit_gym.envs.flat_env import FlatClusteredBAIEnv, box_features
from clustered_bandit_gym.envs.game import InstanceBuffer
from clustered_bandit_gym.envs.rendering import Frame, View, draw_frame
from clustered_bandit_gym.errors import UserError, needs_extra
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Gaussian, RewardModel

Bools = NDArray[np.bool_]


class ClusteredBAIVectorEnv(VectorEnv[Any, NDArray[Any], NDArray[Any]]):
    """`FlatClusteredBAIEnv`, `num_envs` times, stepped, begun and ended together in NumPy.

    Actions are (num_envs,) integers as in the single environment; observations and `info` have one
    row per sub-environment, with Gymnasium's masks (`_sample`, ...). Set `envs.recommendations` to
    (num_envs, N) arms before a step, and stops in that step, and answers at the limit, recommend
    those.

    All sub-environments share one stream, seeded by `reset(seed=...)`: instances are drawn in
    batches and the rewards of a step at once. Episodes have the law of the single environment, not
    its draws. Some games need Gymnasium's own vectorisation, `gym.make_vec(...,
    vectorization_mode="sync")`: generators without a batch form (see
    `generators.InstanceGenerator.batch`), reward models other than `Gaussian` and `Bernoulli`,
    and `max_pulls_per_agent`.

    Args:
        num_envs: number of sub-environments.
        max_episode_steps: Gymnasium's name for `max_pulls`, where that is not given.
        autoreset_mode: NEXT_STEP resets at the step after the end and ignores that action;
            SAME_STEP resets at the end, and `infos` has `final_obs` and `final_info`.
        render_mode: None; "rgb_array": `render()` gives a frame of each sub-environment;
            "rgb_array_list": lists of the frames of all steps since the last call, ends included.
        settings: of `FlatClusteredBAIEnv`.
    """

    metadata: dict[str, Any] = {
        "render_modes": ["rgb_array", "rgb_array_list"],
        "render_fps": FlatClusteredBAIEnv.metadata["render_fps"],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        check_render_mode(render_mode, self.metadata)
        if max_episode_steps is not None:
            settings.setdefault("max_pulls", max_episode_steps)
        game = FlatClusteredBAIEnv(**settings)
        manual = self.autoreset_mode is AutoresetMode.DISABLED
        if manual or game.max_pulls_per_agent or not game.has_batches:
            raise UserError(
                "generators without batches, rewards other than Gaussian and Bernoulli, "
                "max_pulls_per_agent and autoreset_mode DISABLED need "
                "gym.make_vec(..., vectorization_mode='sync')"
            )
        self.game = game
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_action_space = game.action_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.single_observation_space = game.observation_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        #: (num_envs, N) arms that ends in the next `step` recommend; None: the empirical best ones.
        self.recommendations: Ints | None = None
        cells = (num_envs, game.n_agents, game.n_arms)
        self._sizes = np.array(game.pull_sizes)
        self._pulls: Ints = np.zeros(cells, dtype=np.int64)
        self._means: Floats = np.zeros(cells)
        self._per_agent: Ints = np.zeros(cells[:2], dtype=np.int64)
        self._count: Ints = np.zeros(num_envs, dtype=np.int64)
        self._orders: Ints = np.zeros(num_envs, dtype=np.int64)
        #: Sub-environments that the next step resets.
        self._done: Bools = np.zeros(num_envs, dtype=np.bool_)
        # The truth: mean rewards of each agent, the law, and where the instance is.
        self._truth: Floats = np.zeros(cells)
        self._model: RewardModel = Gaussian()
        self._origins: list[Any] = [None] * num_envs
        self._told: dict[str, NDArray[Any]] = {}
        for key, value in game.told_values(game.draw_instance(0)).items():
            self._told[key] = np.array([value] * num_envs)
        self._buffer = InstanceBuffer(game, num_envs)
        self._started = False
        # For pictures: frames not yet asked for, the last step's `info`, and (num_envs, N) the arms
        # that ends recommended, −1 for none.
        self._frames: list[list[Frame]] = [[] for _ in range(num_envs)]
        self._last_values: dict[str, Any] = {}
        self._answers: Ints = np.full(cells[:2], -1)

    # --- reset ------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        if options:
            raise UserError(f"the vector environment takes no reset options, got {options}")
        if seed is not None or not self._started:
            # One stream that all share, from one number or from one for each sub-environment.
            self._np_random = np.random.default_rng(seed)  # type: ignore[arg-type]
            self._np_random_seed = seed if isinstance(seed, int) else -1
            self._buffer = InstanceBuffer(self.game, self.num_envs)
        self._started = True
        self._done = np.zeros(self.num_envs, dtype=np.bool_)
        self._begin(np.arange(self.num_envs))
        self._collect()
        infos: dict[str, Any] = {}
        enter(infos, ~self._done, self._told_now() | {"action_mask": self._action_mask()})
        return self.observe(), infos

    def _begin(self, which: Ints) -> None:
        """Start an episode of each sub-environment of `which`."""
        batch, told, rows = self._buffer.take(which.size, self.np_random)
        self._model = batch.rewards
        # `take_along_axis` would add 7% to a step in which one episode in a hundred ends.
        plays = np.arange(rows.start, rows.stop)[:, None]
        self._truth[which] = batch.means[plays, batch.clusters[rows]]
        for key, values in told.varied.items():
            self._told[key][which] = values[rows]
        for row, i in enumerate(which.tolist(), rows.start):
            self._origins[i] = batch, row
        for state in (self._pulls, self._means, self._per_agent, self._count, self._orders):
            state[which] = 0

    def _told_now(self) -> dict[str, NDArray[Any]]:
        """What the learners are told, (num_envs, ...) each."""
        return {key: values.copy() for key, values in self._told.items()}

    # --- step -------------------------------------------------------------------------------------

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        if not self._started:
            raise ResetNeeded("Cannot call envs.step() before calling envs.reset()")
        game = self.game
        actions = integers(actions, (self.num_envs,), game.stop_action + 1)
        began = self._done
        acting = ~began
        stopped = acting & (actions == game.stop_action)
        samples, pulls, late = self._pull(acting & ~stopped, actions)
        done = stopped | late
        terminated = stopped if game.truncation == "free" else done
        values = self._values(samples, stopped)
        rewards: NDArray[Any] = -game.pull_cost * pulls
        if done.any():
            self._judge(done, terminated, values)
            rewards = rewards - game.error_penalty * values["wrong_agents"]
        if began.any():
            self._begin(np.flatnonzero(began))
        self._done, self._last_values = done, values
        self._collect()
        infos: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and done.any():
            self._enter_final(infos, done, values)
            began, acting = done, ~done
            self._begin(np.flatnonzero(done))
            self._done = np.zeros(self.num_envs, dtype=np.bool_)
        if acting.any():
            enter(infos, acting, values)
        if began.any():
            enter(infos, began, self._told_now())
        everywhere = np.ones(self.num_envs, dtype=np.bool_)
        enter(infos, everywhere, {"action_mask": self._action_mask()})
        self.recommendations = None
        return self.observe(), rewards, terminated, done & ~terminated, infos

    def _pull(self, pulling: Bools, actions: Ints) -> tuple[Floats, Ints, Bools]:
        """Carry out the orders of `pulling`; samples, pulls, and who is at the limit (num_envs,)."""
        samples: Floats = np.zeros(self.num_envs)
        pulls: Ints = np.zeros(self.num_envs, dtype=np.int64)
        game = self.game
        n_cells = game.n_agents * game.n_arms
        sizes, cells = np.divmod(np.where(pulling, actions, 0), n_cells)
        times = self._sizes[sizes]
        fits = pulling & (self._count + times <= game.limit)
        which = np.flatnonzero(fits)
        # Flat indices take 0.6 of the time of (play, agent, arm).
        cells, times = which * n_cells + cells[which], times[which]
        rows, arms = np.divmod(cells, game.n_arms)
        means = self._truth.reshape(-1, game.n_arms)
        averages = self._model.average(self.np_random, means, rows, arms, times)
        all_pulls, all_means = self._pulls.reshape(-1), self._means.reshape(-1)
        counts = all_pulls[cells] + times
        old = all_means[cells]
        all_pulls[cells] = counts
        all_means[cells] = old + (averages - old) * times / counts
        self._per_agent.reshape(-1)[rows] += times
        samples[which] = averages
        pulls[which] = times
        self._count += pulls
        self._orders += fits
        return samples, pulls, pulling & ~(fits & (self._count < game.limit))

    def _judge(self, done: Bools, terminated: Bools, values: dict[str, Any]) -> None:
        """Enter the outcome of the episodes `done`; those `terminated` are charged for errors."""
        game, which = self.game, np.flatnonzero(done)
        truth = self._truth[which]
        if self.recommendations is None:
            arms = empirical_best(self._pulls[which], self._means[which], self.np_random)
        else:
            shape = (self.num_envs, game.n_agents)
            arms = integers(self.recommendations, shape, game.n_arms)[which]
        answered = values["stopped"] if game.truncation == "penalty" else terminated
        answered = answered[which, None]
        right = are_good(truth, arms, game.epsilon) & answered
        self._answers[which] = np.where(answered, arms, -1)
        values["correct"][which] = right.all(axis=1)
        values["agent_correct"][which] = right
        values["wrong_agents"][which] = (terminated[which, None] & ~right).sum(axis=1)
        values["best_arms"][which] = truth.argmax(axis=2)

    # --- what is told -----------------------------------------------------------------------------

    def _values(self, samples: Floats, stopped: Bools) -> dict[str, Any]:
        """The `info` of a step before the end, with nothing of the truth."""
        shape = self._per_agent.shape
        nothing: Ints = np.zeros(self.num_envs, dtype=np.int64)
        bits = self._orders * self.game.order_bits
        return {
            "sample": samples,
            "stopped": stopped,
            "correct": np.zeros(self.num_envs, dtype=np.bool_),
            "agent_correct": np.zeros(shape, dtype=np.bool_),
            "wrong_agents": nothing.copy(),
            "pulls": self._count.copy(),
            "pulls_per_agent": self._per_agent.copy(),
            "communication": {
                "cost": self.game.c_b * bits + self.game.c_r * self._orders,
                "bits_up": nothing,
                "bits_down": bits,
                "reals_up": self._orders.copy(),
                "reals_down": nothing,
            },
            "best_arms": np.full(shape, -1),
        }

    def _enter_final(self, infos: dict[str, Any], done: Bools, values: dict[str, Any]) -> None:
        """Enter `final_info` and `final_obs` of episodes `done`, after which the next begin."""
        last: dict[str, Any] = {}
        enter(last, done, {**values, "action_mask": self._action_mask()})
        obs = self.observe()
        observations = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(done).tolist():
            observations[i] = row_of(obs, i)
        infos["final_info"], infos["final_obs"] = last, observations
        infos["_final_info"] = infos["_final_obs"] = done

    def observe(self) -> Any:
        """Copies of the observations now."""
        if self.game.observation == "dict":
            return {"means": self._means.copy(), "pulls": self._pulls.copy()}
        sigma = self._told["sigma"][:, None, None]
        return box_features(self._pulls, self._means, sigma, self._count / self.game.limit)

    def _action_mask(self) -> NDArray[np.int8]:
        mask = np.ones((self.num_envs, self.game.stop_action + 1), dtype=np.int8)
        mask[:, -1] = self._per_agent.all(axis=1)
        return mask

    def action_masks(self) -> Bools:
        """(num_envs, A) which actions make sense now; to stop, every agent must have a pull."""
        return self._action_mask().astype(np.bool_)

    def instance(self, i: int) -> Instance:
        """The instance that sub-environment i plays, for judges and pictures; not for learners."""
        if not self._started:
            raise ResetNeeded("There is no play yet: call envs.reset() first")
        instances, row = self._origins[i]
        return self.game.fixed_instance or instances[row]

    def render(self) -> tuple[Any, ...] | None:
        """For each sub-environment a frame, or the frames since the last call: `render_mode`."""
        if self.render_mode is None:
            return None
        if self.render_mode == "rgb_array":
            return tuple(self._picture(i) for i in range(self.num_envs))
        frames = tuple(self._frames)
        self._frames = [[] for _ in frames]
        return frames

    def _collect(self) -> None:
        """Keep a frame of each, in mode "rgb_array_list"."""
        if self.render_mode == "rgb_array_list":
            for i, frames in enumerate(self._frames):
                frames.append(self._picture(i))

    def _picture(self, i: int) -> Frame:
        problem = self.game.problem_of(self.instance(i))
        cost = self._orders[i] * (self.game.c_b * self.game.order_bits + self.game.c_r)
        outcome = row_of(self._last_values, i) if self._done[i] else None
        arms = None if self._answers[i, 0] < 0 else self._answers[i]
        seen = self._pulls[i], self._means[i], self._per_agent[i]
        with needs_extra("plots"):
            return draw_frame(View(problem, *seen, cost, outcome, arms))


def enter(infos: dict[str, Any], mask: Bools, values: dict[str, Any]) -> None:
    """Enter `values`, arrays (num_envs, ...), and beside each its `mask` (num_envs,): `_sample`.

    Rows where the mask is False mean nothing.
    """
    for key, value in values.items():
        infos["_" + key] = mask
        if isinstance(value, dict):
            infos[key] = {}
            enter(infos[key], mask, value)
        else:
            infos[key] = value


def row_of(values: Any, i: int) -> Any:
    """Row i of arrays (num_envs, ...) in nested dictionaries, without masks; numbers as Python's."""
    if not isinstance(values, dict):
        return values.item(i) if values.ndim == 1 else values[i]
    row = {}
    for key, value in values.items():
        if key[0] != "_":
            # Not by another call: ends of episodes take a tenth less time.
            is_number = not isinstance(value, dict) and value.ndim == 1
            row[key] = value.item(i) if is_number else row_of(value, i)
    return row
