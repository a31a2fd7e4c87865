"""The flat game, many sub-environments stepped at once in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.env import ClusteredBAIEnv, Obs
from clustered_bandit_gym.envs.rendering.view import View
from clustered_bandit_gym.envs.vector_rewards import VectorRewards
from clustered_bandit_gym.envs.wrappers import empirical_best
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.judge import outcome
from clustered_bandit_gym.game.ledger import bits_for
from clustered_bandit_gym.game.seeds import POLICY, REWARDS, Seed, episode_seeds, play_stream

Bools = np.ndarray


class ClusteredBAIVectorEnv(VectorEnv[Obs, np.ndarray, np.ndarray]):
    """`ClusteredBAI-Discrete-v0`, `num_envs` times: sub-environment i plays, draw for draw, what a single one would.

    Actions are (num_envs,) integers: `agent * K + arm` pulls, `N * K` stops and recommends each agent's empirical best.
    Observations are `pulls` and `means`, (num_envs, N, K). `info["sample"]` (num_envs,) holds the rewards drawn; at the
    end of an episode `info` has the keys of the single environment. All come with Gymnasium's masks (`_sample`, ...).
    Set `envs.recommendations` to (num_envs, N) arms before a step and stops in that step recommend those.

    Each sub-environment has streams of its own: `reset(seed=s)` seeds number i with s + i, as `SyncVectorEnv` does. It
    draws its own instances.

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
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        if max_episode_steps is not None and max_episode_steps < 1:
            raise ValueError(f"max_episode_steps must be at least 1 (or None), got {max_episode_steps}")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode must be None or one of {self.metadata['render_modes']}, got {render_mode!r}")
        if settings.get("itemise"):
            raise ValueError("the vector environment keeps totals only: itemise=True needs the single environment")
        game = ClusteredBAIEnv(**settings)
        self._game = game
        self.num_envs, self.max_episode_steps, self.render_mode = num_envs, max_episode_steps, render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        n, k = game.n_agents, game.n_arms
        self._stop = n * k
        self.single_action_space = spaces.Discrete(n * k + 1)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.single_observation_space = game.observation_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        #: (num_envs, N) arms that a stop in the next `step` recommends; None recommends each agent's empirical best.
        self.recommendations: Ints | None = None
        self._pulls: Ints = np.zeros((num_envs, n, k), dtype=np.int64)
        self._means: Floats = np.zeros((num_envs, n, k))
        self._count: Ints = np.zeros(num_envs, dtype=np.int64)
        self._all: Ints = np.arange(num_envs)
        self._done: Bools = np.zeros(num_envs, dtype=np.bool_)
        self._waiting = 0  # how many are done
        self._instances: list[Instance | None] = [None] * num_envs
        self._play_seeds: list[Seed] = [0] * num_envs
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._seeds: list[int] = [-1] * num_envs
        self._recommended: list[Ints | None] = [None] * num_envs
        self._rewards = VectorRewards(num_envs, n, k)

    # --- reset -------------------------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Obs, dict[str, Any]]:
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        which = self._all if mask is None else self._masked(mask)
        if unknown := set(options) - {"instance_seed", "play_seed"}:
            raise ValueError(f"unknown reset options {sorted(unknown)}; known: reset_mask, instance_seed, play_seed")
        given = {key: self._each(value, key) for key, value in options.items()}
        if seed is None or isinstance(seed, int | np.integer):
            seeds: Sequence[int | None] = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = self._each(list(seed), "seed")
        infos: dict[str, Any] = {}
        for i in which.tolist():
            if seeds[i] is not None or self._rngs[i] is None:
                self._rngs[i], self._seeds[i] = seeding.np_random(seeds[i])
            info = self._begin(i, **{key: values[i] for key, values in given.items()})
            infos = self._add_info(infos, info, i)
        self._waiting = int(self._done.sum())
        return self._observation(), infos

    def _begin(self, i: int, instance_seed: Seed | None = None, play_seed: Seed | None = None) -> dict[str, Any]:
        """Start an episode of sub-environment i; returns its `info`."""
        rng = self._rngs[i]
        assert rng is not None
        own_instance_seed, own_play_seed = episode_seeds(rng)
        instance = self._game.draw_instance(own_instance_seed if instance_seed is None else instance_seed)
        self._game.check_size(instance)
        problem = self._game.problem_of(instance)
        play_seed = own_play_seed if play_seed is None else play_seed
        self._rewards.assign(i, instance, np.random.default_rng(play_stream(play_seed, REWARDS)))
        self._instances[i], self._play_seeds[i] = instance, play_seed
        self._pulls[i] = 0
        self._means[i] = 0
        self._count[i] = 0
        self._done[i] = False
        return dict(vars(problem))

    def _masked(self, mask: Any) -> Ints:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask must be a boolean array of shape ({self.num_envs},)")
        if self._instances[0] is None and not mask.all():
            raise ResetNeeded("The first reset must be one of all sub-environments")
        return np.flatnonzero(mask)

    def _each(self, value: Any, name: str) -> Sequence[Any]:
        """One value for every sub-environment."""
        if not isinstance(value, list | tuple | np.ndarray):
            return [value] * self.num_envs
        if len(value) != self.num_envs:
            raise ValueError(f"{name}: {len(value)} values for {self.num_envs} sub-environments")
        return value.tolist() if isinstance(value, np.ndarray) else value

    # --- step --------------------------------------------------------------------------------------------------------

    def step(self, actions: np.ndarray) -> tuple[Obs, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._instances[0] is None:
            raise ResetNeeded("Cannot call envs.step() before calling envs.reset()")
        actions = self._checked(actions)
        self._check_recommendations()
        reset = self._all[self._done] if self._waiting else self._all[:0]
        if reset.size and self.autoreset_mode is AutoresetMode.DISABLED:
            raise ResetNeeded(f"Sub-environments {reset.tolist()} have ended: reset them first (options reset_mask)")
        stopping = actions == self._stop
        infos: dict[str, Any] = {}
        rewards = np.full(self.num_envs, -self._game.pull_cost)
        terminated = np.zeros(self.num_envs, dtype=np.bool_)
        if not reset.size and not stopping.any():
            samples = self._pull(self._all, actions)
            infos["sample"], infos["_sample"] = samples, np.ones(self.num_envs, dtype=np.bool_)
        else:
            rewards[reset] = 0.0
            terminated = stopping & ~self._done
            pulling = ~(stopping | self._done)
            which = self._all[pulling]
            samples = np.zeros(self.num_envs)
            if which.size:
                samples[which] = self._pull(which, actions[which])
                infos["sample"], infos["_sample"] = samples, pulling
        truncated = self._truncated(terminated)
        truncated[reset] = False
        for i in reset.tolist():
            infos = self._add_info(infos, self._begin(i), i)
        done = terminated | truncated
        self._waiting = int(done.sum())
        self._done = done
        if self._waiting:
            infos = self._end(terminated, done, rewards, infos)
        self.recommendations = None
        return self._observation(), rewards, terminated, truncated, infos

    def _pull(self, which: Ints, actions: Ints) -> Floats:
        """Make the pulls `actions` in the sub-environments `which`; returns the rewards drawn."""
        samples = self._rewards.draw(which, actions)
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

    def _end(self, terminated: Bools, done: Bools, rewards: Floats, infos: dict[str, Any]) -> dict[str, Any]:
        """Judge the episodes that ended with this step: their `info`, and the rewards of those that stopped."""
        game = self._game
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        for i in np.flatnonzero(done).tolist():
            instance = self._instances[i]
            assert instance is not None
            arms = None
            if terminated[i] and self.recommendations is not None:
                arms = np.asarray(self.recommendations[i], dtype=np.int64)
            elif terminated[i]:
                arms = empirical_best(self._pulls[i], self._means[i], partial(self._policy_rng, i))
            self._recommended[i] = arms
            info = outcome(instance, arms, self._pulls[i].sum(axis=1), self._communication(i))
            if terminated[i]:
                rewards[i] = -game.error_penalty * info["wrong_agents"]
            if same_step:
                if not terminated[i]:
                    info["sample"] = float(infos["sample"][i])
                    infos["sample"][i], infos["_sample"][i] = 0.0, False
                final = {"pulls": self._pulls[i].copy(), "means": self._means[i].copy()}
                infos = self._add_info(infos, {"final_obs": final, "final_info": info}, i)
                info = self._begin(i)
            infos = self._add_info(infos, info, i)
        if same_step:
            self._waiting = 0
            self._done = np.zeros(self.num_envs, dtype=np.bool_)
        return infos

    def _policy_rng(self, i: int) -> np.random.Generator:
        return np.random.default_rng(play_stream(self._play_seeds[i], POLICY))

    def _communication(self, i: int) -> dict[str, float]:
        """What the ledger of a single environment would say: ⌈log2 K⌉ bits down and one real up for every pull."""
        pulls = int(self._count[i])
        bits = pulls * bits_for(self._game.n_arms)
        cost = self._game.c_b * bits + self._game.c_r * pulls
        return {"cost": cost, "bits_up": 0, "bits_down": bits, "reals_up": pulls, "reals_down": 0}

    def _checked(self, actions: Any) -> Ints:
        array = np.asarray(actions)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "iu":
            raise ValueError(
                f"expected {self.num_envs} integers, got an array of {array.dtype} with shape {array.shape}"
            )
        if array.min() < 0 or array.max() > self._stop:
            bad = array[(array < 0) | (array > self._stop)][0]
            raise ValueError(
                f"action {bad} is out of range: agent * {self._game.n_arms} + arm pulls, {self._stop} stops"
            )
        return array.astype(np.int64, copy=False)

    def _check_recommendations(self) -> None:
        if self.recommendations is None:
            return
        arms = np.asarray(self.recommendations)
        shape = (self.num_envs, self._game.n_agents)
        if arms.shape != shape or arms.dtype.kind not in "iu":
            raise ValueError(f"recommendations are integers of shape {shape}, got {arms.dtype} of shape {arms.shape}")
        if arms.min() < 0 or arms.max() >= self._game.n_arms:
            raise ValueError(
                f"recommended arms run from 0 to {self._game.n_arms - 1}, got {arms.min()} to {arms.max()}"
            )

    def _observation(self) -> Obs:
        return {"means": self._means.copy(), "pulls": self._pulls.copy()}

    def action_masks(self) -> Bools:
        """(num_envs, N*K + 1) booleans: which actions make sense now; to stop, every agent must have a pull."""
        masks = np.ones((self.num_envs, self._stop + 1), dtype=np.bool_)
        masks[:, -1] = (self._pulls.sum(axis=2) > 0).all(axis=1)
        return masks

    # --- the rest of a vector environment ----------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator | None, ...]:  # type: ignore[override]
        """The generators of the sub-environments; None before the first reset."""
        return tuple(self._rngs)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self._seeds)

    def render(self) -> tuple[Any, ...] | None:
        """A frame, or a table, of every sub-environment."""
        if self._instances[0] is None:
            raise ResetNeeded("Cannot call envs.render() before calling envs.reset()")
        if self.render_mode is None:
            return None
        return tuple(self._game.picture(self._view(i), self.render_mode) for i in range(self.num_envs))

    def _view(self, i: int) -> View:
        instance = self._instances[i]
        assert instance is not None
        problem = self._game.problem_of(instance)
        per_agent = self._pulls[i].sum(axis=1)
        view = View(problem, self._pulls[i], self._means[i], per_agent, self._communication(i)["cost"])
        if not self._done[i]:
            return view
        arms = self._recommended[i]
        right = None if arms is None else instance.is_best[instance.clusters, arms]
        return replace(view, over=True, arms=arms, right=right, best=instance.agent_best_arms)

    def close_extras(self, **kwargs: Any) -> None:
        self._game.close()
