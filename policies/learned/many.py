"""Many trials of a learned player side by side: one call of the network for all plays under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.policies.learned.features import Features
from clustered_bandit_gym.policies.learned.player import LearnedPolicy, features_of

#: Plays under way at once, and most (agent, arm) cells of them: with more, arrays leave the cache.
SIDE_BY_SIDE, MOST_CELLS = 1024, 2**15


@dataclass(frozen=True)
class Played:
    """T trials of one player: instances, pulls (T,) and, as 0 or 1, whether any agent's arm was wrong (T,)."""

    instances: list[Instance]
    pulls: Floats
    wrong: Floats
    returns: Floats


def play_many(policy: LearnedPolicy, env: str, trials: int, seed: int, **env_kwargs: Any) -> Played:
    """Trials 0..`trials`−1 of `seed`: the instances, rewards and results of the harness, many at a time.

    The harness plays one trial after another, and most of its time goes into calls of the network for a single play.
    Here the native vector environment keeps many plays under way; where one ends, the next trial takes its place.
    """
    spec = gym.spec(env)
    if "clustered_bandit_gym" not in str(spec.entry_point):
        raise UserError(
            f"{env} is not an environment of this package; `clustered-bai list` shows them"
        )
    table = _Table({**spec.kwargs, **env_kwargs}, trials, seed)
    while table.under_way.any():
        table.step(policy)
    return Played(table.instances, table.pulls, table.wrong, table.returns)


class _Table:
    """E places, each with a trial under way or, when no trial is left, without."""

    def __init__(self, settings: dict[str, Any], trials: int, seed: int) -> None:
        self._game = ClusteredBAIEnv(**settings)
        self._cells = self._game.n_agents * self._game.n_arms
        places = max(1, min(trials, SIDE_BY_SIDE, MOST_CELLS // self._cells))
        # A place without a trial plays on, unread; the environment begins its episodes by itself.
        self._envs = ClusteredBAIVectorEnv(places, **{"max_pulls": None, **settings})
        self._seeds = [trial_seeds(seed, t) for t in range(trials)]
        self._features: list[Features] = []
        self._which_features: Ints = np.zeros(places, dtype=np.int64)
        self._trial: Ints = np.zeros(places, dtype=np.int64)
        self._next = 0
        self.under_way = np.zeros(places, dtype=np.bool_)
        self.instances: list[Instance] = []
        self.pulls, self.wrong, self.returns = np.zeros(trials), np.zeros(trials), np.zeros(trials)
        self._begin(np.arange(places))

    def _begin(self, places: Ints) -> None:
        """Give the next trials to `places`, in order; those beyond the last trial get none."""
        self.under_way[places] = False
        places = places[: len(self._seeds) - self._next]
        if not places.size:
            return
        trials = self._next + np.arange(places.size)
        self._next += places.size
        self._trial[places] = trials
        self.under_way[places] = True
        mask = np.zeros(self.under_way.size, dtype=np.bool_)
        mask[places] = True
        seeds = [self._seeds[t] for t in self._trial.tolist()]
        self._envs.reset(
            options={
                "reset_mask": mask,
                "instance_seed": [one.instance for one in seeds],
                "play_seed": [one.play for one in seeds],
            }
        )
        for place in places.tolist():
            instance = self._envs.instance(place)
            self.instances.append(instance)
            told = self._game.problem_of(instance)
            features = features_of(
                told.n_agents, told.n_arms, told.n_clusters, told.eta, told.sigma
            )
            if features not in self._features:
                self._features.append(features)
            self._which_features[place] = self._features.index(features)

    def step(self, policy: LearnedPolicy) -> None:
        """One action in every place."""
        obs = self._envs.observe()
        actions: Ints = np.zeros(self.under_way.size, dtype=np.int64)
        arms: Ints = np.zeros((self.under_way.size, self._game.n_agents), dtype=np.int64)
        for number in np.unique(self._which_features[self.under_way]).tolist():
            group = np.flatnonzero(self.under_way & (self._which_features == number))
            decided = policy.decide(
                self._features[number], obs["pulls"][group], obs["means"][group]
            )
            actions[group], arms[group] = decided
        self._envs.recommendations = arms
        rewards, _, _, _, _, ended = self._envs.advance(actions)
        self.returns[self._trial[self.under_way]] += rewards[self.under_way]
        if ended is None:
            return
        counts = self.under_way[ended.which]
        over = ended.which[counts]
        trials = self._trial[over]
        self.pulls[trials] = ended.n_pulls[counts]
        self.wrong[trials] = ~ended.right.all(axis=1)[counts]
        if over.size:
            self._begin(over)
