"""The `info` of a vector environment, filled for many sub-environments at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym._types import Floats, Ints

Bools = np.ndarray


class Ended(NamedTuple):
    """n episodes that ended in one step. No Python object per episode: most steps end a few.

    Attributes:
        which: (n,) numbers of the sub-environments.
        stopped: (n,) the learner stopped; False where the limit ended the episode.
        pulls, means: (n, N, K) the last observation.
        right: (n, N) the recommendation was a best arm; False where there was none.
        wrong: (n,) agents that are charged as wrong.
        best_arms: (n, N) the truth.
        n_pulls: (n,) pulls of the episode.
        communication: (n,) each: `cost`, `bits_up`, ...
    """

    which: Ints
    stopped: Bools
    pulls: Ints
    means: Floats
    right: Bools
    wrong: Ints
    best_arms: Ints
    n_pulls: Ints
    communication: dict[str, np.ndarray]


class Step(NamedTuple):
    """One step of all sub-environments, in compact form.

    Attributes:
        rewards, terminated, truncated, samples: (num_envs,).
        began: (n,) sub-environments whose step began an episode instead of acting.
        ended: the episodes that ended; None if none did.
    """

    rewards: Floats
    terminated: Bools
    truncated: Bools
    samples: Floats
    began: Ints
    ended: Ended | None


def enter(infos: dict[str, Any], mask: Bools, values: dict[str, Any]) -> None:
    """Enter `values`, arrays (num_envs, ...), with `mask` (num_envs,) beside each, as Gymnasium does (`_sample`).

    Rows where the mask is False mean nothing. Gymnasium has zeros there; to write them would double the time of a step.
    """
    for key, value in values.items():
        if isinstance(value, dict):
            infos[key] = {}
            enter(infos[key], mask, value)
        else:
            infos[key] = value
        infos["_" + key] = mask


def as_mask(which: Ints, num_envs: int) -> Bools:
    """(num_envs,) booleans."""
    mask = np.zeros(num_envs, dtype=np.bool_)
    mask[which] = True
    return mask
