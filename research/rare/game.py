"""One policy on one instance, played with natural, heated or tilted rewards."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import BudgetExceeded
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.harness.play import seeded_globals
from research.rare.source import Tilt, TiltedSource
from research.rare.ways import World

#: First number of the keys of this module's streams; instances and plays of trials have 0 and 1.
_RARE = 2


class Played(NamedTuple):
    """How a play ended.

    Attributes:
        wrong: the policy stopped, and at least one recommendation is wrong.
        finished: the policy stopped.
        arms: (N,) what was recommended, None if it did not stop.
        source: what was drawn.
    """

    wrong: bool
    finished: bool
    arms: Ints | None
    source: TiltedSource


class Game:
    """A policy on the instance that trial 0 of `seed` draws.

    Attributes:
        world: the truth.
        problem: what the policy is told.
        plays: plays so far.
        max_pulls: plays beyond count as unfinished. A tilted play may tie two arms, and would never
            end.
    """

    def __init__(self, policy: Any, env: gym.Env[Any, Any], seed: int) -> None:
        if not hasattr(policy, "solve") and not hasattr(policy, "act"):
            raise TypeError(
                f"a player needs solve(federation) or act(obs, info); {type(policy).__name__} has "
                "neither"
            )
        unwrapped: Any = env.unwrapped
        self._policy, self._env, self._seed = policy, env, int(seed)
        self._instance_seed = trial_seeds(seed, 0).instance
        self.world = World.of(unwrapped.draw_instance(self._instance_seed))
        self.problem = unwrapped.problem_of(self.world.instance)
        self.plays = 0
        self.max_pulls = np.inf

    def rng(self, *key: int) -> np.random.Generator:
        """A stream of its own for each key."""
        return np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(_RARE, 0, *key)))

    def play(
        self, *key: int, tilts: tuple[Tilt, ...] = (), heat: float = 1.0, strict: bool = False
    ) -> Played:
        """The play that belongs to `key`. With `strict` an exception of the policy is raised, else
        it counts as
        unfinished: a policy may fail on averages that contradict each other, and a missing answer
            is not an error."""
        rewards, own = np.random.SeedSequence(self._seed, spawn_key=(_RARE, 1, *key)).spawn(2)
        world = self.world
        source = TiltedSource(
            world.instance,
            world.law,
            np.random.default_rng(rewards),
            tilts,
            heat=heat,
            max_pulls=self.max_pulls,
        )
        self.plays += 1
        player = copy.deepcopy(self._policy)
        federation: Federation | None = None
        with seeded_globals(int(own.generate_state(1, np.uint32)[0])):
            try:
                if hasattr(player, "solve"):
                    unwrapped: Any = self._env.unwrapped
                    federation = unwrapped.federation_on(world.instance, own, source)
                    arms = player.solve(federation)
                    if federation.judgement is None:
                        federation.stop(arms)
                else:
                    federation = self._loop(player, source, own)
            except BudgetExceeded:
                return Played(False, False, None, source)
            except (Exception, SystemExit):
                if strict:
                    raise
                return Played(False, False, None, source)
        judgement = federation.judgement
        if judgement is None:
            return Played(False, False, None, source)
        return Played(not judgement.correct, True, judgement.arms, source)

    def _loop(self, player: Any, source: TiltedSource, own: np.random.SeedSequence) -> Federation:
        seed = int(own.generate_state(1, np.uint64)[0] >> 1)
        options = {"instance_seed": self._instance_seed, "play_seed": own, "source": source}
        obs, info = self._env.reset(seed=seed, options=options)
        if hasattr(player, "reset"):
            player.reset(info, seed=seed)
        over = False
        while not over:
            obs, _, terminated, truncated, info = self._env.step(player.act(obs, info))
            over = terminated or truncated
        unwrapped: Any = self._env.unwrapped
        federation: Federation = unwrapped.federation
        return federation
