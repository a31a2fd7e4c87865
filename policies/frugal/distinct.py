"""Representatives are shown to be of different clusters, by rough means of a sketch's arms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil, log

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


def rough_means(
    block: Block, members: np.ndarray, code: Ints, name: str, arms: Ints, levels: Levels
) -> tuple[Payload, ...]:
    """Averages of those of `arms` that `members` (n, d) names, after 8·1.5^code pulls.

    Both are the same for all agents. Averages are rounded to 127 steps between the agent's least
    and largest one.
    """
    sigma = levels.problem.sigma
    cells = recall(block, name, levels, levels.problem.n_arms)
    chosen = arms[members[0]]
    goal = np.zeros(cells.n.shape)
    goal[:, chosen] = pulls_of(code[0])
    top_up(block, cells, goal)
    block.save(name, cells.memory)
    mean = cells.mean[:, chosen]
    low = mean.min(axis=1)
    width = Quantised(mean.max(axis=1) - low, widths(sigma), "up", clip=True)
    place = np.round((mean - low[:, None]) / width.values[:, None] * 127)
    variance = cells.variance()[:, chosen].mean(axis=1) / sigma**2
    return (
        Symbol(np.clip(place, 0, 127).astype(np.int64), among=128),
        Reals(low),
        width,
        Quantised(variance, np.geomspace(1 / 128, 1, 8), "nearest", clip=True),
    )


def pulls_of(code: int) -> int:
    """Numbers of pulls that can be ordered."""
    return ceil(8 * 1.5**code)


def widths(sigma: float) -> Floats:
    """Distances between an agent's least and largest average that can be sent."""
    return sigma * np.geomspace(1e-3, 1e6, 64)


def rounding(low: Floats, width: Floats, sigma: float) -> Floats:
    """How far a mean that was sent may be from the average.

    Half a step, and `low` was a float32. At the end of the grid the true width may be larger.
    """
    off = width / 254 + np.abs(low) * 2.0**-22 + 2.0**-120
    return np.where(width >= widths(sigma)[-1], np.inf, off)


def shown_distinct(
    federation: Federation, reps: Ints, name: str, pulls: float, arms: Ints, levels: Levels
) -> RoughMeans | None:
    """Rough means of `arms` (d,) once all representatives are shown distinct, or None.

    Two are distinct if their averages of one arm differ; None if two look alike. Only pulls made
    after the choice of representatives count.
    """
    m, d, sigma = reps.size, arms.size, levels.problem.sigma
    scales = Scales.around(4 * levels.distinct, float(np.exp(-levels.distinct)))
    program = partial(rough_means, name=name, arms=arms, levels=levels)
    members = np.ones(d, dtype=bool)
    mean, off, n = np.zeros((m, d)), np.zeros((m, d)), np.zeros(d)
    a, b = np.triu_indices(m, 1)
    pairs = np.arange(a.size)
    for code in range(ceil(log(max(pulls, 8) / 8) / log(1.5)), levels.settings.codes):
        down = (
            ArmSubset(np.tile(members, (m, 1))),
            Symbol(np.full(m, code), among=levels.settings.codes),
        )
        place, low, width, variance = federation.local(reps, program, down=down, n_arms=d)
        mean[:, members] = low[:, None] + width[:, None] / 127 * place
        off[:, members] = rounding(low, width, sigma)[:, None]
        n[members] = pulls_of(code)
        apart = np.maximum(np.abs(mean[a] - mean[b]) - off[a] - off[b], 0) / sigma
        arm = (apart * np.sqrt(n)).argmax(axis=1)
        apart = apart[pairs, arm]
        open_ = scales.pair_evidence(apart, n[arm], n[arm]) < levels.distinct
        if not open_.any():
            return RoughMeans(mean, n, sigma * float(np.sqrt(variance.mean())))
        noise = np.sqrt(2 * variance.mean() / n[arm])
        if np.any((apart < levels.settings.alike * noise)[open_]):
            return None
        members = np.isin(np.arange(d), arm[open_])
    return None
