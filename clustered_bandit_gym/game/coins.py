"""Random numbers at the agents: one stream per agent, drawn for many agents at once."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: np.ndarray) -> np.ndarray:
    """The output function of SplitMix64 (Steele, Lea and Flood, 2014), on uint64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def splitmix(seeds: np.ndarray, start: Ints, size: int) -> np.ndarray:
    """(n, size) uint64: numbers start, start + 1, ...

    of the SplitMix64 streams with these seeds (n,).
    """
    step = start.astype(np.uint64)[:, None] + np.arange(1, size + 1, dtype=np.uint64)
    return _mix(seeds[:, None] + step * _GAMMA)


class Coins:
    """Each agent's own random numbers: they depend on the agent and on how many it has drawn
    before.

    A NumPy generator would be shared by all agents of a block, and the numbers of an agent would
    depend on the other agents of its block.

    Args:
        seed: of the agents' randomness in this play.
        n_agents: N.
    """

    def __init__(self, seed: np.random.SeedSequence, n_agents: int) -> None:
        key = seed.generate_state(1, np.uint64)
        self._seeds = _mix(key + np.arange(n_agents, dtype=np.uint64) * _GAMMA)
        self._drawn: Ints = np.zeros(n_agents, dtype=np.int64)

    def uniform(self, agents: Ints, size: int) -> Floats:
        """(n, size) fresh numbers in [0, 1) of each of `agents` (n,), each agent at most once."""
        words = splitmix(self._seeds[agents], self._drawn[agents], size)
        self._drawn[agents] += size
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
