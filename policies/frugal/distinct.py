"""Representatives are shown to be of different clusters, by rough means of a sketch's arms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmSubset, Payload, Quantised, Reals, Symbol
from clustered_bandit_gym.policies.frugal.memory import recall, top_up
from clustered_bandit_gym.policies.frugal.settings import Levels
from clustered_bandit_gym.policies.sequential.scales import Scales


@dataclass(frozen=True)
class RoughMeans:
    """What the centre knows of d arms at M representatives, for plans.

    Attributes:
        mean: (M, d).
        pulls: (d,), the same at all representatives.
        deviation: standard deviation of one pull, roughly.
    """

    mean: Floats
    pulls: Floats
    deviation: float


def pulls_of(size: Ints | int) -> Ints:
    """Numbers of pulls that can be ordered: 8, 10, 12, 14, 16, ..., four for a factor of two."""
    return np.ceil(8.0 * 2 ** (np.asarray(size) / 4)).astype(np.int64)


def rough_means(
    block: Block, members: np.ndarray, size: Ints, name: str, arms: Ints, levels: Levels
) -> tuple[Payload, ...]:
    """Averages of those of `arms` that `members` (n, d) names, the same for all agents of the block.

    They are rounded to 127 steps between the agent's least and largest one.
    """
    sigma = levels.problem.sigma
    cells = recall(block, name, levels, levels.problem.n_arms)
    chosen = arms[members[0]]
    goal = np.zeros(cells.n.shape)
    goal[:, chosen] = pulls_of(size)[:, None]
    top_up(block, cells, goal)
    block.save(name, cells.memory)
    mean = cells.mean[:, chosen]
    low = mean.min(axis=1)
    width = Quantised(mean.max(axis=1) - low, sigma * np.geomspace(1e-3, 1e6, 64), "up", clip=True)
    place = np.round((mean - low[:, None]) / width.values[:, None] * 127)
    variance = cells.variance()[:, chosen].mean(axis=1) / sigma**2
    return (
        Symbol(np.clip(place, 0, 127).astype(np.int64), among=128),
        Reals(low),
        width,
        Quantised(variance, np.geomspace(1 / 128, 1, 8), "nearest", clip=True),
    )


def shown_distinct(
    federation: Federation, reps: Ints, name: str, pulls: float, arms: Ints, levels: Levels
) -> RoughMeans | None:
    """Rough means of `arms` (d,) once all representatives are shown distinct; None if two look alike.

    Two of them are distinct if their averages of one arm differ. Only pulls made after the choice of
    representatives count.
    """
    m, d, settings = reps.size, arms.size, levels.settings
    scales = Scales.around(4 * levels.distinct, float(np.exp(-levels.distinct)))
    program = partial(rough_means, name=name, arms=arms, levels=levels)
    size = int(np.ceil(4 * np.log2(max(pulls, 8) / 8)))
    members = np.ones(d, dtype=bool)
    mean, off, n = np.zeros((m, d)), np.zeros((m, d)), np.zeros(d)
    a, b = np.triu_indices(m, 1)
    while size < 128:
        down = ArmSubset(np.tile(members, (m, 1))), Symbol(np.full(m, size), among=128)
        place, low, width, variance = federation.local(reps, program, down=down, n_arms=d)
        step = width[:, None] / 127
        mean[:, members] = low[:, None] + step * place
        off[:, members] = rounding(low[:, None], step)
        off[width >= 1e6 * levels.problem.sigma] = np.inf  # the end of its grid: it may be larger
        n[members] = pulls_of(size)
        apart = np.maximum(np.abs(mean[a] - mean[b]) - off[a] - off[b], 0) / levels.problem.sigma
        arm = (apart * np.sqrt(n)).argmax(axis=1)
        apart, pulled = apart[np.arange(a.size), arm], n[arm]
        open_ = scales.pair_evidence(apart, pulled, pulled) < levels.distinct
        if not open_.any():
            return RoughMeans(mean, n, levels.problem.sigma * float(np.sqrt(variance.mean())))
        if np.any(apart[open_] < settings.alike * np.sqrt(2 * variance.mean() / pulled[open_])):
            return None
        members = np.isin(np.arange(d), arm[open_])
        # A difference that is underestimated asks for too many pulls; look again on the way.
        need = 5 * (levels.distinct + settings.slack) / float(apart[open_].min()) ** 2
        need = min(need, 6 * float(n[members].max()))
        size = max(size + 1, int(np.ceil(4 * np.log2(need / 8))))
    return None


def rounding(low: Floats, step: Floats) -> Floats:
    """How far a mean that was sent may be from the average: half a step, and `low` is a float32."""
    return 0.5 * step + np.abs(low) * 2.0**-22 + 2.0**-120
