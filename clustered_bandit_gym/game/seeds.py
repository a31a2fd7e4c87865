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
from numpy.random.bit_generator import ISpawnableSeedSequence

from clustered_bandit_gym.errors import UserError

Seed = int | np.random.SeedSequence

# The kinds of stream; the first number of a spawn key.
_INSTANCE, _PLAY = 0, 1


class TrialSeeds(NamedTuple):
    """Streams of one trial: the instance it draws, and the play on it (rewards, the policy's own
    randomness)."""

    instance: np.random.SeedSequence
    play: np.random.SeedSequence

    @property
    def policy(self) -> int:
        """A 63-bit seed for a player that keeps its own generator; apart from the stream of
        rewards."""
        child = np.random.SeedSequence(self.play.entropy, spawn_key=(*self.play.spawn_key, 1))
        return int(child.generate_state(1, np.uint64)[0] >> 1)


def trial_seeds(seed: int, trial: int) -> TrialSeeds:
    """Seeds of trial `trial` of a run with root seed `seed` (whole numbers ≥ 0)."""
    for name, value in (("seed", seed), ("trial", trial)):
        if isinstance(value, bool) or int(value) != value or value < 0:
            raise UserError(f"{name} must be a whole number >= 0, got {value!r}")
    return TrialSeeds(
        np.random.SeedSequence(int(seed), spawn_key=(_INSTANCE, int(trial))),
        np.random.SeedSequence(int(seed), spawn_key=(_PLAY, int(trial))),
    )


def root_seed(seed: int | str) -> int:
    """The root seed of a run: `seed` itself, or 128 fresh bits for "secret", so that no policy can
    have been made for the instances and the noise of the run."""
    if isinstance(seed, str):
        if seed == "secret":
            return secrets.randbits(128)
        raise UserError(f'seed must be a whole number >= 0, or "secret", got {seed!r}')
    return seed


def episode_seeds(
    rng: np.random.Generator,
) -> tuple[np.random.SeedSequence, np.random.SeedSequence]:
    """Seeds of the next episode's instance and rewards, from the environment's own generator: 128
    fresh bits each."""
    words = rng.integers(2**32, size=8, dtype=np.uint32).tolist()
    return np.random.SeedSequence(words[:4]), np.random.SeedSequence(words[4:])


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Inside, the global generators of NumPy and of the standard library start from `seed`."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (the global state is the point)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


#: Keys of the streams of a play: the rewards, the policy's own randomness, and that of the agents.
REWARDS, POLICY, AGENTS = 0, 1, 2


def play_stream(seed: int | np.random.SeedSequence, key: int) -> np.random.SeedSequence:
    """The seed of one stream of the play that has `seed`."""
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    # Children by key, not by spawn(): spawn() counts, and a seed sequence used twice would give
    # other streams.
    child = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, key))
    # Hashed once more: a generator shows the seed it was made from, and the root would lead a
    # policy to the rewards.
    return np.random.SeedSequence(child.generate_state(8).tolist())


class _SealedSeed(ISpawnableSeedSequence):
    """A seed sequence that makes generators and shows nothing: no `entropy`, no `spawn_key`."""

    def __init__(self, inner: np.random.SeedSequence) -> None:
        self.__inner = inner

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return self.__inner.generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[_SealedSeed]:
        return [_SealedSeed(child) for child in self.__inner.spawn(n_children)]


def sealed_generator(seed: np.random.SeedSequence) -> np.random.Generator:
    """`default_rng(seed)` that does not show its seed: the same numbers, and `spawn` works."""
    sealed: Any = _SealedSeed(
        seed
    )  # NumPy takes any ISeedSequence; its annotations name SeedSequence alone
    return np.random.Generator(np.random.PCG64(sealed))
