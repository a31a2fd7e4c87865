"""The flat game, many sub-environments stepped at once in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.actions import check_recommendations, read_flat_actions
from clustered_bandit_gym.envs.env import ClusteredBAIEnv, Obs
from clustered_bandit_gym.envs.rendering.view import View
from clustered_bandit_gym.envs.supply import Supply
from clustered_bandit_gym.envs.vector_info import Ended, VectorInfo
from clustered_bandit_gym.envs.vector_options import new_stream, read_reset_options, read_seed
from clustered_bandit_gym.envs.vector_rewards import VectorRewards, is_known
from clustered_bandit_gym.envs.wrappers import empirical_best
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.payloads import bits_for
from clustered_bandit_gym.game.seeds import POLICY, REWARDS, Seed, episode_seeds, play_stream
from clustered_bandit_gym.generators.batch import Batch

Bools = np.ndarray


class ClusteredBAIVectorEnv(VectorEnv[Obs, np.ndarray, np.ndarray]):
    """`ClusteredBAI-Discrete-v0`, `num_envs` times, stepped, begun and ended together in NumPy.

    Actions are (num_envs,) integers: `agent * K + arm` pulls, `N * K` stops and recommends each agent's empirical best.
    Observations are `pulls` and `means`, (num_envs, N, K). `info["sample"]` (num_envs,) holds the rewards drawn; at the
    end of an episode `info` has the keys of the single environment. All come with Gymnasium's masks (`_sample`, ...).
    Set `envs.recommendations` to (num_envs, N) arms before a step and stops in that step recommend those.

    All sub-environments share one stream, seeded by `reset(seed=...)`: instances are drawn in batches and the rewards
    of a step at once. Episodes have the law of the single environment, not its draws. Where `reset(options=...)` gives
    `instance_seed` and `play_seed`, the episode equals that of the single environment with these seeds, draw for draw.
    A generator without a batch form (see `generators.InstanceGenerator.batch`) is called once for each episode.

    Args:
        num_envs: number of sub-environments.
        max_episode_steps: truncate after this many steps, as the `TimeLimit` wrapper does.
        autoreset_mode: any of Gymnasium's; the default resets at the step after the end and ignores that action.
        settings: of `ClusteredBAIEnv`.

    `reset(options=...)` takes `reset_mask` (which sub-environments to reset), `instance_seed` and `play_seed` (one for
    all, or one for each sub-environment).
    """

    metadata: dict[str, Any] = {
        "render_modes": ["rgb_array", "ansi"],
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
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        if max_episode_steps is not None and max_episode_steps < 1:
            raise UserError(
                f"max_episode_steps must be at least 1 (or None), got {max_episode_steps}"
            )
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
        game = ClusteredBAIEnv(**settings)
        self._game = game
        self.num_envs, self.max_episode_steps, self.render_mode = (
            num_envs,
            max_episode_steps,
            render_mode,
        )
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        n, k = game.n_agents, game.n_arms
        self._stop = n * k
        self.single_action_space = spaces.Discrete(n * k + 1)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.single_observation_space = game.observation_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._bits = bits_for(k)  # an order to pull: the arm
        #: (num_envs, N) arms that a stop in the next `step` recommends; None recommends each agent's empirical best.
        self.recommendations: Ints | None = None
        self._pulls: Ints = np.zeros((num_envs, n, k), dtype=np.int64)
        self._means: Floats = np.zeros((num_envs, n, k))
        self._count: Ints = np.zeros(num_envs, dtype=np.int64)
        self._all: Ints = np.arange(num_envs)
        self._agents: Ints = np.arange(n)
        self._done: Bools = np.zeros(num_envs, dtype=np.bool_)
        self._waiting = 0  # how many are done
        self._started = False
        self._arms: Ints = np.zeros(
            (num_envs, n), dtype=np.int64
        )  # recommendations of the last stops
        self._stopped: Bools = np.zeros(num_envs, dtype=np.bool_)
        self._rewards = VectorRewards(num_envs, n, k)
        self._supply = Supply(game, num_envs)
        self._infos = VectorInfo(num_envs)
        self._made: dict[int, Instance] = {}  # instances that were not drawn in batches
        self._play_seeds: dict[int, Seed] = {}  # given in the options of `reset`

    # --- reset -------------------------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Obs, dict[str, Any]]:
        which, instance_seed, play_seed = read_reset_options(options, self.num_envs, self._started)
        given = read_seed(seed, self.num_envs)
        if given is not None or not self._started:
            self._np_random, self._np_random_seed = new_stream(given)
            self._supply.clear()
        infos: dict[str, Any] = {}
        self._begin(which, infos, instance_seed, play_seed)
        self._started = True
        self._waiting = int(self._done.sum())
        return self.observe(), infos

    def _begin(
        self,
        which: Ints,
        infos: dict[str, Any] | None,
        instance_seed: Sequence[Seed] | None = None,
        play_seed: Sequence[Seed] | None = None,
    ) -> None:
        """Start an episode of each sub-environment of `which`, and enter into `infos` what the learner is told."""
        drawn = None if instance_seed is not None else self._supply.take(which.size, self.np_random)
        if drawn is not None and not is_known(drawn.batch.rewards):
            drawn = None
        for i in which.tolist() if self._made or self._play_seeds else ():
            self._made.pop(i, None)
            self._play_seeds.pop(i, None)
        if drawn is not None:
            self._rewards.assign(which, drawn.batch, drawn.rows)
            if infos is not None:
                self._infos.tell(infos, which, drawn.told)
        else:
            self._begin_one_by_one(which, infos, instance_seed)
        for i in which.tolist() if play_seed is not None else ():
            assert play_seed is not None
            self._play_seeds[i] = play_seed[i]
            self._rewards.own_stream(i, np.random.default_rng(play_stream(play_seed[i], REWARDS)))
        self._pulls[which] = 0
        self._means[which] = 0
        self._count[which] = 0
        self._done[which] = False

    def _begin_one_by_one(
        self, which: Ints, infos: dict[str, Any] | None, seeds: Sequence[Seed] | None
    ) -> None:
        """With given seeds of instances, or from a generator that has no batch form."""
        for i in which.tolist():
            own_seed, stream_seed = episode_seeds(self.np_random)
            instance = self._game.draw_instance(own_seed if seeds is None else seeds[i])
            self._game.check_size(instance)
            self._rewards.assign(self._all[i : i + 1], Batch.repeat(instance, 1))
            if not is_known(instance.rewards):
                self._rewards.own_stream(
                    i, np.random.default_rng(play_stream(stream_seed, REWARDS))
                )
            self._made[i] = instance
            if infos is not None:
                self._add_info(infos, self._game.problem_of(instance).values(), i)

    # --- step --------------------------------------------------------------------------------------------------------

    def step(
        self, actions: np.ndarray
    ) -> tuple[Obs, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        infos: dict[str, Any] = {}
        rewards, terminated, truncated, _ = self.advance(actions, infos)
        return self.observe(), rewards, terminated, truncated, infos

    def advance(
        self, actions: np.ndarray, infos: dict[str, Any] | None = None
    ) -> tuple[Floats, Bools, Bools, Ended | None]:
        """`step` for adapters: rewards, terminated, truncated, and the episodes that have ended, in compact form.

        Observations are read with `observe`. Fills `infos` as Gymnasium wants it, where given; with few ends in a step
        that takes longer than all else.
        """
        if not self._started:
            raise ResetNeeded("Cannot call envs.step() before calling envs.reset()")
        actions = read_flat_actions(actions, self.num_envs, self._game.n_agents, self._game.n_arms)
        if self.recommendations is not None:
            check_recommendations(
                self.recommendations, self.num_envs, self._game.n_agents, self._game.n_arms
            )
        reset = self._all[self._done] if self._waiting else self._all[:0]
        if reset.size and self.autoreset_mode is AutoresetMode.DISABLED:
            raise ResetNeeded(
                f"Sub-environments {reset.tolist()} have ended: reset them first (options reset_mask)"
            )
        stopping = actions == self._stop
        rewards = np.full(self.num_envs, -self._game.pull_cost)
        terminated = np.zeros(self.num_envs, dtype=np.bool_)
        if not reset.size and not stopping.any():
            samples, pulling = self._pull(self._all, actions), None
        else:
            rewards[reset] = 0.0
            terminated = stopping & ~self._done
            pulling = ~(stopping | self._done)
            which = self._all[pulling]
            samples = np.zeros(self.num_envs)
            samples[which] = self._pull(which, actions[which])
        if infos is not None and (pulling is None or pulling.any()):
            infos["sample"] = samples
            infos["_sample"] = (
                np.ones(self.num_envs, dtype=np.bool_) if pulling is None else pulling
            )
        truncated = self._truncated(terminated)
        truncated[reset] = False
        if reset.size:
            self._begin(reset, infos)
        done = terminated | truncated
        self._waiting = int(np.count_nonzero(done))
        self._done = done
        ended = None
        if self._waiting:
            ended = self._judge(terminated, np.flatnonzero(done))
            rewards[terminated] = -self._game.error_penalty * ended.wrong[ended.stopped]
            self._end(ended, infos)
        self.recommendations = None
        return rewards, terminated, truncated, ended

    def _pull(self, which: Ints, actions: Ints) -> Floats:
        """Make the pulls `actions` in the sub-environments `which`; returns the rewards drawn."""
        samples = self._rewards.draw(which, actions, self.np_random)
        cells = which * self._stop + actions
        pulls, means = self._pulls.reshape(-1), self._means.reshape(-1)
        counts = pulls.take(cells)
        counts += 1
        pulls[cells] = counts
        old = means.take(cells)
        means[cells] = old + (samples - old) / counts
        self._count[which] += 1
        return samples

    def _truncated(self, terminated: Bools) -> Bools:
        truncated = np.zeros(self.num_envs, dtype=np.bool_)
        if self._game.max_pulls is not None:
            truncated |= (self._count >= self._game.max_pulls) & ~terminated
        if self.max_episode_steps is not None:
            # As TimeLimit does it, which counts the stop as a step and may set both flags.
            truncated |= self._count + terminated >= self.max_episode_steps
        return truncated

    def _judge(self, terminated: Bools, which: Ints) -> Ended:
        """The episodes `which`, which ended with this step."""
        pulls, means, stopped = self._pulls[which], self._means[which], terminated[which]
        if self.recommendations is not None:
            arms = np.asarray(self.recommendations)[which].astype(np.int64)
        else:
            arms = self._empirical_best(which, pulls, means)
        truth = self._rewards.agent_means(which)
        right = self._is_best(truth, arms) & stopped[:, None]
        wrong = (self._game.n_agents - right.sum(axis=1)) * stopped
        self._arms[which], self._stopped[which] = arms, stopped
        return Ended(which, stopped, pulls, means, truth, right, wrong, self._count[which])

    def _is_best(self, truth: Floats, arms: Ints) -> Bools:
        """(n, N) whether `arms` (n, N) are within ε of the best, from the agents' means (n, N, K)."""
        chosen = truth[self._all[: len(arms), None], self._agents, arms]
        return truth.max(axis=2) - chosen <= self._game.epsilon * (1 + 1e-9)

    def _end(self, ended: Ended, infos: dict[str, Any] | None) -> None:
        """Fill in the `info` of the episodes that ended with this step, and begin the next if this is the moment."""
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        if infos is not None:
            outcome = {**ended.outcome(), "communication": self.communication(ended.n_pulls)}
            self._infos.end(infos, ended, outcome, final=same_step)
        if same_step:
            self._begin(ended.which, infos)
            self._waiting = 0
            self._done = np.zeros(self.num_envs, dtype=np.bool_)

    def _empirical_best(self, which: Ints, pulls: Ints, means: Floats) -> Ints:
        """(n, N) the arm with the largest average among those pulled; ties at random."""
        arms = empirical_best(pulls, means, lambda: self.np_random)
        for row, i in enumerate(which.tolist()) if self._play_seeds else ():
            if i in self._play_seeds:
                arms[row] = empirical_best(pulls[row], means[row], partial(self._policy_rng, i))
        return arms

    def _policy_rng(self, i: int) -> np.random.Generator:
        return np.random.default_rng(play_stream(self._play_seeds[i], POLICY))

    def communication(self, pulls: Ints) -> dict[str, Any]:
        """What the ledger of a single environment would say: ⌈log2 K⌉ bits down and one real up for every pull."""
        none = np.zeros_like(pulls)
        bits = pulls * self._bits
        return {
            "cost": self.cost(pulls),
            "bits_up": none,
            "bits_down": bits,
            "reals_up": pulls,
            "reals_down": none,
        }

    def cost(self, pulls: Ints) -> Floats:
        """Communication cost of episodes with so many pulls."""
        return self._game.c_b * (pulls * self._bits) + self._game.c_r * pulls

    def observe(self) -> Obs:
        """`pulls` and `means` (num_envs, N, K) now, as copies."""
        return {"means": self._means.copy(), "pulls": self._pulls.copy()}

    def action_masks(self) -> Bools:
        """(num_envs, N*K + 1) booleans: which actions make sense now; to stop, every agent must have a pull."""
        masks = np.ones((self.num_envs, self._stop + 1), dtype=np.bool_)
        masks[:, -1] = (self._pulls.sum(axis=2) > 0).all(axis=1)
        return masks

    # --- the rest of a vector environment ----------------------------------------------------------------------------

    def are_best(self, arms: Ints) -> Bools:
        """(num_envs, N) whether `arms` (num_envs, N) are best arms of the agents: the truth, for judges and for
        training signals; not for learners."""
        if not self._started:
            raise ResetNeeded("There is no play yet: call envs.reset() first")
        return self._is_best(self._rewards.agent_means(self._all), arms)

    def instance(self, i: int) -> Instance:
        """The instance that sub-environment i plays, for judges and pictures; not for learners."""
        if not self._started:
            raise ResetNeeded("There is no play yet: call envs.reset() first")
        if i in self._made:
            return self._made[i]
        fixed = self._game.fixed_instance
        return self._rewards.instance(i) if fixed is None else fixed

    def render(self) -> tuple[Any, ...] | None:
        """A frame, or a table, of every sub-environment."""
        if not self._started:
            raise ResetNeeded("Cannot call envs.render() before calling envs.reset()")
        if self.render_mode is None:
            return None
        return tuple(
            self._game.picture(self._view(i), self.render_mode) for i in range(self.num_envs)
        )

    def _view(self, i: int) -> View:
        instance = self.instance(i)
        problem = self._game.problem_of(instance)
        per_agent = self._pulls[i].sum(axis=1)
        cost = float(self.communication(self._count[i : i + 1])["cost"][0])
        view = View(problem, self._pulls[i], self._means[i], per_agent, cost)
        if not self._done[i]:
            return view
        return view.ended(instance, self._arms[i] if self._stopped[i] else None)

    def close_extras(self, **kwargs: Any) -> None:
        if hasattr(self, "_game"):  # Gymnasium also closes what a failed constructor leaves
            self._game.close()
