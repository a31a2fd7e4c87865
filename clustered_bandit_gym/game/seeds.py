"""Seeds of a trial: a pure function of the root seed and the trial's number.

Neither the policy nor the environment's settings nor the order of work enters. So trial t meets the
same instance and the same stream of noise under every policy (common random numbers: what policies
share cancels in paired ratios), a trial can be played again alone, and processes cannot change a
result.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.random import SeedSequence

from clustered_bandit_gym._types import Floats, Ints, Rng, Words
from clustered_bandit_gym.game.checks import whole

Seed = int | SeedSequence
#: Keys of the streams of a play: the rewards, the policy's own randomness, and that of the agents.
REWARDS = 0
POLICY = 1
AGENTS = 2


class TrialSeeds(NamedTuple):
    """Streams of one trial: the instance it draws, and the play on it (rewards, the policy's own
    randomness)."""

    instance: SeedSequence
    play: SeedSequence

    @property
    def policy(self) -> int:
        """A 63-bit seed for a player that keeps its own generator; apart from the rewards."""
        child = child_seed(self.play, POLICY)
        return int(child.generate_state(1, np.uint64)[0] >> 1)


def trial_seeds(seed: int, trial: int) -> TrialSeeds:
    """Seeds of trial `trial` of a run with root seed `seed` (whole numbers ≥ 0)."""
    entropy = whole(seed, "seed", 0)
    number = whole(trial, "trial", 0)
    return TrialSeeds(
        SeedSequence(entropy, spawn_key=(0, number)),
        SeedSequence(entropy, spawn_key=(1, number)),
    )


def root_seed(seed: int | str) -> int:
    """The root seed of a run: `seed` itself, or 128 fresh bits for "secret", so that no policy can
    have been made for the instances and the noise of the run."""
    return secrets.randbits(128) if seed == "secret" else whole(seed, 'seed, unless "secret",', 0)


def episode_seeds(rng: Rng) -> tuple[SeedSequence, SeedSequence]:
    """Seeds of the next episode's instance and rewards, from the environment's own generator: 128
    fresh bits each."""
    words = rng.integers(2**32, size=8, dtype=np.uint32).tolist()
    return SeedSequence(words[:4]), SeedSequence(words[4:])


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Inside, the global generators of NumPy and of the standard library start from `seed`."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (the global state is the point)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def child_seed(seed: SeedSequence, *keys: int) -> SeedSequence:
    """A child by its keys. `spawn()` counts: a seed sequence used twice would give other streams."""
    return SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *keys))


def play_stream(seed: Seed, key: int) -> SeedSequence:
    """The seed of one stream of the play that has `seed`."""
    root = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
    # Hashed once more: a generator shows the seed it was made from, and the root would lead a
    # policy to the rewards.
    return SeedSequence(child_seed(root, key).generate_state(8).tolist())


def splitmix(seeds: Words, start: Ints, size: int) -> Words:
    """(n, size) numbers start, start + 1, ... of the SplitMix64 streams with these seeds (n,), by
    Steele, Lea and Flood (2014)."""
    step = start[:, None] + np.arange(1, size + 1)
    z = seeds[:, None] + step.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> 30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> 27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> 31))


class AgentStreams:
    """Each agent's own random numbers: they depend on the agent and on how many it has drawn.

    A NumPy generator would be shared by all agents of a block, and the numbers of an agent would
    depend on the other agents of its block.

    Args:
        seed: of the agents' randomness in this play.
        n_agents: N.
    """

    def __init__(self, seed: SeedSequence, n_agents: int) -> None:
        # One stream of seeds: number i of it belongs to agent i.
        key: Any = seed.generate_state(1, np.uint64)
        self._seeds: Words = splitmix(key, np.array([-1]), n_agents)[0]
        self._drawn = np.zeros(n_agents, dtype=int)

    def uniform(self, agents: Ints, size: int) -> Floats:
        """(n, size) fresh numbers in [0, 1) of each of `agents` (n,), each agent at most once."""
        words = splitmix(self._seeds[agents], self._drawn[agents], size)
        self._drawn[agents] += size
        return np.asarray((words >> 11) * 2.0**-53)
