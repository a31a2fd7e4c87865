"""The flat game, many sub-environments stepped at once in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.actions import check_recommendations, empirical_best
from clustered_bandit_gym.envs.box import box_features
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.flat_env import FlatClusteredBAIEnv
from clustered_bandit_gym.envs.instance_buffer import InstanceBuffer
from clustered_bandit_gym.envs.rendering.view import View
from clustered_bandit_gym.envs.vector_info import Bools, Ended, Step, as_mask, enter
from clustered_bandit_gym.envs.vector_options import new_stream, read_reset_options, read_seed
from clustered_bandit_gym.envs.vector_rewards import VectorRewards
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.pulls import MAX_PULLS
from clustered_bandit_gym.game.seeds import POLICY, REWARDS, Seed, episode_seeds, play_stream


class ClusteredBAIVectorEnv(VectorEnv[Any, np.ndarray, np.ndarray]):
    """`FlatClusteredBAIEnv`, `num_envs` times, stepped, begun and ended together in NumPy.

    Actions are (num_envs,) integers as in the single environment, observations and `info` have one row per
    sub-environment, with Gymnasium's masks (`_sample`, ...). Set `envs.recommendations` to (num_envs, N) arms before a
    step, and stops in that step, and answers at the limit, recommend those.

    All sub-environments share one stream, seeded by `reset(seed=...)`: instances are drawn in batches and the rewards
    of a step at once. Episodes have the law of the single environment, not its draws. Where `reset(options=...)` gives
    `instance_seed` and `play_seed`, the episode equals that of the single environment with these seeds, draw for draw.
    A generator without a batch form (see `generators.InstanceGenerator.batch`) is called once for each episode.

    Args:
        num_envs: number of sub-environments.
        max_episode_steps: truncate after this many steps, as the `TimeLimit` wrapper does.
        autoreset_mode: any of Gymnasium's; the default resets at the step after the end and ignores that action.
        render_mode: None, "rgb_array", "rgb_array_list" or "ansi".
        settings: of `FlatClusteredBAIEnv`.

    `reset(options=...)` takes `reset_mask` (which sub-environments to reset), `instance_seed` and `play_seed` (one for
    all, or one for each sub-environment).
    """

    metadata: dict[str, Any] = {
        "render_modes": ["rgb_array", "rgb_array_list", "ansi"],
        "render_fps": ClusteredBAIEnv.metadata["render_fps"],
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
        for name, value in (("num_envs", num_envs), ("max_episode_steps", max_episode_steps)):
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, got {value}")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UserError(
                f"render_mode must be None or one of {self.metadata['render_modes']}, got {render_mode!r}"
            )
        if settings.get("itemise"):
            raise UserError(
                "the vector environment keeps totals only: itemise=True needs the single environment"
            )
        if settings.get("max_pulls_per_agent") is not None:
            raise UserError("max_pulls_per_agent needs the single environment")
        game = FlatClusteredBAIEnv(**settings)
        self.game = game
        self.num_envs = num_envs
        self.max_episode_steps = max_episode_steps
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_action_space = game.action_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.single_observation_space = game.observation_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        #: (num_envs, N) arms that a stop in the next `step` recommends; None recommends each agent's empirical best.
        self.recommendations: Ints | None = None
        #: What each learner is told: the `info` of its reset.
        self.told: list[dict[str, Any]] = [{}] * num_envs
        n, k = game.n_agents, game.n_arms
        self._pulls: Ints = np.zeros((num_envs, n, k), dtype=np.int64)
        self._means: Floats = np.zeros((num_envs, n, k))
        self._sigma: Floats = np.ones(num_envs)
        # Pulls, orders and reals of the episode, pulls of each agent, agents without a pull.
        self._count: Ints = np.zeros(num_envs, dtype=np.int64)
        self._orders = self._count if game.actions.single else self._count.copy()
        self._reals = self._count if game.actions.single else self._count.copy()
        self._per_agent: Ints = np.zeros((num_envs, n), dtype=np.int64)
        self._without_pull: Ints = np.full(num_envs, n)
        self._all: Ints = np.arange(num_envs)
        self._one_pull: Ints = np.ones(num_envs, dtype=np.int64)
        self._none: Ints = np.zeros(num_envs, dtype=np.int64)
        self._everywhere = np.ones(num_envs, dtype=np.bool_)
        self._done: Bools = np.zeros(num_envs, dtype=np.bool_)
        self._started = False
        self._answers: Ints = np.full((num_envs, n), -1)  # of the last ends; −1 for none
        self._rewards = VectorRewards(num_envs, n, k)
        self._buffer = InstanceBuffer(game, num_envs)
        self._play_seeds: dict[int, Seed] = {}  # given in the options of `reset`
        self._frames: list[list[Any]] = [[] for _ in range(num_envs)]
        self._told: dict[str, Any] | None = None  # what `_told_rows` is made of
        self._told_rows: dict[str, np.ndarray] = {}
        self._order_cost = game.c_b * game.actions.order_bits
        self._blank = _blank_info(num_envs, n)

    # --- reset -------------------------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        which, instance_seed, play_seed = read_reset_options(options, self.num_envs, self._started)
        given = read_seed(seed, self.num_envs)
        if given is not None or not self._started:
            self._np_random, self._np_random_seed = new_stream(given)
            self._buffer.clear()
        infos: dict[str, Any] = {}
        self._begin(which, infos, instance_seed, play_seed)
        self._started = True
        enter(infos, as_mask(which, self.num_envs), {"action_mask": self._mask()})
        self._collect(which)
        return self.observe(), infos

    def _begin(
        self,
        which: Ints,
        infos: dict[str, Any] | None,
        instance_seed: Sequence[Seed] | None = None,
        play_seed: Sequence[Seed] | None = None,
    ) -> None:
        """Start an episode of each sub-environment of `which`, and enter into `infos` what the learner is told."""
        for i in which.tolist() if self._play_seeds else ():
            self._play_seeds.pop(i, None)
        seeded = instance_seed is not None or play_seed is not None
        drawn = None if seeded else self._buffer.take(which.size, self.np_random)
        if drawn is not None:
            self._rewards.assign(which, drawn.batch, drawn.rows)
            constant, varied = drawn.told
            self._sigma[which] = constant["sigma"]
            rows = {key: value[drawn.rows] for key, value in varied.items()}
            for row, i in enumerate(which.tolist()):
                own = {key: value.item(row) for key, value in rows.items()}
                self.told[i] = {**constant, **own} if own else constant
            if infos is not None:
                self._tell(infos, which, constant, rows)
        else:
            for i in which.tolist():
                self._begin_alone(
                    i,
                    infos,
                    None if instance_seed is None else instance_seed[i],
                    None if play_seed is None else play_seed[i],
                )
        self._pulls[which] = 0
        self._means[which] = 0
        self._count[which] = 0
        self._orders[which] = 0
        self._reals[which] = 0
        self._per_agent[which] = 0
        self._without_pull[which] = self.game.n_agents
        self._answers[which] = -1
        self._done[which] = False

    def _begin_alone(
        self,
        i: int,
        infos: dict[str, Any] | None,
        instance_seed: Seed | None,
        play_seed: Seed | None,
    ) -> None:
        """An episode with given seeds, or from a generator that has no batch form."""
        own_instance, own_play = episode_seeds(self.np_random)
        instance = self.game.draw_instance(own_instance if instance_seed is None else instance_seed)
        self.game.check_size(instance)
        if play_seed is not None:
            self._play_seeds[i] = play_seed
        stream = play_stream(own_play if play_seed is None else play_seed, REWARDS)
        self._rewards.assign_alone(i, instance, np.random.default_rng(stream))
        told = self.game.told_values(instance)
        self._sigma[i] = told["sigma"]
        self.told[i] = told
        if infos is not None:
            self._tell(infos, np.array([i]), told, {})

    def _tell(
        self, infos: dict[str, Any], which: Ints, constant: dict[str, Any], varied: dict[str, Any]
    ) -> None:
        """Enter what the learners of `which` are told; of later calls for one `infos` the rows are merged."""
        if constant is not self._told:
            self._told = constant
            self._told_rows = {
                key: np.full((self.num_envs, *np.shape(v)), v) for key, v in constant.items()
            }
        rows = self._told_rows
        mask = as_mask(which, self.num_envs)
        if varied or "_n_agents" in infos:
            rows = dict(rows)
            for key in rows if "_n_agents" in infos else varied:
                rows[key] = infos.get(key, rows[key]).copy()
                rows[key][which] = varied.get(key, self._told_rows[key][which])
            mask = mask | infos.get("_n_agents", mask)
        enter(infos, mask, rows)

    # --- step --------------------------------------------------------------------------------------------------------

    def step(
        self, actions: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        infos: dict[str, Any] = {}
        step = self.advance(actions, infos)
        return self.observe(), step.rewards, step.terminated, step.truncated, infos

    def advance(self, actions: np.ndarray, infos: dict[str, Any] | None = None) -> Step:
        """`step` for adapters, in compact form. Observations are read with `observe`.

        Fills `infos` as Gymnasium wants it, where given.
        """
        if not self._started:
            raise ResetNeeded("Cannot call envs.step() before calling envs.reset()")
        game = self.game
        actions = game.actions.check(actions, self.num_envs)
        if self.recommendations is not None:
            check_recommendations(self.recommendations, self.num_envs, game.n_agents, game.n_arms)
        began = self._all[self._done]
        if began.size and self.autoreset_mode is AutoresetMode.DISABLED:
            raise ResetNeeded(
                f"Sub-environments {began.tolist()} have ended: reset them first (options reset_mask)"
            )
        stopped = actions == game.actions.stop
        stopped &= ~self._done
        # Most steps only pull: no index array is needed then, and the step takes half the time.
        some_stop = bool(stopped.any())
        which = self._all[~(stopped | self._done)] if began.size or some_stop else self._all
        samples, pulls, cut = self._pull(which, actions)
        # What is judged: stops, and the limit unless it is free.
        judged = stopped if game.truncation == "free" else stopped | cut
        if self.max_episode_steps is not None:
            # As TimeLimit does it, which counts the stop as a step and may set both flags.
            cut |= (self._orders + stopped >= self.max_episode_steps) & ~self._done
        rewards = np.asarray(-game.pull_cost * pulls, dtype=np.float64)
        done = judged | cut
        ended = None
        if done.any():
            ended = self._judge(self._all[done], stopped, judged)
            rewards[ended.which] -= game.error_penalty * ended.wrong
        if began.size:
            self._begin(began, infos)
        self._done = done
        step = Step(rewards, judged, cut, samples, began, ended)
        if infos is not None:
            self._fill(infos, step)
        if ended is not None and self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._begin(ended.which, infos)
        if infos is not None:
            infos["action_mask"] = self._mask()
            infos["_action_mask"] = self._everywhere
        self.recommendations = None
        self._collect(self._all)
        return step

    def _pull(self, which: Ints, actions: Ints) -> tuple[Floats, Ints, Bools]:
        """Carry out the orders of `which`; returns, of all sub-environments, samples, pulls, and who is at the limit."""
        game = self.game
        limit = MAX_PULLS if game.max_pulls is None else game.max_pulls
        everywhere = which is self._all
        read: tuple[Any, Any, Any] = game.actions.read(actions if everywhere else actions[which])
        agents, columns, times = read
        arms: Any
        cut: Bools = np.zeros(self.num_envs, dtype=np.bool_)
        if game.actions.single:
            drawn = self._draw(which, agents, columns, 1)
            arms = times = 1
        else:
            arms = np.where(columns == game.n_arms, game.n_arms, 1)
            fits = self._count[which] + times * arms <= limit
            cut[which[~fits]] = True
            which, agents, columns, times, arms = (
                one[fits] for one in (which, agents, columns, times, arms)
            )
            # A sweep is one row per arm.
            row = np.repeat(np.arange(which.size), arms)
            first = np.cumsum(arms) - arms
            arm = np.where(arms[row] > 1, np.arange(row.size) - first[row], columns[row])
            averages = self._draw(which[row], agents[row], arm, times[row])
            drawn = np.bincount(row, averages, which.size) / arms
            everywhere = False
        cells = which * game.n_agents + agents
        per_agent = self._per_agent.reshape(-1)
        before = per_agent.take(cells)
        per_agent[cells] = before + times * arms
        self._without_pull[which] -= before == 0
        if not game.actions.single:
            self._orders[which] += 1
            self._reals[which] += arms
        if everywhere:
            samples, pulls = drawn, self._one_pull
        else:
            samples = np.zeros(self.num_envs)
            samples[which] = drawn
            pulls = np.zeros(self.num_envs, dtype=np.int64)
            pulls[which] = times * arms
        self._count += pulls
        if int(self._count.max()) >= limit:
            cut[which] |= self._count[which] >= limit
        return samples, pulls, cut

    def _draw(self, plays: Ints, agents: Ints, arms: Ints, times: Ints | int) -> Floats:
        """Draw and enter `times` pulls of distinct cells; returns their averages (n,)."""
        averages = self._rewards.draw(plays, agents, arms, times, self.np_random)
        # Flat indices: half the time of three index arrays.
        cells = (plays * self.game.n_agents + agents) * self.game.n_arms + arms
        pulls, means = self._pulls.reshape(-1), self._means.reshape(-1)
        counts = pulls.take(cells) + times
        old = means.take(cells)
        pulls[cells] = counts
        means[cells] = old + (averages - old) * times / counts
        return averages

    def _judge(self, which: Ints, stopped: Bools, judged: Bools) -> Ended:
        """The episodes `which`, which ended with this step; `judged` (num_envs,) are charged for wrong agents."""
        game = self.game
        pulls, means, own = self._pulls[which], self._means[which], stopped[which]
        truth = self._rewards.agent_means(which)
        if self.recommendations is not None:
            arms = np.asarray(self.recommendations)[which].astype(np.int64)
        else:
            arms = empirical_best(pulls, means, lambda: self.np_random)
            for row, i in enumerate(which.tolist()) if self._play_seeds else ():
                if i in self._play_seeds:
                    arms[row] = empirical_best(pulls[row], means[row], partial(self._policy_rng, i))
        answered = own if game.truncation == "penalty" else judged[which]
        right = is_good(truth, arms, game.epsilon) & answered[:, None]
        wrong = (game.n_agents - right.sum(axis=1)) * judged[which]
        self._answers[which] = np.where(answered[:, None], arms, -1)
        sent = {key: value[which] for key, value in self.communication().items()}
        best, count = truth.argmax(axis=2), self._count[which]
        return Ended(which, own, pulls, means, right, wrong, best, count, sent)

    def _policy_rng(self, i: int) -> np.random.Generator:
        return np.random.default_rng(play_stream(self._play_seeds[i], POLICY))

    # --- what is told ------------------------------------------------------------------------------------------------

    def _fill(self, infos: dict[str, Any], step: Step) -> None:
        """Enter the `info` of a step, that of ended episodes included."""
        values = {
            **self._blank,
            "sample": step.samples,
            "pulls": self._count.copy(),
            "pulls_per_agent": self._per_agent.copy(),
            "communication": self.communication(),
        }
        acting = self._everywhere
        if step.began.size:
            acting = ~as_mask(step.began, self.num_envs)
        ended = step.ended
        if ended is not None:
            outcome = {
                "stopped": ended.stopped,
                "correct": ended.right.all(axis=1),
                "agent_correct": ended.right,
                "wrong_agents": ended.wrong,
                "best_arms": ended.best_arms,
            }
            for key, rows in outcome.items():
                values[key] = self._blank[key].copy()
                values[key][ended.which] = rows
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                final = as_mask(ended.which, self.num_envs)
                last: dict[str, Any] = {}
                enter(last, final, values | {"action_mask": self._mask()})
                infos["final_info"], infos["_final_info"] = last, final
                infos["final_obs"], infos["_final_obs"] = self._final_obs(ended), final
                acting = acting & ~final
        if acting is self._everywhere or acting.any():
            enter(infos, acting, values)

    def _final_obs(self, ended: Ended) -> np.ndarray:
        """(num_envs,) objects: the last observations of ended episodes."""
        final = np.full(self.num_envs, None, dtype=object)
        for i, obs in zip(ended.which.tolist(), self.last_observations(ended), strict=True):
            final[i] = obs
        return final

    def last_observations(self, ended: Ended) -> list[Any]:
        """The last observation of each ended episode, in the form of the single environment."""
        obs = self._observation(ended.pulls, ended.means, ended.which)
        if isinstance(obs, dict):
            return [{key: obs[key][i] for key in obs} for i in range(ended.which.size)]
        return list(obs)

    def observe(self) -> Any:
        """The observations now, as copies."""
        return self._observation(self._pulls, self._means, self._all)

    def _observation(self, pulls: Ints, means: Floats, which: Ints) -> Any:
        """Observations of sub-environments `which` (n,) with `pulls` and `means` (n, N, K)."""
        if self.game.observation == "dict":
            return {"means": means.copy(), "pulls": pulls.copy()}
        limit = MAX_PULLS if self.game.max_pulls is None else self.game.max_pulls
        time = pulls.sum(axis=(1, 2)) / limit
        return box_features(pulls, means, self._sigma[which, None, None], time)

    def communication(self) -> dict[str, np.ndarray]:
        """What the ledgers of single environments would say, (num_envs,) each."""
        bits = self._orders * self.game.actions.order_bits
        none = self._none
        return {
            "cost": self._orders * self._order_cost + self._reals * self.game.c_r,
            "bits_up": none,
            "bits_down": bits,
            "reals_up": self._reals.copy(),
            "reals_down": none,
        }

    def _mask(self) -> np.ndarray:
        mask = np.ones((self.num_envs, self.game.actions.n), dtype=np.int8)
        mask[:, -1] = self._without_pull == 0
        return mask

    def action_masks(self) -> Bools:
        """(num_envs, A) booleans: which actions make sense now; to stop, every agent must have a pull."""
        return self._mask().astype(np.bool_)

    # --- the truth and pictures --------------------------------------------------------------------------------------

    def are_best(self, arms: Ints) -> Bools:
        """(num_envs, N) whether `arms` (num_envs, N) are best arms of the agents: the truth, for judges and for
        training signals; not for learners."""
        self._check_started()
        return is_good(self._rewards.agent_means(self._all), arms, self.game.epsilon)

    def instance(self, i: int) -> Instance:
        """The instance that sub-environment i plays, for judges and pictures; not for learners."""
        self._check_started()
        return self._rewards.instance(i)

    def _check_started(self) -> None:
        if not self._started:
            raise ResetNeeded("There is no play yet: call envs.reset() first")

    def render(self) -> tuple[Any, ...] | None:
        """A frame, a list of the frames since the last call, or a table, of every sub-environment."""
        self._check_started()
        if self.render_mode is None:
            return None
        if self.render_mode == "rgb_array_list":
            frames, self._frames = self._frames, [[] for _ in range(self.num_envs)]
            return tuple(frames)
        return tuple(
            self.game.picture(self._view(i), self.render_mode) for i in range(self.num_envs)
        )

    def _collect(self, which: Ints) -> None:
        if self.render_mode == "rgb_array_list":
            for i in which.tolist():
                self._frames[i].append(self.game.picture(self._view(i), "rgb_array"))

    def _view(self, i: int) -> View:
        instance = self.instance(i)
        problem = self.game.problem_of(instance)
        per_agent = self._pulls[i].sum(axis=1)
        cost = float(self.communication()["cost"][i])
        view = View(problem, self._pulls[i], self._means[i], per_agent, cost)
        if not self._done[i]:
            return view
        return view.ended(instance, None if self._answers[i, 0] < 0 else self._answers[i])

    def close_extras(self, **kwargs: Any) -> None:
        if hasattr(self, "game"):  # Gymnasium also closes what a failed constructor leaves
            self.game.close()


def is_good(truth: Floats, arms: Ints, epsilon: float) -> Bools:
    """(n, N) whether `arms` (n, N) are within ε of the best, from the agents' means (n, N, K)."""
    chosen = np.take_along_axis(truth, arms[..., None], axis=-1)[..., 0]
    return truth.max(axis=-1) - chosen <= epsilon * (1 + 1e-9)


def _blank_info(num_envs: int, n_agents: int) -> dict[str, Any]:
    """What `info` says of the outcome before the end; shared by all steps, hence read-only."""
    blank: dict[str, np.ndarray] = {
        "stopped": np.zeros(num_envs, dtype=np.bool_),
        "correct": np.zeros(num_envs, dtype=np.bool_),
        "agent_correct": np.zeros((num_envs, n_agents), dtype=np.bool_),
        "wrong_agents": np.zeros(num_envs, dtype=np.int64),
        "best_arms": np.full((num_envs, n_agents), -1),
    }
    for array in blank.values():
        array.setflags(write=False)
    return blank
