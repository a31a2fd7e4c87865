"""Discovery by sketches: agents send coarse codes of a few averages, the centre groups them.

The result is a guess. Nothing here matters for correctness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import Flag, Payload, Symbol
from clustered_bandit_gym.policies.frugal.memory import recall, top_up
from clustered_bandit_gym.policies.frugal.settings import Levels, drawn_at_first
from clustered_bandit_gym.policies.sequential.cells import Cells


@dataclass(frozen=True)
class Protocol:
    """What a sketch is; known to everybody before the play."""

    levels: Levels

    @property
    def arms(self) -> Ints:
        """(d,) the arms of a sketch, spread evenly."""
        k = self.levels.problem.n_arms
        d = min(k, self.levels.settings.sketch_arms)
        return (np.arange(d) * k) // d

    def pulls(self, stage: int) -> int:
        """Pulls of each arm.

        The first sketches take, in all, about the pulls that the representatives' K·M arms are going
        to take if arms differ by √(ση), and fewer for few clusters.
        """
        p, settings, m = self.levels.problem, self.levels.settings, self.levels.m
        hard = min(max(p.sigma / self.levels.eta, 0.25), settings.first * m)
        cells = self.arms.size * min(p.n_agents, drawn_at_first(m))
        first = max(4, ceil(hard * p.n_arms * m * self.levels.beaten / cells))
        return int(first * settings.growth**stage)

    @property
    def stages(self) -> int:
        """The last stage tells a difference of η."""
        enough = self.levels.settings.enough * (self.levels.problem.sigma / self.levels.eta) ** 2
        stage = 0
        while self.pulls(stage) < enough and stage < self.levels.settings.codes - 1:
            stage += 1
        return stage + 1


def _sketch_cells(block: Block, stage: Ints, protocol: Protocol) -> Cells:
    arms = protocol.arms
    cells = recall(block, "sketch", protocol.levels, arms.size)
    goal = np.full(cells.n.shape, float(protocol.pulls(int(stage[0]))))
    top_up(block, cells, goal, arms)
    block.save("sketch", cells.memory)
    return cells


def shows_noise(block: Block, stage: Ints, protocol: Protocol) -> Payload:
    """Whether the averages of a sketch differ by no more than noise."""
    cells = _sketch_cells(block, stage, protocol)
    noise = (cells.variance() / cells.n).mean(axis=1)
    return Flag(cells.mean.var(axis=1) < protocol.levels.settings.noise * noise)


def sketch(block: Block, stage: Ints, protocol: Protocol) -> Payload:
    """A symbol for each arm of the sketch: where its average lies among the agent's averages."""
    mean = _sketch_cells(block, stage, protocol).mean
    # Finer codes where clusters are few, so that bits are few anyway. Width in units of the spread.
    size, width = (8, 0.5) if protocol.levels.m <= protocol.levels.settings.few else (4, 0.9)
    spread = np.maximum(mean.std(axis=1, keepdims=True), 1e-300)
    place = np.floor((mean - mean.mean(axis=1, keepdims=True)) / (spread * width))
    return Symbol(np.clip(place + size // 2, 0, size - 1).astype(np.int64), among=size)


def guesses(federation: Federation, protocol: Protocol) -> Iterator[tuple[Ints, int]]:
    """Yields guesses: (M,) agents that seem to be of different clusters, and the pulls of a sketch.

    Each guess comes from more agents, in case a cluster was missed, or from more pulls. There are no
    more when sketches that could tell a difference of η do not tell groups apart.
    """
    levels, n = protocol.levels, federation.problem.n_agents
    order = federation.rng.permutation(n)
    drawn = min(n, drawn_at_first(levels.m) + 2)
    codes = np.zeros((n, protocol.arms.size))

    def ask(agents: Ints, program: object) -> np.ndarray:
        down = Symbol(np.full(agents.size, stage), among=levels.settings.codes)
        run = partial(program, protocol=protocol)  # type: ignore[arg-type, call-overload]
        return np.asarray(federation.local(agents, run, down=down, n_arms=protocol.arms.size))

    for stage in range(protocol.stages):
        # A few agents see whether this stage is worth a sketch.
        if ask(np.sort(order[: levels.m]), shows_noise).mean() > 0.5:
            continue
        fresh = np.sort(order[:drawn])
        while fresh.size:
            codes[fresh] = ask(fresh, sketch)
            asked = np.sort(order[:drawn])
            middle, quality = group(codes[asked], levels.m)
            if quality >= levels.settings.apart:
                yield asked[middle], protocol.pulls(stage)
            more = max(levels.m, 8) if fresh.size == asked.size else 0
            fresh = np.sort(order[drawn : drawn + more])
            drawn += fresh.size


def group(points: Floats, n_groups: int) -> tuple[Ints, float]:
    """The middle point of each of `n_groups` groups of points (n, d), and how well groups are separated.

    Returns (n_groups,) rows, and the distance of the closest two groups in standard deviations; 0 if
    there are fewer groups.
    """
    n, d = points.shape
    labels = np.zeros(n, dtype=np.int64)
    if n >= n_groups:
        labels = fcluster(linkage(points, "ward"), n_groups, "maxclust").astype(np.int64) - 1
    size = np.bincount(labels)
    if size.size < n_groups:
        return np.zeros(n_groups, dtype=np.int64), 0.0
    centre = np.array([points[labels == g].mean(axis=0) for g in range(n_groups)])
    away = ((points - centre[labels]) ** 2).sum(axis=1)
    middle = np.array([np.where(labels == g, away, np.inf).argmin() for g in range(n_groups)])
    # Rounding alone has a variance of 1/12: a smaller scatter is not believed.
    within = max(away.sum() / max(1, n - n_groups) / d, 1 / 12)
    apart = ((centre[:, None] - centre) ** 2).sum(axis=2) / within
    apart -= d * (1 / size[:, None] + 1 / size)
    np.fill_diagonal(apart, np.inf)
    return middle, float(np.sqrt(max(apart.min(), 0.0)))
