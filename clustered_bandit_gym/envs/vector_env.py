"""The flat game, many sub-environments stepped at once in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from clustered_bandit_gym._types import Array, Bools, Floats, Ints, Values
from clustered_bandit_gym.envs.actions import action_mask, empirical_best, integers
from clustered_bandit_gym.envs.flat_env import FlatClusteredBAIEnv, box_features
from clustered_bandit_gym.envs.game import Arrays, InstanceBuffer
from clustered_bandit_gym.envs.rendering import Frame, draw_frame
from clustered_bandit_gym.errors import UnknownSetting, UserError, needs_extra
from clustered_bandit_gym.game.checks import check_choice, whole
from clustered_bandit_gym.game.instance import Instance


class ClusteredBAIVectorEnv(VectorEnv[Any, Array, Array]):
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

    metadata: Values = {
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
        self.num_envs = whole(num_envs, "num_envs")
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        if max_episode_steps is not None:
            settings.setdefault("max_pulls", max_episode_steps)
        try:
            game = FlatClusteredBAIEnv(**settings)
        except UnknownSetting as error:
            raise error.among(ClusteredBAIVectorEnv) from None
        manual = self.autoreset_mode is AutoresetMode.DISABLED
        if manual or game.max_pulls_per_agent is not None or game.batch_rewards is None:
            raise UserError(
                "generators without batches, rewards other than Gaussian and Bernoulli, "
                "max_pulls_per_agent and autoreset_mode DISABLED need "
                "gym.make_vec(..., vectorization_mode='sync'), and with Stable-Baselines3 its own "
                "make_vec_env on a Box id"
            )
        self.game = game
        game.reset()  # its mask is that of all beginnings
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_action_space = game.action_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.single_observation_space = game.observation_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        #: (num_envs, N) arms that ends in the next `step` recommend; None: the empirical best ones.
        self.recommendations: Ints | None = None
        self._buffer: Any = None
        self._sizes = np.array(game.pull_sizes)
        cells = (num_envs, game.n_agents, game.n_arms)
        self._pulls = np.zeros(cells, dtype=int)
        self._means = np.zeros(cells)
        # The instances: arrays (num_envs, ...) as in `draw_arrays`, and what the learners are told.
        drawn = game.draw_arrays(np.random.default_rng(0), 1)
        first = game.always_told | {key: values[0] for key, values in drawn.items()}
        self._drawn = {key: np.array([value] * num_envs) for key, value in first.items()}
        #: (num_envs, N) pulls so far.
        self.pulls_per_agent = np.zeros(cells[:2], dtype=int)
        self._count = np.zeros(num_envs, dtype=int)
        self._orders = np.zeros(num_envs, dtype=int)
        #: Sub-environments whose episode is over.
        self._done = np.zeros(num_envs, dtype=bool)
        # For pictures: frames not yet asked for, the last step's `info`, and (num_envs, N) the arms
        # that ends recommended, −1 for none.
        self._frames: list[list[Frame]] = [[] for _ in range(num_envs)]
        self._last_values: Values = {}
        self._answers = np.full(cells[:2], -1)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Values | None = None,
    ) -> tuple[Any, Values]:
        if options:
            raise UserError(f"the vector environment takes no reset options, got {options}")
        if seed is not None or self._buffer is None:
            # One stream that all share, from one number or from one for each sub-environment.
            self._np_random = np.random.default_rng(seed)  # type: ignore[arg-type]
            self._np_random_seed = seed if isinstance(seed, int) else -1
            self._buffer = InstanceBuffer(self.game, self.num_envs)
        self.begin(np.arange(self.num_envs))
        self._collect()
        return self.observe(), masked(self.told(), ~self._done)

    def begin(self, which: Ints) -> None:
        """Start an episode of each sub-environment of `which`."""
        drawn, rows = self._buffer.take(which.size, self.np_random)
        for key, values in drawn.items():
            self._drawn[key][which] = values[rows]
        for state in (self._pulls, self._means, self.pulls_per_agent, self._count, self._orders):
            state[which] = 0
        self._done[which] = False

    def told(self) -> Arrays:
        """What the learners are told when episodes begin, (num_envs, ...) each."""
        told = {key: self._drawn[key].copy() for key in self.game.always_told}
        return told | {"action_mask": self._mask()}

    def told_of(self, i: int) -> Values:
        """What the learner of sub-environment i is told when an episode begins."""
        return self.game.told_of(self._drawn, i) | {"action_mask": self.game.action_mask()}

    def step(self, actions: Array) -> tuple[Any, Array, Array, Array, Values]:
        began = self._done
        rewards, terminated, truncated, values = self.play(actions)
        values["action_mask"] = self._mask()
        if began.any():
            self.begin(began.nonzero()[0])
        self._collect()
        infos: Values = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._done.any():
            began = self._done.copy()
            last = np.full(self.num_envs, None, dtype=object)
            obs = self.observe()
            for i in began.nonzero()[0].tolist():
                last[i] = row_of(obs, i)
            infos = masked({"final_info": values, "final_obs": last}, began)
            self.begin(began.nonzero()[0])
        if not began.all():
            infos |= masked(values, ~began)
        if began.any():
            infos |= masked(self.told(), began)
        infos["_action_mask"] = np.ones(self.num_envs, dtype=bool)
        return self.observe(), rewards, terminated, truncated, infos

    def play(self, actions: Array) -> tuple[Array, Array, Array, Values]:
        """A step of the sub-environments that are not over, without resets.

        Returns:
            Rewards, terminated, truncated, and the values of `info`, (num_envs, ...) each.
        """
        if self._buffer is None:
            raise ResetNeeded("Cannot call envs.step() before calling envs.reset()")
        game = self.game
        actions = integers(actions, (self.num_envs,), game.stop_action + 1)
        stops = actions == game.stop_action
        stopped = stops & ~self._done
        samples, pulls, late = self._pull(~(stops | self._done), actions)
        done = stopped | late
        terminated = stopped if game.truncation == "free" else done
        values = self._values() | {"sample": samples, "stopped": stopped}
        rewards = -game.pull_cost * pulls
        over = done.nonzero()[0]
        if over.size:
            self._judge(over, terminated, values)
            rewards -= game.error_penalty * values["wrong_agents"]
        self._done = done.copy()
        self._last_values = values
        self.recommendations = None
        return rewards, terminated, done & ~terminated, values

    def _pull(self, pulling: Bools, actions: Ints) -> tuple[Floats, Ints, Bools]:
        """Carry out the orders of `pulling`; samples, pulls, and who is at the limit (num_envs,)."""
        game = self.game
        n_cells = game.n_agents * game.n_arms
        bandits = self._drawn["means"]
        sizes, cells = np.divmod(np.where(pulling, actions, 0), n_cells)
        times = self._sizes[sizes]
        fits = pulling & (self._count + times <= game.limit)
        which = fits.nonzero()[0]
        # Flat indices take 0.6 of the time of (play, agent, arm).
        pulls = times * fits
        cells = which * n_cells + cells[which]
        times = times[which]
        rows, arms = np.divmod(cells, game.n_arms)
        clusters = which * bandits.shape[1] + self._drawn["clusters"].ravel()[rows]
        means = bandits.reshape(-1, game.n_arms)
        averages = game.batch_rewards.average(self.np_random, means, clusters, arms, times)
        all_pulls = self._pulls.reshape(-1)
        all_means = self._means.reshape(-1)
        counts = all_pulls[cells] + times
        old = all_means[cells]
        all_pulls[cells] = counts
        all_means[cells] = old + (averages - old) * times / counts
        self.pulls_per_agent.reshape(-1)[rows] += times
        samples = np.zeros(self.num_envs)
        samples[which] = averages
        self._count += pulls
        self._orders += fits
        return samples, pulls, pulling & ~(fits & (self._count < game.limit))

    def _judge(self, which: Ints, terminated: Bools, values: Values) -> None:
        """Enter the outcome of episodes that are over; those `terminated` are charged for errors."""
        game = self.game
        cluster = which[:, None], self._drawn["clusters"][which]
        if self.recommendations is None:
            arms = empirical_best(self._pulls[which], self._means[which], self.np_random)
        else:
            arms = integers(self.recommendations, self._answers.shape, game.n_arms)[which]
        if game.truncation != "answer":
            arms = np.where(values["stopped"][which, None], arms, -1)
        right = self._drawn["good"][*cluster, arms] & (arms >= 0)
        self._answers[which] = arms
        values["correct"][which] = right.all(axis=1)
        values["agent_correct"][which] = right
        values["wrong_agents"][which] = (terminated[which, None] & ~right).sum(axis=1)
        values["best_arms"][which] = self._drawn["best"][cluster]

    def _values(self) -> Values:
        """The `info` before the end, with nothing of the truth and without a sample."""
        return {
            "correct": np.zeros(self.num_envs, dtype=bool),
            "agent_correct": np.zeros(self.pulls_per_agent.shape, dtype=bool),
            "wrong_agents": np.zeros(self.num_envs, dtype=int),
            "best_arms": np.full(self.pulls_per_agent.shape, -1),
            "pulls": self._count.copy(),
            "pulls_per_agent": self.pulls_per_agent.copy(),
            "communication": self.game.bill(self._orders.copy()),
        }

    def observe(self, which: Any = slice(None)) -> Any:
        """Copies of the observations of `which` now."""
        pulls = self._pulls[which].copy()
        means = self._means[which].copy()
        if self.game.observation == "dict":
            return {"means": means, "pulls": pulls}
        sigma = self._drawn["sigma"][which, None, None]
        return box_features(pulls, means, sigma, self._count[which] / self.game.limit)

    def _mask(self) -> Array:
        return action_mask(self.game.stop_action + 1, self.pulls_per_agent)

    def action_masks(self) -> Bools:
        """(num_envs, A) which actions make sense now; to stop, every agent must have a pull."""
        return self._mask().astype(bool)

    def instance(self, i: int) -> Instance:
        """The instance that sub-environment i plays, for judges and pictures; not for learners."""
        if self._buffer is None:
            raise ResetNeeded("There is no play yet: call envs.reset() first")
        means = self._drawn["means"][i]
        clusters = self._drawn["clusters"][i]
        return self.game.fixed_instance or Instance(means, clusters, self.game.batch_rewards)

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
        info = row_of(self._last_values if self._done[i] else self._values(), i)
        arms = self._answers[i] if self._done[i] else None
        with needs_extra("plots"):
            return draw_frame(problem, self._pulls[i], self._means[i], info, arms)


def masked(values: Values, mask: Bools) -> Values:
    """`values`, arrays (num_envs, ...), and beside each its `mask` (num_envs,): `_sample`.

    Rows where the mask is False mean nothing.
    """
    infos: Values = {}
    for key, value in values.items():
        infos[key] = masked(value, mask) if isinstance(value, dict) else value
        infos["_" + key] = mask
    return infos


def row_of(values: Any, i: int) -> Any:
    """Row i of arrays (num_envs, ...) in nested dictionaries; numbers as Python's."""
    if isinstance(values, dict):
        return {key: row_of(value, i) for key, value in values.items()}
    return values.item(i) if values.ndim == 1 else values[i]
